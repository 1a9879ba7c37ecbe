"""Makes a request fit into the room that the model's window leaves for its messages. Pure.

In: the messages with their token counts. Out: those that are sent. What is missed least goes first
(ADR 7); each method of `_Cut` is one way to make room, and does nothing once the request fits.
Results, turns and calls go oldest first and in steps, so that requests that grow keep their
beginning, which providers cache.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from service.request.record import OFFERED
from service.request.shorter import (
    is_system,
    parts_beside_text,
    with_note,
    without_arguments,
    without_files,
    without_middle,
)
from service.text.tokens import MESSAGE_TOKENS
from service.transcript import Native, sent_tokens, text_of
from service.transcript.native import TOOL_IMAGES

LEFT_OUT = "[Older messages were left out here: they do not fit into the model's window.]"
_RESULT_TOKENS, _LONG_RESULT_TOKENS = 150, 250  # left of an old result, if it has more than these
_LEAST_TOKENS = 100  # left of each text as long as pictures and arguments of calls can go instead


class Piece(NamedTuple):
    """A message; `place` is its index in the host's request, None if it is new there."""

    message: Native
    tokens: int
    place: int | None


class FittedMessages(NamedTuple):
    """The messages to send.

    `left_out` counts the host's messages that are missing. `results` says whether old tool results
    lost a part, `shortened` whether other texts, pictures or arguments of calls did.
    """

    pieces: tuple[Piece, ...]
    left_out: int
    results: bool
    shortened: bool
    tokens: int


def note_of(recall: bool) -> str:
    """Tells the model that messages were left out and, with `recall`, how to look them up."""
    return f"{LEFT_OUT}\n{OFFERED}" if recall else LEFT_OUT


def told(fitted: FittedMessages) -> str:
    """The part of the user's status line about what was taken away; empty if nothing was."""
    if fitted.left_out:
        return f"left out {fitted.left_out} older messages to make room"
    if fitted.shortened:
        return "left out parts of long messages to make room"
    return "shortened older tool results to make room" if fitted.results else ""


def is_question(message: Native) -> bool:
    """Whether a user wrote it."""
    return message.get("role") == "user" and not text_of(message).startswith(TOOL_IMAGES)


