"""A covered step, read once: its words as numbered utterances, which all other modules take. Pure.

`[12.3]` is the third utterance of the twelfth step of a chat. The same step has the same numbers
whenever it is read, so a summariser can point at a sentence, and its words stay those of the chat.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.text import sentences
from service.text.blocks import Block, Sort, blocks
from service.transcript import Step
from service.transcript.items import Attachment

_FENCES = ("```", "~~~")
_SHOWN = 100  # characters of a line of what is described by its size
_LONGEST = 400_000  # characters of a step that is cut into sentences


class Speaker(StrEnum):
    """Who said something."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Utterance:
    """A sentence, or a description of a pasted text or code.

    Attributes:
        step: number of its step in the chat, from 1.
        place: its number in the step, from 1.
        speaker: who said it.
        text: on one line; its own words, or size and first line of what is not its own.
        source: id of the message.
        at: Unix seconds of the message, if they are known.
        sort: own words, a pasted text, or code.
        context: the head of the list that it stands in; "" for none.
    """

    step: int
    place: int
    speaker: Speaker
    text: str
    source: str
    at: int | None = None
    sort: Sort = Sort.OWN
    context: str = ""

    @property
    def number(self) -> str:
        """As it is shown, without brackets."""
        return f"{self.step}.{self.place}"

    @property
    def own(self) -> bool:
        """Whether these are the speaker's own words."""
        return self.sort is Sort.OWN

    @property
    def by_user(self) -> bool:
        """Whether a user said this in their own words: only that can bind."""
        return self.own and self.speaker is Speaker.USER


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a step as it stands there, and what is pointed at of it.

    `text` is a line of its own words, whose sentences are the utterances, or a whole block of
    pasted text or code, which is one utterance.
    """

    text: str
    utterances: tuple[Utterance, ...]


def passages(step: Step, number: int, language: str = "en") -> list[Passage]:
    """A step's parts in order, its sentences numbered.

    Args:
        step: of a user or an assistant.
        number: of the step in the chat, from 1.
        language: ISO 639-1 code; decides about abbreviations.
    """
    reader = _StepReader(step, number, language)
    found: list[Passage] = []
    for block in _blocks(step):
        found += reader.own(block) if block.sort is Sort.OWN else reader.foreign(block)
    return found + [reader.attached(one) for one in step.attachments]


def _blocks(step: Step) -> Sequence[Block]:
    # So long a text is a document, and its sentences would take many times its memory.
    if len(step.text) > _LONGEST:
        return [Block(step.text, Sort.PASTED)]
    return blocks(step.text, by_user=step.role == Speaker.USER)


class _StepReader:
    """Numbers what it reads of one step."""

    def __init__(self, step: Step, number: int, language: str) -> None:
        self._step = step
        self._number = number
        self._language = language
        self._place = 0
        self._head = ""  # the last sentence that is no item

    def own(self, block: Block) -> Iterator[Passage]:
        """The lines of a block. Items of a list have the sentence above it as their head."""
        for line in sentences.lines(block.text):
            start = line.lstrip()
            # A Markdown heading begins a part, and may be the head of a list itself.
            item = not start.startswith("#") and (start.startswith("|") or sentences.is_item(line))
            told = self._sentences(line, self._head if item else "")
            if told and not item:
                self._head = told[-1].text
            yield Passage(line, tuple(told))

    def _sentences(self, line: str, head: str) -> list[Utterance]:
        found = sentences.of_line(sentences.unmarked(line), self._language)
        return [self._utterance(text, Sort.OWN, head) for text in found]

    def foreign(self, block: Block) -> Iterator[Passage]:
        """A pasted text or code: one utterance, with its size, first and last line."""
        described = _described(block, _written(block.text))
        head = self._head if block.sort is Sort.CODE else ""
        yield Passage(block.text, (self._utterance(described, block.sort, head),))

    def attached(self, attachment: Attachment) -> Passage:
        """A file, an image or another part that is no text."""
        return Passage(attachment.told, (self._utterance(attachment.told, Sort.PASTED, ""),))

    def _utterance(self, text: str, sort: Sort, head: str) -> Utterance:
        self._place += 1
        return Utterance(
            step=self._number,
            place=self._place,
            speaker=Speaker(self._step.role),
            text=text,
            source=self._step.message_id,
            at=self._step.at,
            sort=sort,
            context=head if head != text else "",
        )


def _written(text: str) -> list[str]:
    """The lines of a block that are neither blank nor a code fence."""
    lines = (line for line in text.splitlines() if line.strip())
    return [line for line in lines if not line.lstrip().startswith(_FENCES)]


def _described(block: Block, written: Sequence[str]) -> str:
    """A foreign block in a line; code that is no longer than that as it stands."""
    is_code = block.sort is Sort.CODE
    described = f"[{'code' if is_code else 'pasted text'}, {len(written)} lines"
    if written:
        described += f", begins “{_part(written[0])}”"
    if len(written) > 1:
        # A trace says in its last line what happened.
        described += f", ends “{_part(written[-1])}”"
    described += "]"
    whole = " ".join(" ".join(written).split())
    if is_code and len(whole) <= len(described):
        return f"[code: “{whole}”]"
    return described


def _part(line: str) -> str:
    return sentences.shortened(sentences.unmarked(line), _SHOWN)
