"""What a message is searched by: what was said, and its results of tools, in blocks. Pure.

In: a parsed message. Out: parts, which may be stored beside the message, as JSON arrays.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from service.recall.passages import passages
from service.recall.words import words
from service.transcript import Message, steps

STORED_FROM = 50
"""Depth from which on parts are stored beside the message, in some 125 bytes each of 130 tokens.
Those above are made when somebody asks, which takes 10 ms, and tell the chat's language."""
_LINES = 40  # of a block
_SAID = 1000  # characters of a block of an answer, some 150 words
_RESULT = 4000
_OWN_TOOL = "precis_recall"


class SearchedPart(Struct, frozen=True, array_like=True):
    """What is found as one.

    Attributes:
        call: which call of the message, from 1; 0 for what was said in it.
        first: line of the result, or of what was `said`, from 1.
        last: line of the same.
        by_user: whether a user said it.
        words: a line for each passage (see `recall.passages`) that begins in it, each word of it
            once; of a result, a line with the words of the call stands above.
    """

    call: int
    first: int
    last: int
    by_user: bool
    words: str

    @property
    def passages(self) -> list[str]:
        """The words of each passage."""
        found = self.words.split("\n")
        return found[1:] if self.call else found


def parts(message: Message) -> list[SearchedPart]:
    """What is found of a message: what nobody said, such as a system message, has no part."""
    by_user = message.role == "user"  # what they say is one part: mostly short, about one thing
    text = said(message)
    found = list(_blocks(text, 0, by_user, None if by_user else _SAID))
    calls = [call for step in steps(message) for call in step.calls]
    for number, call in enumerate(calls, 1):
        # What was looked up before is a copy of what stands elsewhere.
        if call.call.name != _OWN_TOOL:
            called = _joined(words(f"{call.call.name} {call.call.arguments}"))
            blocks = _blocks(call.result.text, number, False, _RESULT)
            found += [replace(part, words=f"{called}\n{part.words}") for part in blocks]
    return [part for part in found if part.words.strip()]


def said(message: Message) -> str:
    """What was said in a message, without its calls."""
    found: list[str] = []
    for step in steps(message):
        found += [step.text, *(attachment.told for attachment in step.attachments)]
    return "\n".join(filter(None, found))


def _blocks(text: str, call: int, by_user: bool, characters: int | None) -> Iterator[SearchedPart]:
    """A text in blocks of so many characters; None makes one block of it."""
    spans = lines(text)
    found = passages(text, said=not call)
    for first, last in _cut(spans, characters) if characters else [(1, len(spans))]:
        told = [_joined(words(text[one])) for one in begun(found, spans, first, last)]
        yield SearchedPart(call, first, last, by_user, "\n".join(told))


def begun(found: Sequence[slice], spans: Sequence[slice], first: int, last: int) -> Sequence[slice]:
    """The passages of a text that begin in some of its lines, which stand at `spans`."""
    if first > len(spans):  # a text that was masked since may have fewer lines
        return []
    from_here = bisect_left(found, spans[first - 1].start, key=attrgetter("start"))
    if last >= len(spans):
        return found[from_here:]
    return found[from_here : bisect_left(found, spans[last].start, key=attrgetter("start"))]


def _joined(told: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(told))


def _cut(spans: Sequence[slice], characters: int) -> Iterator[tuple[int, int]]:
    """The numbers of the first and last line of each block, from 1."""
    first = 1
    for number, span in enumerate(spans, 1):
        size = span.stop - spans[first - 1].start
        full = number - first >= _LINES or size > characters
        if full and number > first:
            yield first, number - 1
            first = number
    yield first, len(spans)


LONGEST_LINE = 1000
"""Characters of a line. A longer one counts as several, so that each can be shown by itself."""


def lines(text: str) -> list[slice]:
    """Where the lines of a text stand, as they are numbered; line ends are between them."""
    found: list[slice] = []
    start = 0
    for line in text.split("\n"):
        stop = start + len(line)
        cuts = range(start, max(stop, start + 1), LONGEST_LINE)
        found += [slice(cut, min(cut + LONGEST_LINE, stop)) for cut in cuts]
        start = stop + 1
    return found
