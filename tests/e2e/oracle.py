"""What is wrong with a request, found without the filter's or the service's own view of it.

In: a `Call`, which has what Open WebUI would have sent, what was sent, the branch, the stored summary that was put in
and the status line. Out: findings, each a kind and a word about it. Every text of the walk has a mark of its own in
each of its lines, by which it is known wherever it turns up.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from service.text import tokens
from service.transcript import count_sent_tokens
from tests.builders import Json
from tests.filter.chat import pairs_are_whole

MARK = re.compile(r"z\d{6}")
RECORD = "[Previous conversation summary: "
GONE = " characters were left out here"
NO_FILE = "[A picture or file was left out here: it does not fit into the model's window.]"
LEFT_OUT = re.compile(r"left out (\d+) older messages", re.IGNORECASE)
IMAGES = "Here are the images from the tool results above."
COUNTED = 0.98  # of a window: cuts go in steps, and a note takes room
AWAY = 0.75  # where nothing is counted, because the service did not answer


@dataclass(frozen=True)
class Call:
    """One call of the model.

    `until` and `covered` say where the summary in it ends, and how many messages that are. Of these, `front` stand
    before it: what changes in each turn is not covered.
    """

    whole: Sequence[Json]  # as Open WebUI would have sent it
    sent: Sequence[Json]
    path: Sequence[Json]  # saved messages, root first
    tools: Sequence[Json]
    window: int
    line: str
    guided: bool
    answered: bool  # by the service, in this turn
    until: str | None
    covered: int
    front: int = 0

    @property
    def chat(self) -> list[Json]:
        """What was there of the conversation."""
        return [one for one in self.whole if one["role"] != "system"]

    @property
    def systems(self) -> list[Json]:
        """The system messages that Open WebUI would have sent."""
        return [one for one in self.whole if one["role"] == "system"]

    @property
    def beside(self) -> int:
        """Tokens of tools."""
        return tokens.count(json.dumps(self.tools)) if self.tools else 0

    @property
    def room(self) -> float:
        """Tokens that surely fit below the window with an answer."""
        share = COUNTED if self.answered else AWAY
        return share * (self.window - self.window // 8)

    @property
    def sizes(self) -> str:
        """What was sent, for a finding."""
        sizes = ", ".join(f"{one['role']} {count_sent_tokens([one])}" for one in self.sent)
        return f"tools {self.beside}, {sizes}"

    @property
    def record(self) -> list[Json]:
        """The summary, and the model's answer to it."""
        return record_in(self.sent)


def place_of_record(said: Sequence[Json]) -> int | None:
    """Where the summary stands among what is no system message."""
    places = range(len(said))
    return next((place for place in places if str(said[place]["content"]).startswith(RECORD)), None)


def record_in(sent: Sequence[Json]) -> list[Json]:
    """The summary in a request, and the model's answer to it."""
    said = [one for one in sent if one["role"] != "system"]
    place = place_of_record(said)
    return [] if place is None else said[place : place + 2]


def marks(of: object) -> set[str]:
    """The marks in a text, or anything else."""
    return set(MARK.findall(json.dumps(of)))


def findings(call: Call) -> Iterator[tuple[str, str]]:
    """All that is wrong."""
    rest = [one for one in call.sent if one["role"] != "system" and one not in call.record]
    kept = aligned(call.chat, rest)
    if kept is None:
        yield "unlike", f"{outline(call.chat)} became {outline(rest)}"
        return
    yield from foreign(call)
    if not pairs_are_whole(rest):
        yield "pairs", outline(rest)
    owners = list(owners_in(call))
    missing = [place for place in range(len(call.chat)) if place not in kept]
    dropped = [place for place in missing if owners[place] >= call.covered]
    shorter = [place for place, one in kept.items() if one != call.chat[place]]
    yield from untold(call, len(dropped), len(shorter))
    if twice := [place for place in kept if call.front <= owners[place] < call.covered]:
        yield "twice", f"{twice} are covered and sent"
    questions = [place for place, one in enumerate(call.chat) if is_question(one)]
    # While the service is away, the filter leaves out whole turns down to the newest question, and no more.
    newest = questions[-2:] if call.guided and call.answered else questions[-1:]
    turn = [*call.systems, *call.record, *call.chat[newest[0] :]]  # which the record has no room to spare for
    alone = call.beside + count_sent_tokens(turn)
    if lost := [place for place in newest if place in missing or (place in shorter and alone <= call.room)]:
        yield "questions", f"{lost} of {outline(call.chat)}, {alone} of {call.window}: {call.sizes}, told: {call.line}"
    yield from measured(call, dropped, shorter)


