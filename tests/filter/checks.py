"""What holds of every request that leaves the filter, whatever the chat: each message is sent, covered, or missed.

`Call` is one request as Open WebUI had it, with the answer of the service and the list that a model gets.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from service.planning.policy import find_request_room
from service.request.fit import LEFT_OUT
from service.request.record import is_record
from service.request.shorter import NO_FILE
from service.text import tokens
from service.transcript import Native, count_sent_tokens, read_text
from service.usecases import serve
from tests.builders import Json
from tests.filter.chat import pairs_are_whole

_SHORTENED = ("characters were left out here", NO_FILE, "…")
_COUNTED = re.compile(r"left out (\d+) older messages", re.IGNORECASE)
_ALIKE = 8  # characters with which a shortened text begins as the whole one
_ROUNDING = 0.98  # of the room: tools are JSON with other blanks here


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model.

    Attributes:
        given: the list that Open WebUI had.
        answer: of the service.
        sent: the list that the model gets.
        tools: that go along.
        window: the model's, in tokens.
        factor: what the model's provider counts for one of our tokens.
        missed: how many messages the first call of the turn has left out, in a later one.
    """

    given: Sequence[Native]
    answer: Json
    sent: Sequence[Native]
    tools: Sequence[Json]
    window: int
    factor: float = 1.0
    missed: int = 0

    @property
    def beside(self) -> int:
        """Tokens that go along and are no messages."""
        return tokens.count(json.dumps(self.tools, ensure_ascii=False)) if self.tools else 0

    def size(self, messages: Sequence[Native]) -> int:
        """Tokens of a list as the provider counts it."""
        return int((count_sent_tokens(messages) + self.beside) * self.factor)

    @property
    def record(self) -> int | None:
        """The place in `sent` of a summary that was put in by this call."""
        made = self.answer["messages"] or []
        new = (place for place, one in enumerate(made) if isinstance(one, dict) and one["role"] == "user")
        return next((place for place in new if is_record(self.sent[place : place + 2])), None)

    @property
    def is_headed(self) -> bool:
        """Whether a system message was put in, which the list did not begin with."""
        return self.sent[0]["role"] == "system" and self.given[0]["role"] not in ("system", "developer")

    @property
    def covered(self) -> Sequence[Native]:
        """What the summary stands for."""
        if self.record is None:
            return []
        begin = self.record - self.is_headed
        return self.given[begin : begin + self.answer["covered_messages"]]

    @property
    def uncut(self) -> Sequence[Native]:
        """What would be sent if nothing but the summary were put in."""
        if self.record is None:
            return self.given
        begin = self.record - self.is_headed
        rest = self.given[begin + len(self.covered) :]
        return [*self.given[:begin], *self.sent[self.record : self.record + 2], *rest]

    @property
    def left_out(self) -> int:
        """How many messages this call has left out."""
        return int(self.answer["left_out"]) - self.missed

    @property
    def is_cut(self) -> bool:
        """Whether anything is missing that no summary covers."""
        return self.left_out > 0 or any(map(_is_shortened, self.sent, self.uncut))

    def check(self) -> None:
        """Nothing is above the window, cut without need, or gone without a word, and no chat template refuses it."""
        self._fits()
        self._is_accounted_for()
        assert pairs_are_whole(self.sent), "broken pairs"
        suits_strict_templates(self.given, self.sent)

    def _fits(self) -> None:
        assert self.size(self.sent) <= self.window, f"above the window: {self.size(self.sent)} of {self.window}"
        if self.is_cut:
            room = find_request_room(self.window, 0, self.beside)
            assert self.size(self.uncut) > room * _ROUNDING, f"cut below the window: {self.size(self.uncut)} of {room}"
            assert self.answer["status_text"], "cut without a word to the user"

    def _is_accounted_for(self) -> None:
        inserted = 2 * (self.record is not None) + self.is_headed
        kept = len(self.sent) - inserted
        assert kept + len(self.covered) + self.left_out == len(self.given), "lost"
        told = _COUNTED.search(self.answer["status_text"] or "")
        assert int(told[1] if told else 0) == self.answer["left_out"], f"untrue: {self.answer['status_text']}"
        if self.left_out:
            assert LEFT_OUT in read_text(self.sent[0]), "silent: the model is not told what is missing"
            assert self.sent[0]["role"] == "system"
        made = self.answer["messages"]
        numbers = [-1, *(one for one in made or [] if isinstance(one, int)), len(self.given)]
        for place, one in enumerate(made or []):
            if isinstance(one, int):
                assert self.sent[place] == self.given[one]
            elif not self._is_new(place):
                before = max(number for number in [-1, *made[:place]] if isinstance(number, int))
                after = min(number for number in numbers if number > before)
                between = self.given[before + 1 : after]
                assert any(_is_part(one, whole) for whole in between), f"nobody said {read_text(one)[:80]!r}"
        if self.record is not None:
            assert self.sent[self.record + 2]["role"] == "user"

    def _is_new(self, place: int) -> bool:
        in_record = self.record is not None and place in (self.record, self.record + 1)
        return in_record or (place == 0 and self.is_headed)


def listen(loaded: Any) -> dict[str, list[Json]]:
    """What the service answers to the requests of a filter from now on, by the turn."""
    answers: dict[str, list[Json]] = {}
    send = loaded.send

    async def listening(method: str, path: str, told: Json, seconds: float, turn: str = "") -> Json:
        answer: Json = await send(method, path, told, seconds, turn)
        if path == "compress":
            answers.setdefault(turn, []).append(answer)
        return answer

    loaded.send = listening
    return answers


@contextmanager
def nobody_waits() -> Iterator[None]:
    """No request waits for a summary, as if nobody were writing one."""

    async def never(*_: object) -> bool:
        return False

    with patch.object(serve, "is_worked_on", never):
        yield


def _is_shortened(sent: Native, whole: Native) -> bool:
    return sent != whole and LEFT_OUT not in read_text(sent)


def _is_part(shorter: Native, whole: Native) -> bool:
    """Whether a message is another one with less in it, or with the note behind it."""
    if any(shorter.get(key) != whole.get(key) for key in ("role", "tool_call_id")):
        return False
    text, before = read_text(shorter), read_text(whole)
    return text.startswith(before[:_ALIKE]) or text.startswith(_SHORTENED)


def suits_strict_templates(given: Sequence[Native], sent: Sequence[Native]) -> None:
    """Checks what some chat templates ask for: one system message, in front, and roles that take turns."""
    systems = [place for place, one in enumerate(sent) if one["role"] == "system"]
    before = sum(one["role"] == "system" for one in given)
    assert len(systems) <= max(before, 1), "a second system message"
    if before <= 1 and given[0]["role"] in ("system", "user"):
        assert systems in ([], [0]), "a system message that is not the first one"
    if _take_turns(given):
        assert _take_turns(sent), [one["role"] for one in sent]


def _take_turns(messages: Sequence[Native]) -> bool:
    """Whether questions and answers alternate, beginning with a question; an answer has its calls and results."""
    speakers = []
    is_calling = False
    for one in messages:
        if one["role"] == "system":
            continue
        if not is_calling:
            speakers.append(one["role"])
        is_calling = one["role"] == "tool" or bool(one.get("tool_calls"))
    return speakers == [("user", "assistant")[place % 2] for place in range(len(speakers))]