def fit(
    pieces: Sequence[Piece],
    *,
    room: int,
    opening: int,
    newest: int,
    step: int,
    note: str,
    count: Callable[[str], int],
) -> FittedMessages:
    """The request in `room` tokens; where it cannot be so small, the smallest that can be read.

    Args:
        pieces: all messages.
        room: tokens that they may have together; may be negative.
        opening: number of leading system messages and the two of our record, if it is there.
        newest: place in `pieces` of the newest question, or of the one that a guided regeneration
            answers again; their number if there is none.
        step: tokens by which the beginning of the request changes at once.
        note: tells the model that messages were left out.
        count: counts the tokens of a text.
    """
    cut = _Cut(pieces, room, count)
    if cut.excess <= 0:
        return cut.fitted("")
    messages = [piece.message for piece in pieces]
    shape = _shape_of(messages, opening, newest)
    prompts = range(sum(map(is_system, messages[:opening])))
    texts = range(opening, len(messages))
    if any(LEFT_OUT in text_of(messages[place]) for place in prompts):
        note = ""

    cut.shorten_results(range(opening, shape.unread), step)
    if note and cut.excess > 0:
        cut.room -= count(f"\n\n{note}") + MESSAGE_TOKENS
    cut.leave_out(shape.turns, step)
    # Else a text that nearly fills the window would cost the model all of its earlier calls.
    cut.shorten_texts(texts, max(room // 2, _LEAST_TOKENS), step)
    cut.leave_out(shape.calls[:-1], step)
    cut.replace_parts([*texts, *prompts])
    cut.shorten_texts(texts, _LEAST_TOKENS)
    cut.shorten_texts([*texts, *prompts], _LEAST_TOKENS)
    cut.room = room
    legible = cut.fitted(note)
    cut.leave_out(shape.replies)
    cut.shorten_texts(texts, 1)
    cut.shorten_texts([*texts, *prompts], 1)
    smallest = cut.fitted(note)
    # A window may be larger than somebody says; then the question should still be there.
    return smallest if smallest.tokens <= room else legible


class _Shape(NamedTuple):
    """Which messages of a request belong together."""

    turns: list[range]  # before the one that runs
    calls: list[range]  # of the running turn, each with its results
    replies: list[range]  # all that the running turn has beside its questions, calls too
    unread: int  # place of the first call of which the model may not have read the results


def _shape_of(messages: Sequence[Native], opening: int, newest: int) -> _Shape:
    end = len(messages)
    running = opening if newest == end else max(newest, opening)
    questions = [place for place in range(opening, end) if is_question(messages[place])]
    turns = _ranges(opening, questions, running)
    units = _units(messages, running)
    calls = [unit for unit in units if messages[unit.start].get("tool_calls")]
    replies = [unit for unit in units if unit.start not in questions]
    if newest == end:
        replies = replies[:-1]  # else nothing would be left to answer
    return _Shape(turns, calls, replies, calls[-1].start if calls else running)


def _units(messages: Sequence[Native], first: int) -> list[range]:
    """The messages from `first` on, each with what belongs to it."""
    end = len(messages)
    return _ranges(first, [place for place in range(end) if _is_start(messages[place])], end)


def _is_start(message: Native) -> bool:
    """Whether it does not belong to the call before it."""
    role = message.get("role")
    return is_question(message) if role == "user" else role != "tool"


def _ranges(start: int, inner: Iterable[int], end: int) -> list[range]:
    """The ranges between `start` and `end`, cut at the `inner` places."""
    bounds = [start, *(place for place in inner if start < place < end), end]
    return [range(*pair) for pair in pairwise(bounds) if pair[0] < pair[1]]


class _Cut:
    """A request while it gets smaller."""

    def __init__(self, pieces: Sequence[Piece], room: int, count: Callable[[str], int]) -> None:
        self.pieces = list(pieces)
        self.room = room
        self._count = cache(count)  # it counts most texts twice
        self._tokens = sum(piece.tokens for piece in pieces)
        self._gone: set[int] = set()
        self._rest: dict[int, int] = {}  # of a message, the tokens beside its text
        self._results = self._shortened = False

    @property
    def excess(self) -> int:
        """Tokens that the request has too much."""
        return self._tokens - self.room

    def shorten_results(self, places: Iterable[int], step: int) -> None:
        """Shortens long tool results, which the model has read."""
        goal = self._tokens - _in_steps(self.excess, step)
        for place in places:
            if self._tokens <= goal:
                return
            is_result = self.pieces[place].message.get("role") == "tool"
            if is_result and self._text_tokens(place) > _LONG_RESULT_TOKENS:
                self._shorten(place, _RESULT_TOKENS)
                self._results = True

    def leave_out(self, ranges: Iterable[range], step: int = 1) -> None:
        """Leaves out whole ranges of messages."""
        goal = self._tokens - _in_steps(self.excess, step)
        for places in ranges:
            if self._tokens <= goal:
                return
            left = [place for place in places if place not in self._gone]
            self._tokens -= sum(self.pieces[place].tokens for place in left)
            self._gone.update(left)

    def shorten_texts(self, places: Iterable[int], least: int, step: int = 1) -> None:
        """Shortens the longest texts, all to the same length of at least `least` tokens."""
        if self.excess <= 0:
            return
        sizes = self._text_sizes(places)
        most = sum(sizes.values()) - _in_steps(self.excess, step)
        level = max(_level(sizes.values(), most), least)
        for place, size in sizes.items():
            if size > level:
                self._shorten(place, level)
                self._shortened = True

    def replace_parts(self, places: Iterable[int]) -> None:
        """Puts marks in place of arguments of calls, then of pictures, the oldest first.

        They go only as far as shorter texts cannot be enough.
        """
        sizes = self._text_sizes(places)
        missing = self.excess - sum(max(size - _LEAST_TOKENS, 0) for size in sizes.values())
        for lighter in (without_arguments, without_files):
            for place in sizes:
                if missing <= 0:
                    return
                before = self._tokens
                self._replace(place, lighter(self.pieces[place].message, missing))
                missing -= before - self._tokens
                self._shortened |= self._tokens < before

    def fitted(self, note: str) -> FittedMessages:
        """The pieces that are left, with the note if some are not and it costs them no room."""
        kept = [piece for place, piece in enumerate(self.pieces) if place not in self._gone]
        left_out = sum(self.pieces[place].place is not None for place in self._gone)
        if note and self._gone:
            noted = self._noted(kept, note)
            if self.excess > 0 or sum(piece.tokens for piece in noted) <= self.room:
                kept = noted
        tokens = sum(piece.tokens for piece in kept)
        return FittedMessages(tuple(kept), left_out, self._results, self._shortened, tokens)

    def _noted(self, kept: list[Piece], note: str) -> list[Piece]:
        """The pieces with the note in the first system message; chat templates may refuse two."""
        if kept and is_system(kept[0].message):
            first, *rest = kept
            message = with_note(first.message, note)
        else:
            first, rest = Piece({}, 0, None), kept
            message = {"role": "system", "content": note}
        tokens = sent_tokens([message], self._count)
        return [first._replace(message=message, tokens=tokens), *rest]

    def _text_sizes(self, places: Iterable[int]) -> dict[int, int]:
        return {place: self._text_tokens(place) for place in places if place not in self._gone}

    def _text_tokens(self, place: int) -> int:
        message, tokens, _ = self.pieces[place]
        if place not in self._rest:
            bare = {**message, "content": parts_beside_text(message)}
            self._rest[place] = sent_tokens([bare], self._count)
        return max(tokens - self._rest[place], 0)

    def _shorten(self, place: int, most: int) -> None:
        size = self._text_tokens(place)
        message = without_middle(self.pieces[place].message, size, most, self._count)
        self._replace(place, message)

    def _replace(self, place: int, message: Native) -> None:
        """Puts another message in place of one, unless it is the same."""
        piece = self.pieces[place]
        if message is not piece.message:
            tokens = sent_tokens([message], self._count)
            self._tokens += tokens - piece.tokens
            self.pieces[place] = piece._replace(message=message, tokens=tokens)
            self._rest.pop(place, None)


def _in_steps(excess: int, step: int) -> int:
    """The excess, rounded up to whole steps."""
    return -(-excess // step) * step


def _level(sizes: Iterable[int], most: int) -> int:
    """The length to which the longest have to be shortened for all to have `most` together."""
    rest = sorted(sizes)
    for rank, size in enumerate(rest):
        share = most // (len(rest) - rank)
        if size > share:
            return share
        most -= size
    return max(rest, default=0)
