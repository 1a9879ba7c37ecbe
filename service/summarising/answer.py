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

from service.summarising.memory import NARRATIVE, Kind, Paragraph, Section
from service.summarising.prompts import WORDINGS

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
_AND = 3  # letters of a word between two numbers

_MARKS = re.compile(r"[\s*_`#>•·\-–—+]{0,40}(?:\d{1,2}[.)]\s{1,8})?[\s*_`#]{0,20}")
_LIST_MARK = re.compile(r"\s{0,80}(?:[-*+•–—]|\d{1,3}[.)])\s{1,8}")
_HEAD_MARK = re.compile(r"\s{0,40}(?:\d{1,2}[.)]\s{1,4})?(?:#{1,6}|\*\*|__|【)")
_FENCE = re.compile(r"\s{0,20}(?:```|~~~)")
_RULER = re.compile(r"\A\s*+[=\-_*~]{3,}+\s*$")
_NUMBER = re.compile(
    r"(?<![\w.,])P?\d{1,6}(?:\.\d{1,4})?"
    r"(?:\s?[-–—~～至]\s?P?\d{1,6}(?:\.\d{1,4})?)?(?![A-Za-z_\d%€$£¥]|[.,]\d)"
)
_SENTENCE = re.compile(r"(?<![\w.,])\d{1,6}\.\d{1,4}(?![\w.,]?\d)")
_PIN = re.compile(r"(?<![A-Za-z\d.])P\d{1,6}(?![A-Za-z\d]|\.\d)")
_PLAIN = re.compile(r"(?<![\w.,])\d{1,6}(?![\w.,]?\d)")
# A comma of a list, not of a number such as `1.204,50`.
_JOINED = re.compile(r"(?<![\d.,])(\d{1,6}\.\d{1,4}|P\d{1,6}),(?=P\d|\d{1,6}\.\d)")
_RANGE_MARK = re.compile(r"[-–—~～至]")
_REMARK = re.compile(r"[(（][^()（）]{0,300}[)）]")
_LABEL_PARTS = re.compile(r"[\s_/,&+|·、()（）-]{1,20}")
_AROUND = " \t*_`#\"'“”„«»「」『』[]{}()（）【】<>.,;:；：，、。=→-–—>&"
_QUOTES = ' \t*_`"“”„«»「」『』'
_QUOTATION = re.compile(
    r"\"([^\"]{8,400}+)\"|“([^”]{8,400}+)”|„([^“”]{8,400}+)[“”]|「([^」]{4,400}+)」|«([^»]{8,400}+)»"
)
_REASONING_ENDS = ("</think>", "</thinking>", "</reasoning>")
_COLONS = (":", "：", "=")


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


_Place = Section | _Line
"""Under which head a line stands."""

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
    lines = text.splitlines()[:_MOST_LINES]
    for line in lines:
        reader.read(line[:_LONGEST_LINE])
    return reader.answer()


