"""A summariser's reply → what it says: its choices by number, and the state. Pure.

`docs/summariser.md` has the form. Nothing fails here: a line that is no choice is the state's, and
of a reply that was cut off all lines but the last count.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from service.summarising.reading import Finish, Reply
from service.summarising.wordings import WORDINGS

_MOST_LINES = 400
_LONGEST_LINE = 4000  # characters
_LONGEST_LABEL = 40  # characters before the colon of `rules: 12.3`
_MOST_NUMBERS = 512  # in one line

_MARKS = re.compile(r"\A\s{0,80}(?:[-*+•–—]\s{1,8})?(?:#{1,6}\s{0,8})?[*_`]{0,3}")
_HEAD = re.compile(r"\A\s{0,40}(?:(?P<marks>#{1,6})\s{0,8}|\*\*(?=[^*]{1,80}\*\*:?\s*\Z))")
_ITEM = re.compile(r"\A\s{0,80}(?:[-*+•–—]|\d{1,3}[.)])\s{1,8}")
_FENCE = re.compile(r"\A\s{0,20}(?:```|~~~)")
_RULER = re.compile(r"\A\s*+[=\-_*~]{3,}+\s*\Z")
# `12.3`, `P7`, `12`, or from one to another.
_NUMBER = re.compile(
    r"(?<![\w.])(P\d{1,6}|\d{1,6}(?:\.\d{1,4})?)(?:\s?[-–—~～至]\s?(\d{1,6}(?:\.\d{1,4})?))?(?![\w.])"
)
_BETWEEN = r"\sP.,;、，–—~～至\[\]()-"
_ONLY_NUMBERS = re.compile(rf"\A[{_BETWEEN}]*+\d[\d{_BETWEEN}]*+\Z")
# A comma of a list, not of a number such as `1.204,50`.
_JOINED = re.compile(r"(\d{1,6}\.\d{1,4}|P\d{1,6}),(?=P?\d)")
_REPLACED = re.compile(
    r"P(?P<pin>\d{1,6})\W{1,6}(?:[^\W\d]{1,12}\W{1,4})?(?P<by>P?\d{1,6}(?:\.\d{1,4})?)"
)
_POINTER = re.compile(r"\s?\[\d{1,6}\.\d{1,4}\]")
_REASONING_ENDS = ("</think>", "</thinking>", "</reasoning>")
_COLONS = re.compile(r"\s{0,4}[:：]\s{0,8}")
_AROUND = " \t*_`"


class Verb(StrEnum):
    """What a line chooses."""

    RULES = "rules"
    QUOTATIONS = "quotations"
    REPLACED = "replaced"
    DROP = "drop"


_VERBS = {name: verb for one in WORDINGS.values() for verb in Verb for name in one.verbs[verb]}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reply says.

    Attributes:
        state: its lines; heads begin with `## `, items with `- `.
        rules: numbers of sentences such as `12.3`, of whole steps such as `12`, of pins such as
            `P7`; and ranges such as `12.3-13.1`.
        quotations: the same.
        replaced: a pin's number, and the number of what holds instead.
        drops: numbers of pins.
    """

    state: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    quotations: tuple[str, ...] = ()
    replaced: tuple[tuple[int, str], ...] = ()
    drops: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return self == Answer()


def unreasoned(text: str) -> str:
    """A reply without the reasoning before it, which some servers leave in the text.

    Templates may open the reasoning in the prompt, so that only its end stands in the reply.
    """
    ends = [place + len(mark) for mark in _REASONING_ENDS if (place := text.rfind(mark)) >= 0]
    return text[max(ends) :].lstrip() if ends else text


def parse(reply: Reply) -> Answer:
    """What a reply says; of one that was cut off, without its last line."""
    written = reply.text.splitlines()
    if reply.finish is Finish.LENGTH:
        written = written[:-1]
    reader = _ReplyReader()
    for line in written[:_MOST_LINES]:
        reader.read(line[:_LONGEST_LINE])
    return reader.answer()


def as_state(raw: str) -> str:
    """A line with the marks that a state has: `## ` before a head, `- ` before an item."""
    bare = _POINTER.sub("", raw)
    head = _HEAD.match(bare)
    if head:
        return f"## {_MARKS.sub('', bare, count=1).strip().strip(_AROUND).rstrip(':：')}"
    words = " ".join(_ITEM.sub("", bare).split())
    return f"- {words}" if _ITEM.match(bare) else words


@dataclass(slots=True)
class _ReplyReader:
    """Goes through the lines of a reply; `verb` is the one whose numbers stand below it."""

    verb: Verb | None = None
    state: list[str] = field(default_factory=list)
    chosen: dict[Verb, list[str]] = field(default_factory=lambda: {verb: [] for verb in Verb})

    def read(self, raw: str) -> None:
        """Takes one line."""
        if _FENCE.match(raw) or _RULER.match(raw) or not raw.strip(_AROUND):
            return
        label, rest = _labelled(raw)
        verb = _VERBS.get(label.casefold())
        if verb and (not rest or _chooses(rest)):
            self.verb = verb
            self._choose(rest)
        elif self.verb and _chooses(raw):
            self._choose(raw)
        else:
            self.verb = None
            self.state.append(as_state(raw))

    def answer(self) -> Answer:
        """What was read."""
        pins = [one for line in self.chosen[Verb.DROP] for one in _numbers(line)]
        changes = "\n".join(self.chosen[Verb.REPLACED])
        return Answer(
            tuple(_telling(self.state)),
            tuple(one for line in self.chosen[Verb.RULES] for one in _numbers(line)),
            tuple(one for line in self.chosen[Verb.QUOTATIONS] for one in _numbers(line)),
            tuple((int(one["pin"]), one["by"]) for one in _REPLACED.finditer(changes)),
            tuple(int(one[1:]) for one in pins if one.startswith("P")),
        )

    def _choose(self, rest: str) -> None:
        if self.verb and rest:
            self.chosen[self.verb].append(rest)


def _labelled(raw: str) -> tuple[str, str]:
    """What stands before the first colon of a line, and what behind it; all of it without one."""
    line = _MARKS.sub("", raw, count=1).strip()
    colon = _COLONS.search(line)
    label = line[: colon.start()] if colon else line
    if len(label) > _LONGEST_LABEL:
        return "", ""
    return label.strip(_AROUND), line[colon.end() :].strip(_AROUND) if colon else ""


def _chooses(rest: str) -> bool:
    """Whether a line names sentences or pins, and says nothing else."""
    bare = _REPLACED.sub("1", _MARKS.sub("", rest, count=1))
    return bool(_ONLY_NUMBERS.match(bare))


def _numbers(line: str) -> Iterator[str]:
    spaced = _JOINED.sub(r"\1, ", line)
    for count, found in enumerate(_NUMBER.finditer(spaced)):
        if count == _MOST_NUMBERS:
            return
        first, last = found.groups()
        yield f"{first}-{last}" if last else first


def _telling(lines: list[str]) -> Iterator[str]:
    """The lines without heads of nothing, and once what a small model writes again and again."""
    for line, following in pairwise([*lines, "## "]):
        is_empty = line.startswith("## ") and following.startswith("## ")
        if line.strip("# ") and line != following and not is_empty:
            yield line
