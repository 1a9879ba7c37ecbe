"""What a message is searched by: what was said, and its results of tools, in blocks. Pure.

In: a parsed message. Out: parts, which may be stored beside the message, as JSON arrays.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from service.recall.words import words
from service.transcript import Call, Message, steps

STORED_FROM = 200
"""Depth from which on parts are stored beside the message. Those above are made when somebody asks,
which takes 10 ms: few chats are so long, and shorter ones need no more room for it."""
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
        words: each once, with blanks between them; see `recall.words`.
    """

    call: int
    first: int
    last: int
    by_user: bool
    words: str


def parts(message: Message) -> list[SearchedPart]:
    """What is found of a message: what nobody said, such as a system message, has no part."""
    found: list[SearchedPart] = []
    by_user = message.role == "user"  # what they say is one part: mostly short, about one thing
    text = said(message)
    spans = lines(text)
    for first, last in [(1, len(spans))] if by_user else _cut(spans, _SAID):
        own = words(text[spans[first - 1].start : spans[last - 1].stop])
        if own:
            found.append(_part(0, first, last, by_user, own))
    calls = [call for step in steps(message) for call in step.calls]
    for number, call in enumerate(calls, 1):
        # What was looked up before is a copy of what stands elsewhere.
        if call.call.name != _OWN_TOOL:
            found += _of_result(number, call)
    return found


def said(message: Message) -> str:
    """What was said in a message, without its calls."""
    found: list[str] = []
    for step in steps(message):
        found += [step.text, *(attachment.told for attachment in step.attachments)]
    return "\n".join(filter(None, found))


def block(text: str, first: int, last: int) -> str:
    """Some lines of a text, as far as it has them."""
    spans = lines(text)[first - 1 : last]
    return text[spans[0].start : spans[-1].stop] if spans else ""


def _of_result(number: int, call: Call) -> Iterator[SearchedPart]:
    """A result in blocks, each with the words of its call."""
    called = words(f"{call.call.name} {call.call.arguments}")
    text = call.result.text
    for first, last in _cut(lines(text), _RESULT):
        own = words(block(text, first, last))
        yield _part(number, first, last, False, [*called, *own])


def _part(call: int, first: int, last: int, by_user: bool, told: Sequence[str]) -> SearchedPart:
    return SearchedPart(call, first, last, by_user, " ".join(dict.fromkeys(told)))


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