@dataclass(slots=True)
class _Reader:
    """Goes through the lines of a reply, and knows under which head it is."""

    place: _Place = Section.STATE
    kinds: tuple[Kind, ...] = ()
    headed: bool = False
    fenced: bool = False
    wrapped: bool = False
    lines: dict[Section, list[str]] = field(default_factory=lambda: {section: [] for section in NARRATIVE})
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
        if self._is_head(raw) or self._is_directive(line) or self._says_nothing(line):
            return
        if not self.fenced and self._begins_section(raw, line):
            return
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

    def _is_head(self, raw: str) -> bool:
        """A line that is a head and no more; an unknown one opens the current state."""
        words = _label(raw)
        marked = bool(_HEAD_MARK.match(raw)) and ":" not in raw.rstrip(" :*_")
        known = _HEADS.get(words)
        if self.fenced:  # code has comments that look like heads
            known = known if raw.startswith("## ") else None
        elif known is None and marked:
            known = _longer_head(words)
        if known is not None and (marked or raw.rstrip().endswith(_COLONS) or _bare(raw)):
            self._enter(known)
            return True
        if self.fenced or not marked:
            return False
        if (found := _directive(words)) is not None:
            verb, self.kinds = found
            self.place = verb or _Line.KEEP
            self.headed = True
            return True
        if raw.lstrip().startswith("#"):
            self.place = Section.STATE
        return False

    def _enter(self, section: Section) -> None:
        if not self.headed:
            self._forget_opening()
        self.place, self.kinds = section, _KINDS_OF.get(section, ())
        self.headed = True

    def _forget_opening(self) -> None:
        """What stands above the first head and ends with a colon announces it, and says nothing."""
        opening = self.lines[Section.STATE]
        if len(opening) == 1 and opening[0].endswith(_COLONS):
            opening.clear()

    def _is_directive(self, line: str) -> bool:
        """`keep constraint: 12.3`, `replaced: P7 by 15.2`, `drop: P12`, however it is written."""
        if _replaces(line):
            self._replace(line)
            return True
        if echo := _echo(line):
            self.keeps.append(echo)
            return True
        label, colon, rest = _parted(line)
        found = _directive(label)
        if found is None and colon and _only_numbers(rest):
            found = _loose_directive(label)
        if found is None:
            return False
        verb, kinds = found
        if verb is None:  # `Decision: …` may be prose
            certain = _only_numbers(rest)
        else:
            certain = (colon and not self.fenced) or _points_first(rest) or _only_plain(rest)
        if certain:
            self._direct(verb or _Line.KEEP, kinds, rest)
        return certain

    def _direct(self, line: _Line, kinds: tuple[Kind, ...], rest: str) -> None:
        if rest.strip(_AROUND).casefold() in _NOTHING:
            return
        if line is _Line.DROP:
            self._drop(rest)
        elif line is _Line.REPLACED:
            self._replace(rest)
        elif keep := _keep(kinds or (Kind.FACT,), rest):
            self.keeps.append(keep)

    def _says_nothing(self, line: str) -> bool:
        return not self.fenced and line.strip(_AROUND).casefold() in _NOTHING

    def _begins_section(self, raw: str, line: str) -> bool:
        """`Goal: the tour is planned` is a head and a line of it."""
        label, colon, rest = _parted(line)
        section = _HEADS.get(label)
        if section is None or not colon or not rest.strip(_AROUND):
            return False
        if section not in NARRATIVE and not _HEAD_MARK.match(raw):
            return False  # `Files: …` in a narrative may be prose
        item = bool(_LIST_MARK.match(raw))
        before = self.place, self.kinds
        self._enter(section)
        if rest.strip(_AROUND).casefold() not in _NOTHING:
            self._under_head(_cleaned(rest))
        if item:
            self.place, self.kinds = before
        return True

    def _under_head(self, line: str) -> None:
        """A line that says by its place what it is."""
        place = self.place
        if isinstance(place, Section):
            if place in self.lines:
                self.lines[place].append(line)
            elif keep := _keep(self.kinds, line):
                self.keeps.append(keep)
        else:
            self._direct(place, self.kinds, line)

    def _drop(self, rest: str) -> None:
        """Of whatever names pins; a number of a sentence is none."""
        if _only_plain(rest):
            self.drops += map(int, _PLAIN.findall(rest)[:_MOST_NUMBERS])
        else:
            self.drops += [int(one[1:]) for one in _numbers(rest) if one.startswith("P")]

    def _replace(self, rest: str) -> None:
        """One or several pins, each time followed by what holds instead."""
        pins = list(_PIN.finditer(rest))[:_MOST_NUMBERS]
        if not pins:
            self._replace_by_plain(rest)
            return
        waiting: list[int] = []
        for place, pin in enumerate(pins):
            waiting.append(int(pin[0][1:]))
            last = place + 1 == len(pins)
            between = rest[pin.end() : len(rest) if last else pins[place + 1].start()]
            numbers = _numbers(between)
            by_pin = place == 0 and len(pins) == 2 and not numbers and _points(between)
            if by_pin:
                self.replaced.append(Replaced(waiting[0], (pins[1][0],)))
                return
            words = "" if numbers or not last else _cleaned(between)
            if numbers or words:
                self.replaced += [Replaced(one, numbers, words) for one in waiting]
                waiting = []

    def _replace_by_plain(self, rest: str) -> None:
        """`7 by 15.2`."""
        first, sentence = _PLAIN.match(rest), _SENTENCE.search(rest)
        if first and sentence:
            self.replaced.append(Replaced(int(first[0]), _numbers(rest[first.end() :])))


def _without_mark(raw: str) -> str:
    """A line without the mark of a list, or of emphasis around all of it."""
    marked = _LIST_MARK.match(raw)
    line = (raw[marked.end() :] if marked else raw).strip()
    if line.startswith("#"):
        line = line.lstrip("#").lstrip()
    if line.startswith("**") and line.endswith("**") and line.count("**") == 2:
        line = line[2:-2].strip()
    return line


def _label(text: str) -> str:
    """Words in small letters without marks around them; "" for what is too long for a label."""
    marks = _MARKS.match(text)
    words = text[marks.end() if marks else 0 :].strip(_AROUND)
    return " ".join(words.casefold().split()) if len(words) <= _LONGEST_LABEL else ""


def _bare(raw: str) -> bool:
    """Whether a line has no mark of a list: a word alone in it is a head."""
    return not _LIST_MARK.match(raw)


def _longer_head(words: str) -> Section | None:
    """`Decisions so far` is a head that says more; a sentence is none."""
    parts = words.split()[:_WORDS_OF_HEAD]
    if len(words.split()) > _WORDS_OF_HEAD:
        return None
    for end in range(len(parts) - 1, 0, -1):
        if (section := _HEADS.get(" ".join(parts[:end]).rstrip(":("))) is not None:
            return section
    return None


