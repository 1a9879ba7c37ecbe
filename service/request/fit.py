"""Makes a request fit into the room that the model's window leaves for its messages. Pure.

The input are the messages with their token counts, the output those that are sent. The parts that
are missed least go first (ADR 7). Each method of `_Cut` is one way to make room, and does nothing
once the request fits. Results, turns and calls go oldest first and in steps, so that a request that
grows keeps its beginning, which providers cache.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from service.request.record import OFFERED
from service.request.shorter import (
    append_note,
    cut_middle,
    is_system,
    list_other_parts,
    replace_files,
)
from service.text.tokens import MESSAGE_TOKENS
from service.transcript import Native, count_sent_tokens, read_text
from service.transcript.native import TOOL_IMAGES

LEFT_OUT = "[Older messages were left out here: they do not fit into the model's window.]"
_LONG_RESULT_TOKENS = 250  # An old result with more is shortened to
_RESULT_TOKENS = 150  # so many.
_LEAST_TOKENS = 100  # that each text keeps while pictures can go instead


class Piece(NamedTuple):
    """A message of a request while it is fitted."""

    message: Native
    tokens: int
    #: Index in the host's request; None for a message that is new there.
    place: int | None


class FittedMessages(NamedTuple):
    """The messages to send."""

    pieces: tuple[Piece, ...]
    #: Number of the host's messages that are missing.
    left_out: int
    #: Whether old tool results lost a part.
    results: bool
    #: Whether other texts or pictures lost a part.
    shortened: bool
    #: Tokens of all pieces.
    tokens: int


def make_note(recall: bool) -> str:
    """A note that tells the model what is missing and, with `recall`, how to look it up."""
    return f"{LEFT_OUT}\n{OFFERED}" if recall else LEFT_OUT


def describe_cuts(fitted: FittedMessages) -> str:
    """The part of the user's status line about missing parts; empty if nothing is missing."""
    if fitted.left_out:
        return f"left out {fitted.left_out} older messages to make room"
    if fitted.shortened:
        return "left out parts of long messages to make room"
    return "shortened older tool results to make room" if fitted.results else ""


def is_question(message: Native) -> bool:
    """Whether a user wrote the message."""
    return message.get("role") == "user" and not read_text(message).startswith(TOOL_IMAGES)


