"""A summariser's reply → what it says: a narrative, and what is kept, replaced, dropped. Pure.

`docs/summariser.md` has the form. Nothing fails here: a model that ignores the form still says
something. Lines under no known head go to the current state; words under a pinned section mean a
sentence of the chat, wherever they stand.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from service.summarising.memory import NARRATIVE, Kind, Paragraph, Section
from service.summarising.reply import written
from service.summarising.wordings import WORDINGS

_KINDS_OF = {
    Section.GOAL: (Kind.GOAL,),
    Section.CONSTRAINTS: (Kind.CONSTRAINT, Kind.PREFERENCE),
    Section.DECISIONS: (Kind.DECISION,),
    Section.FACTS: (Kind.VALUE, Kind.FACT),
    Section.FILES: (Kind.FILE,),
}
_MOST_LINES = 400
_LONGEST_LINE = 4000  # characters
_LONGEST_LABEL = 60  # characters before the colon of `keep constraint:`
_WORDS_OF_HEAD = 6
_MOST_NUMBERS = 512  # in one line
_RANGE = 40  # sentences that one range may name
_SOON = 80  # characters between a pin and the sentence that replaces it
_AND = 3  # letters of a word between two numbers

_ITEM = re.compile(r"\s{0,80}(?:[-*+•–—]|\d{1,3}[.)])\s")
_MARKS = re.compile(
    r"\A\s{0,80}(?:#{1,6}\s{0,8})?"  # a head may be numbered, and an item may be a head
    r"(?:(?:[-*+•–—]|\d{1,3}[.)])\s{1,8})?(?:#{1,6}\s{0,8})?"
)
_HEAD_MARK = re.compile(r"\s{0,40}(?:\d{1,2}[.)]\s{1,4})?(?:#{1,6}|\*\*|__|【)")
_FENCE = re.compile(r"\s{0,20}(?:```|~~~)")
_RULER = re.compile(r"\A\s*+[=\-_*~]{3,}+\s*$")
# `12.3`, `P7`, `12`, or from one to another.
_NUMBER = re.compile(
    r"(?<![\w.,])(P\d{1,6}(?!\.\d)|\d{1,6})(?:\.(\d{1,4}))?"
    r"(?:\s?[-–—~～至]\s?P?(\d{1,6})(?:\.(\d{1,4}))?)?(?![A-Za-z_\d%€$£¥]|[.,]\d)"
)
_SENTENCE = re.compile(r"(?<![\w.,])\d{1,6}\.\d{1,4}(?![\w.,]?\d)")
_POINTER = re.compile(
    r"\[\d{1,6}\.\d{1,4}\]\s?"
)  # small models copy them; nobody else writes them, see `compose`
_PIN = re.compile(r"(?<![A-Za-z\d.])P\d{1,6}(?![A-Za-z\d]|\.\d)")
# A comma of a list, not of a number such as `1.204,50`.
_JOINED = re.compile(r"(?<![\d.,])(\d{1,6}\.\d{1,4}|P\d{1,6}),(?=P\d|\d{1,6}\.\d)")
_REMARK = re.compile(r"[(（][^()（）]{0,300}[)）]")
_LABEL_PARTS = re.compile(r"[\s_/,&+|·、()（）-]{1,20}")
_AROUND = " \t*_`#+•\"'“”„«»「」『』[]{}()（）【】<>.,;:；：，、。=→-–—>&"
_QUOTES = ' \t*_`"“”„«»「」『』'
_QUOTATION = re.compile(
    r"\"([^\"]{8,400}+)\"|“([^”]{8,400}+)”|„([^“”]{8,400}+)[“”]|「([^」]{4,400}+)」|«([^»]{8,400}+)»"
)
_REASONING_ENDS = ("</think>", "</thinking>", "</reasoning>")
_COLONS = (":", "：", "=")
_LABEL_ENDS = re.compile(r"[:：=\[{(\"“„«「→]|P?\d")
_BETWEEN_TWO = " ,;&、，/+"  # signs that only say that there are two pins


@dataclass(frozen=True, slots=True)
class Keep:
    """What has to stay word for word.

    Attributes:
        kinds: what it may be; the first is meant when nothing else decides.
        numbers: of sentences such as `12.3`, of pins such as `P7`, of whole steps such as `12`; and
            ranges over several steps, such as `12.3-13.1`.
        words: what was written instead of numbers, or beside them.
    """

    kinds: tuple[Kind, ...]
    numbers: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A pin that holds no more, and what holds instead: as numbers, or in words."""

    number: int
    numbers: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reply says. `narrative` has the sections in their order, without empty ones."""

    narrative: tuple[Paragraph, ...] = ()
    keeps: tuple[Keep, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    drops: tuple[int, ...] = ()


class _Line(StrEnum):
    """What a line of the reply may say, beside the narrative."""

    KEEP = "keep"
    REPLACED = "replaced"
    DROP = "drop"


class _Directive(NamedTuple):
    """The verb and the kinds that a label names; `exact` when it has no other words in it."""

    verb: _Line | None
    kinds: tuple[Kind, ...]
    exact: bool


_HEADS = {name: section for one in WORDINGS.values() for name, section in one.heads.items()}
_HEADS |= {str(section).casefold(): section for section in Section}
_KINDS = {name: kind for one in WORDINGS.values() for name, kind in one.kinds.items()}
_VERBS = {name: line for one in WORDINGS.values() for line in _Line for name in one.lines[line]}
_BY_LENGTH = sorted(_VERBS, key=len, reverse=True)
_NOTHING = frozenset(name for one in WORDINGS.values() for name in one.lines["nothing"])


def unreasoned(text: str) -> str:
    """A reply without the reasoning before it, which some servers leave in the text.

    Templates may open the reasoning in the prompt, so that only its end stands in the reply.
    """
    ends = [place + len(mark) for mark in _REASONING_ENDS if (place := text.rfind(mark)) >= 0]
    return text[max(ends) :].lstrip() if ends else text


def parse(text: str) -> Answer:
    """What a reply says. Heads and lines are known by their words, whatever marks stand around."""
    reader = _Reader()
    for line in written.lines(text, _is_known)[:_MOST_LINES]:
        reader.read(line[:_LONGEST_LINE])
    return reader.answer()


@dataclass(slots=True)
class _Reader:
    """Goes through the lines of a reply, and knows under which head it is."""

    place: Section | _Line = Section.STATE
    kinds: tuple[Kind, ...] = ()
    headed: bool = False
    fenced: bool = False
    wrapped: bool = False
    lines: dict[Section, list[str]] = field(
        default_factory=lambda: {section: [] for section in NARRATIVE}
    )
    keeps: list[Keep] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    drops: list[int] = field(default_factory=list)

    def read(self, raw: str) -> None:
        """Takes one line."""
        if _FENCE.match(raw):
            self._fence(bare=not raw.strip(" `~"))
            return
        line = " ".join(_JOINED.sub(r"\1, ", raw if self.fenced else _without_mark(raw)).split())
        if not line.strip(_AROUND) or _RULER.match(line):
            return
        if self._is_section(raw, line) or self._begins_with_pin(line):
            return
        if self._is_directive(raw, line):
            return
        if raw.lstrip().startswith("#") and not self.fenced:
            self.place = Section.STATE  # a head that nobody knows
        self._under_head(line)

    def answer(self) -> Answer:
        """What was read."""
        told = (Paragraph(section, tuple(lines)) for section, lines in self.lines.items())
        return Answer(
            tuple(one for one in told if one.lines),
            tuple(self.keeps),
            tuple(self.replaced),
            tuple(dict.fromkeys(self.drops)),
        )

    def _fence(self, *, bare: bool) -> None:
        """Around a whole answer a fence says nothing; below a head it begins or ends code."""
        if self.fenced:
            self.fenced = False
        elif not self.headed or (self.wrapped and bare):
            self.wrapped = not self.wrapped
        else:
            self.fenced = True

    def _is_section(self, raw: str, line: str) -> bool:
        """A head, alone or with a line of it behind a colon: `Goal: the tour is planned`."""
        label, colon, rest = _parted(line)
        # In code most lines that look like heads are none.
        if self.fenced and (rest or not raw.startswith("## ")):
            return False
        if rest:
            return colon and self._is_line_of_section(raw, label, rest)
        marked = bool(_HEAD_MARK.match(raw))
        section = _head(label, marked=marked)
        if section is None:
            return False
        # An item that says no more than `- Files` belongs to the list in which it stands.
        if _ITEM.match(raw) and not (marked or colon):
            return False
        self._enter(section)
        return True

    def _is_line_of_section(self, raw: str, label: str, rest: str) -> bool:
        """`Goal: the tour is planned`, where the head has its first line behind it."""
        section = _HEADS.get(label)
        if section is None:
            return False
        if section not in NARRATIVE and not _HEAD_MARK.match(raw):
            return False  # `Files: …` in a narrative may be prose
        if _directive(label).exact and _only_numbers(rest):
            return False
        before = self.place, self.kinds
        self._enter(section)
        self._under_head(_cleaned(rest))
        # In a list, each item names the section of its own line only.
        if _ITEM.match(raw):
            self.place, self.kinds = before
        return True

    def _enter(self, section: Section) -> None:
        opening = self.lines[Section.STATE]
        if not self.headed and len(opening) == 1 and opening[0].endswith(_COLONS):
            opening.clear()  # it announced the answer
        self.place, self.kinds, self.headed = section, _KINDS_OF.get(section, ()), True

    def _begins_with_pin(self, line: str) -> bool:
        """`P7 → 15.2`, or `P7 constraint: …` as the entries stand in the prompt."""
        line = line.lstrip(_AROUND)
        pin = _PIN.match(line)
        if not pin:
            return False
        label, colon, words = _parted(line[pin.end() :].lstrip(_AROUND))
        verb, kinds, exact = _directive(label)
        if kinds and exact and colon and not verb:
            self.keeps.append(Keep(kinds, (pin[0],), _cleaned(words)))
            return True
        by = _SENTENCE.search(line[:_SOON])
        if by and not line[by.end() :].strip(_AROUND + "0123456789"):
            self.replaced += _replacements(line)
            return True
        return False

    def _is_directive(self, raw: str, line: str) -> bool:
        """`keep constraint: 12.3`, `replaced: P7 by 15.2`, `drop: P12`, however it is written."""
        label, colon, rest = _parted(line)
        directive = _directive(label)
        place = directive.verb or _Line.KEEP
        head = _HEAD_MARK.match(raw) and not rest
        if head and directive.exact and not self.fenced:
            self.place, self.kinds, self.headed = place, directive.kinds, True
            return True
        if not self._is_certain(directive, colon=colon, rest=rest):
            return False
        self._direct(place, directive.kinds, rest)
        return True

    def _is_certain(self, directive: _Directive, *, colon: bool, rest: str) -> bool:
        """Whether a line with this label is meant for us, and is no prose."""
        if _only_numbers(rest) and (directive.exact or colon):
            return bool(directive.verb or directive.kinds)
        # Without a verb, `Decision: …` may be prose, and in code so may everything.
        named = directive.exact and directive.verb is not None
        return named and colon and not self.fenced

    def _direct(self, line: _Line, kinds: tuple[Kind, ...], rest: str) -> None:
        if _says_nothing(rest):
            return
        if line is _Line.DROP:
            self.drops += _dropped(rest)
        elif line is _Line.REPLACED:
            self.replaced += _replacements(rest)
        elif keep := _keep(kinds or (Kind.FACT,), rest):
            self.keeps.append(keep)

    def _under_head(self, line: str) -> None:
        """A line that says by its place what it is."""
        if _says_nothing(line) and not self.fenced:
            return
        if isinstance(self.place, _Line):
            self._direct(self.place, self.kinds, line)
        elif self.place in self.lines:
            if prose := _POINTER.sub("", line).strip():
                self.lines[self.place].append(prose)
        elif keep := _keep(self.kinds, line):
            self.keeps.append(keep)


def _is_known(name: str) -> bool:
    """Whether a name in JSON is a head, or begins a line."""
    label = _label(name)
    return label in _HEADS or _directive(label).exact


def _says_nothing(line: str) -> bool:
    return line.strip(_AROUND).casefold() in _NOTHING


def _without_mark(raw: str) -> str:
    """A line without the marks of a head or a list, or of emphasis around all of it."""
    line = _MARKS.sub("", raw, count=1).strip()
    if line.startswith("**") and line.endswith("**") and line.count("**") == 2:
        return line[2:-2].strip()
    return line


def _label(text: str) -> str:
    """Words in small letters without marks around them; "" for what is too long for a label."""
    words = text.strip(_AROUND)
    return " ".join(words.casefold().split()) if len(words) <= _LONGEST_LABEL else ""


def _head(words: str, *, marked: bool) -> Section | None:
    """The section of a head. A marked one may say more, `Decisions so far`; a sentence is none."""
    if words in _HEADS:
        return _HEADS[words]
    if not marked or len(words.split()) > _WORDS_OF_HEAD:
        return None
    begins = [name for name in _HEADS if words.startswith(f"{name} ")]
    return _HEADS[max(begins, key=len)] if begins else None


def _parted(line: str) -> tuple[str, bool, str]:
    """A line's label, whether a colon follows, and the rest.

    The label ends at a colon, or before the first number or quotation.
    """
    line = line.lstrip(_QUOTES + "{")
    ends = _LABEL_ENDS.search(line, 0, _LONGEST_LABEL)
    cut = ends.start() if ends else min(len(line), _LONGEST_LABEL)
    after = line[cut:].lstrip(' *_`"')
    return _label(line[:cut]), after.startswith(_COLONS), after.lstrip(" *_`:：=-–—>→")


def _directive(label: str) -> _Directive:
    """What a label names."""
    verb = next(filter(label.startswith, _BY_LENGTH), "")
    parts = list(filter(None, _LABEL_PARTS.split(label[len(verb) :].strip(_AROUND))))
    kinds = tuple(dict.fromkeys(_KINDS[part] for part in parts if part in _KINDS))
    later = next((part for part in parts if part in _VERBS), "")
    exact = bool(label) and all(part in _KINDS for part in parts)
    return _Directive(_VERBS.get(verb or later), kinds, exact)


def _only_numbers(rest: str) -> bool:
    """Whether a line consists of numbers of sentences or pins, and remarks in brackets."""
    bare = _REMARK.sub(" ", rest)
    named = _SENTENCE.search(bare) or _PIN.search(bare)
    return bool(named) and not bare[_leading(bare) :].strip(_AROUND)


def _dropped(rest: str) -> list[int]:
    """The pins that a line names, as `P12` or as nothing but `12`; a sentence's number is none."""
    bare = not rest[_leading(rest) :].strip(_AROUND)
    pins = (one for one in _numbers(rest) if one.startswith("P") or (bare and one.isdigit()))
    return [int(one.lstrip("P")) for one in pins]