def aligned(whole: Sequence[Json], rest: Sequence[Json]) -> dict[int, Json] | None:
    """What was sent of each message, by its place; None when something else was sent, or in another order."""
    kept: dict[int, Json] = {}
    place = len(whole)
    for one in reversed(rest):
        place = next((at for at in reversed(range(place)) if is_of(one, whole[at])), -1)
        if place < 0:
            return None
        kept[place] = one
    return kept


def is_of(sent: Json, whole: Json) -> bool:
    """Whether this is a message, perhaps without the middle of its text or without its pictures."""
    same = all(sent.get(key) == whole.get(key) for key in ("role", "tool_calls", "tool_call_id"))
    begins, cut, _ = plain(sent).partition("\n[… ")
    is_cut = bool(cut) and GONE in plain(sent) and begins in plain(whole)
    return same and (sent["content"] == whole["content"] or is_cut or lacks_pictures(sent["content"], whole["content"]))


def lacks_pictures(sent: Any, whole: Any) -> bool:
    """Whether parts are the same, but for marks in place of pictures."""
    if not (isinstance(sent, list) and isinstance(whole, list)) or len(sent) != len(whole):
        return False
    marked = ({"type": "text", "text": NO_FILE} if part["type"] == "image_url" else part for part in whole)
    return all(one in (part, mark) for one, part, mark in zip(sent, whole, marked, strict=True))


def foreign(call: Call) -> Iterator[tuple[str, str]]:
    """Texts of other chats or branches, or that were edited since; and summaries of them."""
    if other := marks(call.sent) - marks(call.path) - marks(call.whole):
        yield "leaks", f"{sorted(other)} are not of this branch as it is"
    if not call.record:
        return
    covered = call.path[call.front : call.covered]
    if call.until is None:
        yield "stale", f"this summary is none of the chat's: {plain(call.record[0])[:300]}"
    elif not covered or covered[-1]["id"] != call.until:
        yield "stale", f"a summary up to {call.until} was put in for {call.covered} messages"
    elif beyond := marks(call.record) - marks(covered):
        yield "stale", f"{sorted(beyond)} are not of what the summary covers"


def untold(call: Call, dropped: int, shorter: int) -> Iterator[tuple[str, str]]:
    """What is missing, and the status line does not say so."""
    told = LEFT_OUT.search(call.line)
    if (dropped and not told) or (shorter and not (told or re.search("left out|shortened", call.line, re.IGNORECASE))):
        yield "silent", f"{dropped} dropped, {shorter} shortened, told: {call.line}"
    elif told and int(told[1]) != dropped:
        yield "untrue", f"{dropped} dropped, told: {call.line}"


def measured(call: Call, dropped: Sequence[int], shorter: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Sizes: above the window, or cut where all had room."""
    size = call.beside + count_sent_tokens(call.sent)
    is_least = not call.answered and sum(map(is_question, call.sent)) == 1 + bool(call.record)
    if size > call.window and not is_least:
        yield "over", f"{size} of {call.window}: {call.sizes}, told: {call.line}"
    if not (dropped or shorter):
        return
    owners = list(owners_in(call))
    covered = range(call.front, call.covered)
    uncovered = [one for one, owner in zip(call.chat, owners, strict=True) if owner not in covered]
    fits = call.beside + count_sent_tokens([*call.systems, *call.record, *uncovered])
    if fits <= call.room:
        yield "cut", f"{len(dropped)} dropped, {len(shorter)} shortened, {fits} of {call.window}, told: {call.line}"


def owners_in(call: Call) -> Iterator[int]:
    """The place in the branch of which each message of the conversation is; past its end for what is not saved."""
    places = {mark: place for place, row in enumerate(call.path) for mark in marks(row)}
    owner = 0
    for one in call.chat:
        found = sorted(marks(one))
        owner = places.get(found[0], len(call.path)) if found else owner
        yield owner


def is_question(one: Json) -> bool:
    """Whether a user wrote it."""
    return one["role"] == "user" and not plain(one).startswith(IMAGES)


def plain(one: Json) -> str:
    """The text of a message."""
    content = one.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def outline(messages: Sequence[Json]) -> str:
    """Roles and marks, for a finding."""
    return " ".join(f"{one['role']}:{','.join(sorted(marks(one))) or plain(one)[:20]}" for one in messages)
