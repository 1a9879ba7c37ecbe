"""What a message is searched by: its own words, and its results of tools in blocks. Pure.

In: a parsed message. Out: parts, which may be stored beside the message (`packed`, `unpacked`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.recall.words import words
from service.transcript import Call, Message, steps

STORED_FROM = 200
"""Depth from which on parts are stored beside the message. Those above are made when somebody asks,
which takes 10 ms: few chats are so long, and shorter ones need no more room for it."""
_LINES = 40  # of a block
_CHARACTERS = 4000
_OWN_TOOL = "precis_recall"


@dataclass(frozen=True, slots=True)
class SearchedPart:
    """What is found as one.

    Attributes:
        call: which call of the message, from 1; 0 for what was said in it.
        first: line of the result, from 1; 0 for what was said.
        last: line of the result.
        words: see `recall.words`.
    """

    call: int
    first: int
    last: int
    words: tuple[str, ...]


Packed = list[tuple[int, int, int, str]]
"""Parts as JSON has them; no word has a blank in it."""


def parts(message: Message) -> list[SearchedPart]:
    """What is found of a message: what nobody said, such as a system message, has no part."""
    said: list[str] = []
    blocks: list[SearchedPart] = []
    number = 0
    for step in steps(message):
        said += [step.text, *(attachment.told for attachment in step.attachments)]
        for call in step.calls:
            number += 1
            # What was looked up before is a copy of what stands elsewhere.
            if call.call.name != _OWN_TOOL:
                blocks += _blocks(number, call)
    own = tuple(words("\n".join(said)))
    return [SearchedPart(0, 0, 0, own), *blocks] if own else blocks


def _blocks(number: int, call: Call) -> Iterator[SearchedPart]:
    """A result in blocks, each with the words of its call."""
    called = words(f"{call.call.name} {call.call.arguments}")
    text = call.result.text
    spans = lines(text)
    for first, last in _cut(spans):
        block = text[spans[first - 1].start : spans[last - 1].stop]
        yield SearchedPart(number, first, last, (*called, *words(block)))


def _cut(spans: Sequence[slice]) -> Iterator[tuple[int, int]]:
    """The numbers of the first and last line of each block, from 1."""
    first = 1
    for number, span in enumerate(spans, 1):
        size = span.stop - spans[first - 1].start
        full = number - first >= _LINES or size > _CHARACTERS
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


def packed(found: Sequence[SearchedPart]) -> Packed:
    """Parts to be stored."""
    return [(one.call, one.first, one.last, " ".join(one.words)) for one in found]


def unpacked(stored: Packed) -> list[SearchedPart]:
    """Stored parts again."""
    return [
        SearchedPart(call, first, last, tuple(told.split())) for call, first, last, told in stored
    ]