def _replacements(rest: str) -> Iterator[Replaced]:
    """One or several pins, each time followed by what holds instead: `P7, P8 by 15.2; P9 by P3`."""
    pins = _pins_and_texts(rest)
    if len(pins) == 2 and _says_by(pins[0][1]):
        replaced, replacement = pins[0][0], pins[1][0]
        yield Replaced(int(replaced[1:]), (replacement,))
        return
    waiting: list[int] = []  # pins whose replacement comes with a later one's
    for pin, text in pins:
        waiting.append(int(pin[1:]))
        numbers = _numbers(text)
        if numbers:
            yield from (Replaced(one, numbers) for one in waiting)
            waiting = []
    # Words count behind the last pin only: between two they mostly mean "and".
    words = _cleaned(pins[-1][1]) if waiting else ""
    if words:
        yield from (Replaced(one, (), words) for one in waiting)


def _pins_and_texts(rest: str) -> list[tuple[str, str]]:
    """The pins that a line names, each with what stands behind it up to the next."""
    if rest[:1].isdigit() and _SENTENCE.search(rest):  # `7 by 15.2`
        rest = f"P{rest}"
    pins = _PIN.findall(rest)[:_MOST_NUMBERS]
    behind = _PIN.split(rest, _MOST_NUMBERS)[1:]
    return list(zip(pins, behind, strict=True))