def _parted(line: str) -> tuple[str, bool, str]:
    """A line's label, whether a colon follows, and the rest.

    The label ends at a colon, or before the first number or quotation.
    """
    line = line.lstrip(_QUOTES + "{")
    cut = min(len(line), _LONGEST_LABEL)
    for place, character in enumerate(line[:_LONGEST_LABEL]):
        if character in _COLONS or character in '[{("“„«「→':
            cut = place
            break
        if character.isdigit():
            cut = place - (line[place - 1 : place] == "P")
            break
    after = line[cut:].lstrip(' *_`"')
    rest = after.lstrip(" *_`:：=-–—>→")
    return _label(line[:cut]), after.startswith(_COLONS), rest


def _directive(label: str) -> tuple[_Line | None, tuple[Kind, ...]] | None:
    """What a label says: a verb, kinds, or both. None when it has other words in it."""
    if not label:
        return None
    for verb in _BY_LENGTH:
        if not label.startswith(verb):
            continue
        rest = label[len(verb) :]
        kinds = _named_kinds(rest)
        if not rest.strip(_AROUND) or kinds:
            return _VERBS[verb], kinds
    kinds = _named_kinds(label)
    return (None, kinds) if kinds else None


def _loose_directive(label: str) -> tuple[_Line | None, tuple[Kind, ...]] | None:
    """What a label says among other words, such as `constraints to keep`."""
    parts = _LABEL_PARTS.split(label)
    verb = next((_VERBS[part] for part in parts if part in _VERBS), None)
    kinds = tuple(dict.fromkeys(_KINDS[part] for part in parts if part in _KINDS))
    return (verb, kinds) if verb or kinds else None


def _named_kinds(words: str) -> tuple[Kind, ...]:
    """The kinds that are named and nothing else, such as `constraint/preference`."""
    parts = [part for part in _LABEL_PARTS.split(words.strip(_AROUND)) if part]
    kinds = [_KINDS[part] for part in parts if part in _KINDS]
    return tuple(dict.fromkeys(kinds)) if len(kinds) == len(parts) else ()


def _echo(line: str) -> Keep | None:
    """`P7 constraint: …`, as the entries stand in the prompt."""
    line = line.lstrip(_AROUND)
    if (pin := _PIN.match(line)) is None:
        return None
    label, colon, words = _parted(line[pin.end() :].lstrip(_AROUND))
    kinds = _named_kinds(label)
    return Keep(kinds, (pin[0],), _cleaned(words)) if kinds and colon else None


def _replaces(line: str) -> bool:
    """`P7 → 15.2`, `P7 is replaced by 15.2`: begins with a pin, and soon names a sentence."""
    line = line.lstrip(_AROUND)
    first = _PIN.match(line)
    found = _SENTENCE.search(line[:80]) if first else None
    return bool(found and not line[found.end() :].strip(_AROUND + "0123456789"))


def _points(between: str) -> bool:
    """Whether what stands between two pins says more than that there are two."""
    return bool(between.strip(" ,;&、，/+"))


def _points_first(rest: str) -> bool:
    """Whether a line begins with the number of a sentence or a pin."""
    begin = rest.lstrip(_AROUND)
    return bool(_SENTENCE.match(begin) or _PIN.match(begin))


def _only_plain(rest: str) -> bool:
    """Whether a line consists of whole numbers."""
    return bool(_PLAIN.match(rest.lstrip(_AROUND))) and not _PLAIN.sub(" ", rest).strip(_AROUND)


def _only_numbers(rest: str) -> bool:
    """Whether a line consists of numbers of sentences or pins, and remarks in brackets."""
    bare = _REMARK.sub(" ", rest)
    named = _SENTENCE.search(bare) or _PIN.search(bare)
    return bool(named) and not bare[_leading(bare) :].strip(_AROUND)


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
    named = dict.fromkeys(one[0] for one in _NUMBER.finditer(text))
    written = (number for one in named for number in _written_out(one))
    return tuple(dict.fromkeys(islice(written, _MOST_NUMBERS)))


def _written_out(number: str) -> Iterator[str]:
    ends = [end.strip() for end in _RANGE_MARK.split(number)]
    if len(ends) == 1:
        yield number
        return
    (step, _, first), (until, _, last) = (end.partition(".") for end in ends)
    if first and not last:  # `14.1-3`
        until, last = step, until
    if step.startswith("P"):
        begin, end = int(step[1:]), int(until.lstrip("P"))
        yield from (f"P{pin}" for pin in range(begin, min(end, begin + _RANGE - 1) + 1))
    elif not first:
        yield from ends
    elif step != until:
        yield f"{step}.{first}-{until}.{last}"
    else:
        end = min(int(last), int(first) + _RANGE - 1)
        yield from (f"{step}.{place}" for place in range(int(first), end + 1))


def _cleaned(words: str) -> str:
    """Words without quotation marks and signs around them; of a quotation its inside."""
    if quotation := _QUOTATION.search(words):
        return " ".join(next(filter(None, quotation.groups())).split())
    bare = words.strip(" \t:：→>=-–—,;").lstrip("])）】").strip(_QUOTES)
    return " ".join(bare.split())
