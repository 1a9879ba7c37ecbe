"""Reads a covered step once into numbered utterances, which all other modules use. Pure.

`[12.3]` is the third utterance of the twelfth step of a chat. A step has the same numbers whenever
it is read, so a summariser can point at a sentence, and its words stay those of the chat.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from service.text import sentences, tokens
from service.text.blocks import Block, TextOrigin, split_blocks
from service.transcript import Step
from service.transcript.items import Attachment

_FENCES = ("```", "~~~")
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>", re.IGNORECASE)
_WHOLE = 160  # characters of code or a pasted text that stands as it is
_MOST_LINES = 100  # of a longer one, to choose from
_LONGEST_LINE = 4000  # characters of such a line
_LONGEST = 400_000  # characters of a step that is cut into sentences
_SHORT = 8  # tokens of an answer that means nothing without its question


class Speaker(StrEnum):
    """The speaker of an utterance."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Utterance:
    """A sentence, or a line of a pasted text or code."""

    #: Number of its step in the chat, from 1.
    step: int
    #: Its number in the step, from 1.
    place: int
    speaker: Speaker
    #: On one line; in quotation marks if these are not the speaker's own words.
    text: str
    #: Id of the message.
    source: str
    #: Unix seconds of the message, if they are known.
    at: int | None = None
    sort: TextOrigin = TextOrigin.OWN
    #: What it means nothing without: the head of its list, the first row of its table, or the
    #: question that it answers; "" for none.
    context: str = ""

    @property
    def number(self) -> str:
        """The number that is shown in brackets, such as `12.3`."""
        return f"{self.step}.{self.place}"

    @property
    def own(self) -> bool:
        """Whether these are the speaker's own words."""
        return self.sort is TextOrigin.OWN

    @property
    def by_user(self) -> bool:
        """Whether a user said this in their own words: only that can bind."""
        return self.own and self.speaker is Speaker.USER


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a step as it stands there."""

    #: A line of own words, or a whole block of pasted text or code.
    text: str
    #: The sentences of that line, or some lines of that block.
    utterances: tuple[Utterance, ...]


def list_choices(read: Sequence[Passage]) -> list[Utterance]:
    """Lists what a summariser can point at: sentences of users, and lines of assistants.

    An assistant's words bind nobody, and a number costs as much as half a sentence.
    """
    choices: list[Utterance] = []
    for passage in read:
        spoken = passage.utterances
        if len(spoken) > 1 and spoken[0].own and spoken[0].speaker is Speaker.ASSISTANT:
            choices.append(replace(spoken[0], text=" ".join(one.text for one in spoken)))
        else:
            choices += spoken
    return choices


def read_passages(
    step: Step, number: int, language: str = "en", before: Sequence[Utterance] = ()
) -> list[Passage]:
    """Reads the parts of a step in order, its sentences numbered.

    Args:
        step: of a user or an assistant.
        number: of the step in the chat, from 1.
        language: ISO 639-1 code, which decides about abbreviations.
        before: the utterances of the step before, which a short one answers.
    """
    reader = _StepReader(step, number, language)
    found: list[Passage] = []
    for block in _split_step(step):
        found += (
            reader.read_own(block) if block.sort is TextOrigin.OWN else [reader.read_foreign(block)]
        )
    found += [reader.read_attachment(one) for one in step.attachments]
    return _add_question(found, before)


def _split_step(step: Step) -> Sequence[Block]:
    """Splits a step by the origin of its text."""
    # So long a text is a document, and its sentences would take many times its memory.
    if len(step.text) > _LONGEST:
        return [Block(step.text, TextOrigin.PASTED)]
    return split_blocks(step.text, by_user=step.role == Speaker.USER)


def _add_question(found: list[Passage], before: Sequence[Utterance]) -> list[Passage]:
    """Adds to a short answer its question, and the item of a list that it names."""
    if len(found) != 1 or len(found[0].utterances) != 1:
        return found
    (answer,) = found[0].utterances
    if not answer.by_user or answer.context or tokens.count(answer.text) > _SHORT:
        return found
    questions = [one.text for one in before if sentences.asks(one.text)]
    named = set(re.findall(r"\w+", answer.text.casefold()))
    items = [one.text for one in before if sentences.find_mark(one.text) in named]
    context = " ".join([*questions[-1:], *items[:1]])
    return [Passage(found[0].text, (replace(answer, context=context),))]


class _StepReader:
    """Numbers what it reads of one step."""

    def __init__(self, step: Step, number: int, language: str) -> None:
        self._step = step
        self._number = number
        self._language = language
        self._place = 0
        self._head = ""  # the last sentence that is no item, or the first row of a table

    def read_own(self, block: Block) -> Iterator[Passage]:
        """Reads the lines of a block; items of a list have the sentence above it as their head."""
        in_table = False
        for line in sentences.split_lines(block.text):
            start = line.lstrip()
            is_row = sentences.is_row(line)
            # A Markdown heading begins a part, and may be the head of a list itself.
            is_item = not start.startswith("#") and sentences.is_item(line)
            has_head = is_item or (is_row and in_table)
            told = self._read_row(line) if is_row else self._read_line(line)
            if has_head:
                told = [replace(one, context=self._head) for one in told]
            elif told:
                self._head = told[-1].text
            in_table = is_row
            yield Passage(line, tuple(told))

    def _read_line(self, line: str) -> list[Utterance]:
        found = sentences.split_sentences(sentences.strip_marks(line), self._language)
        return [self._number_utterance(text) for text in found]

    def _read_row(self, line: str) -> list[Utterance]:
        """Reads a row of a table as one sentence; the line below the first row has none."""
        words = " ".join(line.split()).strip("| ")
        return [self._number_utterance(words)] if any(map(str.isalnum, words)) else []

    def read_foreign(self, block: Block) -> Passage:
        """Reads pasted text or code: whole if it is short, or else some of its lines."""
        name = "code" if block.sort is TextOrigin.CODE else "pasted text"
        written = list(_list_lines(block))
        whole = " ".join(written)
        if len(whole) <= _WHOLE:
            told = f"[{name}: “{whole}”]"
            return Passage(block.text, (self._number_utterance(told, block.sort),))
        head = f"[{name}, {len(written)} lines]"
        parts = (
            self._number_utterance(f"“{part}”", block.sort, head)
            for line in _choose_lines(written)
            for part in sentences.split_sentences(line[:_LONGEST_LINE], self._language)
        )
        return Passage(block.text, tuple(parts))

    def read_attachment(self, attachment: Attachment) -> Passage:
        """Reads a file, an image or another part that is no text."""
        return Passage(
            attachment.told, (self._number_utterance(attachment.told, TextOrigin.PASTED),)
        )

    def _number_utterance(
        self, text: str, sort: TextOrigin = TextOrigin.OWN, context: str = ""
    ) -> Utterance:
        self._place += 1
        return Utterance(
            step=self._number,
            place=self._place,
            speaker=Speaker(self._step.role),
            text=text,
            source=self._step.message_id,
            at=self._step.at,
            sort=sort,
            context=context,
        )


def _list_lines(block: Block) -> Iterator[str]:
    """Yields the lines of a block that say something, without fences and tags."""
    for line in block.text.splitlines():
        bare = line if block.sort is TextOrigin.CODE else _TAG.sub(" ", line)
        words = " ".join(bare.split())
        if any(map(str.isalnum, words)) and not words.startswith(_FENCES):
            yield words


def _choose_lines(lines: Sequence[str]) -> list[str]:
    """Chooses the lines that report a failure, and the first of the others, in order."""
    places = range(len(lines))
    ranked = sorted(places, key=lambda place: not sentences.reports_failure(lines[place]))
    return [lines[place] for place in sorted(ranked[:_MOST_LINES])]