def _says_by(between: str) -> bool:
    """Whether a text between two pins means that the second one replaces the first."""
    return bool(between.strip(_BETWEEN_TWO)) and not _numbers(between)


def _keep(kinds: tuple[Kind, ...], rest: str) -> Keep | None:
    """What is to be kept: by number when the line begins with one, or else in words."""
    line = rest.strip(" \t*_`")
    if not _REMARK.match(line):
        line = _REMARK.sub(" ", line)
    leading = _leading(line)
    numbers = _numbers(line[:leading])
    words = _cleaned(line[leading:])
    if not words.strip(_AROUND):
        return Keep(kinds, numbers) if numbers else None
    if any("." in one or one.startswith("P") for one in numbers):
        return Keep(kinds, numbers, words)
    return Keep(kinds, (), _cleaned(rest))  # `12 boxes` is no step


def _leading(text: str) -> int:
    """Where the numbers end that a text begins with; a short word may stand between two."""
    end = 0
    for found in _NUMBER.finditer(text):
        gap = text[end : found.start()].strip(_AROUND)
        if len(gap) > (_AND if end else 0):
            break
        end = found.end()
    return end


def _numbers(text: str) -> tuple[str, ...]:
    """The numbers in a text; a range within a step is written out."""
    ranges = dict.fromkeys(found.groups() for found in _NUMBER.finditer(text))
    numbers = (number for one in ranges for number in _written_out(*one))
    return tuple(dict.fromkeys(islice(numbers, _MOST_NUMBERS)))