def fit_messages(
    pieces: Sequence[Piece],
    *,
    room: int,
    opening: int,
    newest: int,
    step: int,
    note: str,
    count: Callable[[str], int],
) -> FittedMessages:
    """The request in `room` tokens. If that is impossible, the smallest that can be read.

    Args:
        pieces: all messages.
        room: tokens that they may have together; may be negative.
        opening: number of system messages in front, and of the two messages of a summary.
        newest: place in `pieces` of the newest question, or of the one that a guided regeneration
            answers again; their number if there is none.
        step: tokens by which the beginning of the request changes at a time.
        note: tells the model that messages were left out.
        count: counts the tokens of a text.
    """
    cut = _Cut(pieces, room, count)
    messages = [piece.message for piece in pieces]
    shape = _find_shape(messages, opening, newest)
    texts = range(opening, len(messages))
    everything = [*texts, *shape.prompts]
    if any(LEFT_OUT in read_text(messages[place]) for place in shape.prompts):
        note = ""

    cut.shorten_results(range(opening, shape.unread), step)
    if note and cut.excess > 0:
        cut.room -= count(f"\n\n{note}") + MESSAGE_TOKENS
    cut.leave_out(shape.turns, step)
    # Without this, a text that nearly fills the window would cost the model all earlier calls.
    half = max(room // 2, _LEAST_TOKENS)
    cut.shorten_texts(texts, half, step)
    cut.leave_out(shape.older_calls, step)
    cut.replace_files(everything)
    # System prompts are shortened after all other texts.
    cut.shorten_texts(texts, _LEAST_TOKENS)
    cut.shorten_texts(everything, _LEAST_TOKENS)
    cut.room = room
    legible = cut.make_result(note)
    cut.leave_out(shape.replies)
    cut.shorten_texts(everything, 1)
    smallest = cut.make_result(note)
    # A window may be larger than the host says, so the question should still be there.
    return smallest if smallest.tokens <= room else legible


class _Shape(NamedTuple):
    """The messages of a request that belong together."""

    #: Places of the system messages in front.
    prompts: range
    #: Places of each turn before the running one.
    turns: list[range]
    #: Places of each call of the running turn with its results, without the newest call.
    older_calls: list[range]
    #: Places of everything in the running turn but its questions.
    replies: list[range]
    #: Place of the first call whose results the model may not have read.
    unread: int


def _find_shape(messages: Sequence[Native], opening: int, newest: int) -> _Shape:
    end = len(messages)
    has_question = newest < end
    running = max(newest, opening) if has_question else opening
    prompts = range(sum(map(is_system, messages[:opening])))
    questions = [place for place in range(opening, end) if is_question(messages[place])]
    turns = _make_ranges(opening, questions, running)
    units = _group_calls(messages, running)
    calls = [unit for unit in units if messages[unit.start].get("tool_calls")]
    replies = [unit for unit in units if unit.start not in questions]
    if not has_question:
        replies = replies[:-1]  # The model needs something to answer.
    unread = calls[-1].start if calls else running
    return _Shape(prompts, turns, calls[:-1], replies, unread)


def _group_calls(messages: Sequence[Native], first: int) -> list[range]:
    """The messages from `first` on, each call with its results."""
    starts = [place for place, message in enumerate(messages) if _is_start(message)]
    return _make_ranges(first, starts, len(messages))


def _is_start(message: Native) -> bool:
    """Whether a message does not belong to the call before it."""
    role = message.get("role")
    return is_question(message) if role == "user" else role != "tool"


def _make_ranges(start: int, inner: Iterable[int], end: int) -> list[range]:
    """The ranges between `start` and `end`, cut at the `inner` places."""
    cuts = [place for place in inner if start < place < end]
    bounds = pairwise([start, *cuts, end])
    return [range(first, last) for first, last in bounds if first < last]


class _Cut:
    """A request while it gets smaller."""

    def __init__(self, pieces: Sequence[Piece], room: int, count: Callable[[str], int]) -> None:
        self.pieces = list(pieces)
        self.room = room
        self._count = cache(count)  # Most texts are counted twice.
        self._tokens = _sum_tokens(pieces)
        self._gone: set[int] = set()  # places of messages that are left out
        self._rest: dict[int, int] = {}  # tokens of a message beside its text, by place
        self._results = self._shortened = False

    @property
    def excess(self) -> int:
        """Tokens that the request has above its room."""
        return self._tokens - self.room

    def shorten_results(self, places: Iterable[int], step: int) -> None:
        """Shortens long tool results that the model has read."""
        goal = self._tokens - _round_up_to_steps(self.excess, step)
        for place in places:
            if self._tokens <= goal:
                return
            is_result = self.pieces[place].message.get("role") == "tool"
            if is_result and self._text_tokens(place) > _LONG_RESULT_TOKENS:
                self._shorten(place, _RESULT_TOKENS)
                self._results = True

    def leave_out(self, ranges: Iterable[range], step: int = 1) -> None:
        """Leaves out whole ranges of messages."""
        goal = self._tokens - _round_up_to_steps(self.excess, step)
        for places in ranges:
            if self._tokens <= goal:
                return
            present = [place for place in places if place not in self._gone]
            self._tokens -= sum(self.pieces[place].tokens for place in present)
            self._gone.update(present)

    def shorten_texts(self, places: Iterable[int], least: int, step: int = 1) -> None:
        """Shortens the longest texts, all to the same length of at least `least` tokens."""
        if self.excess <= 0:
            return
        sizes = self._text_sizes(places)
        most = sum(sizes.values()) - _round_up_to_steps(self.excess, step)
        level = max(_find_level(sizes.values(), most), least)
        for place, size in sizes.items():
            if size > level:
                self._shorten(place, level)
                self._shortened = True

    def replace_files(self, places: Iterable[int]) -> None:
        """Puts marks in place of pictures and files, the oldest first.

        Only so many go that shorter texts can make the rest of the room.
        """
        sizes = self._text_sizes(places)
        savings_of_texts = sum(max(size - _LEAST_TOKENS, 0) for size in sizes.values())
        goal = self.room + savings_of_texts
        for place in sizes:
            before = self._tokens
            if before <= goal:
                return
            lighter = replace_files(self.pieces[place].message, before - goal)
            self._replace(place, lighter)
            self._shortened |= self._tokens < before

    def make_result(self, note: str) -> FittedMessages:
        """The pieces that stay. They have the note if some went and the note fits as well."""
        kept = [piece for place, piece in enumerate(self.pieces) if place not in self._gone]
        left_out = sum(self.pieces[place].place is not None for place in self._gone)
        if note and self._gone:
            with_note = self._add_note(kept, note)
            # A request that is too large in any case has the note as well.
            if self.excess > 0 or _sum_tokens(with_note) <= self.room:
                kept = with_note
        return FittedMessages(
            pieces=tuple(kept),
            left_out=left_out,
            results=self._results,
            shortened=self._shortened,
            tokens=_sum_tokens(kept),
        )

    def _add_note(self, kept: list[Piece], note: str) -> list[Piece]:
        """The pieces with the note in the first system message.

        Chat templates may refuse a second one.
        """
        if kept and is_system(kept[0].message):
            first, *rest = kept
            message = append_note(first.message, note)
        else:
            first, rest = Piece({}, 0, None), kept
            message = {"role": "system", "content": note}
        tokens = count_sent_tokens([message], self._count)
        return [first._replace(message=message, tokens=tokens), *rest]

    def _text_sizes(self, places: Iterable[int]) -> dict[int, int]:
        return {place: self._text_tokens(place) for place in places if place not in self._gone}

    def _text_tokens(self, place: int) -> int:
        message, tokens, _ = self.pieces[place]
        if place not in self._rest:
            bare = {**message, "content": list_other_parts(message)}
            self._rest[place] = count_sent_tokens([bare], self._count)
        return max(tokens - self._rest[place], 0)

    def _shorten(self, place: int, most: int) -> None:
        size = self._text_tokens(place)
        message = cut_middle(self.pieces[place].message, size, most, self._count)
        self._replace(place, message)

    def _replace(self, place: int, message: Native) -> None:
        """Puts another message in place of one. The same message changes nothing."""
        piece = self.pieces[place]
        if message is not piece.message:
            tokens = count_sent_tokens([message], self._count)
            self._tokens += tokens - piece.tokens
            self.pieces[place] = piece._replace(message=message, tokens=tokens)
            self._rest.pop(place, None)


def _sum_tokens(pieces: Iterable[Piece]) -> int:
    return sum(piece.tokens for piece in pieces)


def _round_up_to_steps(excess: int, step: int) -> int:
    """The excess, rounded up to whole steps."""
    return -(-excess // step) * step


def _find_level(sizes: Iterable[int], most: int) -> int:
    """The size to which the longest texts are cut, so that all have `most` tokens together."""
    rest = sorted(sizes)
    for rank, size in enumerate(rest):
        share = most // (len(rest) - rank)
        if size > share:
            return share
        most -= size
    return max(rest, default=0)
