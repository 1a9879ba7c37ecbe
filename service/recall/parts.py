"""Cuts a message into the parts that a search finds: its words, and its tools' results. Pure.

The input is a parsed message. The output are parts, which may be stored beside the message as JSON
arrays.
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from service.recall.passages import find_passages, iterate_lines, split_evenly
from service.recall.words import split_words
from service.transcript import Message, split_steps

STORED_FROM = 50
"""Depth from which on parts are stored beside the message. They take about 125 bytes for each 130
tokens. Parts of messages above are made when somebody asks, which takes 10 ms, and their texts tell
the chat's language."""
LONGEST_LINE = 1000
"""Characters of a line. A longer line counts as several, so that each can be shown by itself."""
_BLOCK_LINES = 40
_ANSWER_CHARACTERS = 1000  # of a block of an answer: about 150 words
_RESULT_CHARACTERS = 4000  # of a block of a tool's result
_OWN_TOOL = "precis_recall"


class SearchedPart(Struct, frozen=True, array_like=True):
    """A block of a message, which a search finds as one."""

    #: Number of the tool call in the message, from 1; 0 for the message's own words.
    call: int
    #: First and last line of the block, from 1, in the result or in the message's own words.
    first: int
    last: int
    by_user: bool
    #: A line for each passage that begins in the block (see `recall.passages`), with each of its
    #: words once. For a result, a line with the words of the call stands above them.
    words: str

    @property
    def passages(self) -> list[str]:
        """The words of each passage."""
        lines = self.words.split("\n")
        return lines[1:] if self.call else lines


def make_parts(message: Message) -> list[SearchedPart]:
    """The parts of a message. A message that nobody said, such as a system message, has none."""
    by_user = message.role == "user"
    # A user's message is one part, because it is mostly short and about one thing.
    longest = None if by_user else _ANSWER_CHARACTERS
    parts = _make_blocks(join_spoken_text(message), 0, by_user, longest)
    calls = [call for step in split_steps(message) for call in step.calls]
    for number, call in enumerate(calls, 1):
        # An earlier look-up only copies what stands elsewhere in the chat.
        if call.call.name == _OWN_TOOL:
            continue
        words_of_call = _join_once(split_words(f"{call.call.name} {call.call.arguments}"))
        for block in _make_blocks(call.result.text, number, False, _RESULT_CHARACTERS):
            parts.append(replace(block, words=f"{words_of_call}\n{block.words}"))
    return [part for part in parts if part.words.strip()]


def join_spoken_text(message: Message) -> str:
    """The text of a message without its tool calls."""
    texts: list[str] = []
    for step in split_steps(message):
        texts.append(step.text)
        texts.extend(attachment.told for attachment in step.attachments)
    return "\n".join(filter(None, texts))


def _make_blocks(text: str, call: int, by_user: bool, characters: int | None) -> list[SearchedPart]:
    """Cuts a text into blocks of about so many characters; None makes one block of it."""
    lines = split_lines(text)
    passages = find_passages(text, is_speech=not call)
    bounds = _cut_blocks(lines, characters) if characters else [(1, len(lines))]
    blocks: list[SearchedPart] = []
    for first, last in bounds:
        begun = select_passages(passages, lines, first, last)
        words = [_join_once(split_words(text[passage])) for passage in begun]
        blocks.append(SearchedPart(call, first, last, by_user, "\n".join(words)))
    return blocks


def select_passages(
    passages: Sequence[slice], lines: Sequence[slice], first: int, last: int
) -> Sequence[slice]:
    """The passages that begin in the lines from `first` to `last`, which count from 1.

    `lines` says where each line of the text stands. A text that was masked since may have fewer.
    """
    if first > len(lines):
        return []
    start = bisect_left(passages, lines[first - 1].start, key=attrgetter("start"))
    if last >= len(lines):
        return passages[start:]
    end = bisect_left(passages, lines[last].start, key=attrgetter("start"))
    return passages[start:end]


def _join_once(words: Sequence[str]) -> str:
    """The words on one line, each once."""
    return " ".join(dict.fromkeys(words))


def _cut_blocks(lines: Sequence[slice], characters: int) -> list[tuple[int, int]]:
    """The numbers of the first and last line of each block, from 1."""
    blocks: list[tuple[int, int]] = []
    first = 1
    for number, line in enumerate(lines, 1):
        size = line.stop - lines[first - 1].start
        is_full = number - first >= _BLOCK_LINES or size > characters
        if is_full and number > first:
            blocks.append((first, number - 1))
            first = number
    blocks.append((first, len(lines)))
    return blocks


def split_lines(text: str) -> list[slice]:
    """The places of the numbered lines of a text."""
    lines: list[slice] = []
    for line in iterate_lines(text):
        lines.extend(split_evenly(line, LONGEST_LINE))
    return lines