def _written_out(
    step: str, first: str | None, until: str | None, last: str | None
) -> Iterator[str]:
    """The numbers that `step.first-until.last` names, any part of which may be missing."""
    if until and first and not last:  # `14.1-3` goes on within its step
        until, last = step, until
    if not until:
        yield f"{step}.{first}" if first else step
    elif first:
        yield from _sentences_between(step, first, until, last or first)
    elif step.startswith("P"):
        yield from (f"P{pin}" for pin in _between(step[1:], until))
    else:
        yield from (step, until)


def _sentences_between(step: str, first: str, until: str, last: str) -> Iterator[str]:
    """How many sentences a step has is not known here, so a range over several stays a range."""
    if step == until:
        yield from (f"{step}.{place}" for place in _between(first, last))
    else:
        yield f"{step}.{first}-{until}.{last}"


def _between(begin: str, end: str) -> range:
    return range(int(begin), min(int(end), int(begin) + _RANGE - 1) + 1)


def _cleaned(words: str) -> str:
    """Words without quotation marks and signs around them; of a quotation its inside."""
    if quotation := _QUOTATION.search(words):
        return " ".join(next(filter(None, quotation.groups())).split())
    bare = words.strip(" \t:：→>=-–—,;").lstrip("])）】").strip(_QUOTES)
    return " ".join(bare.split())
