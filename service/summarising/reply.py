"""Parses a summariser's reply: its choices by number, and the state. Pure.

`docs/summariser.md` has the form. Nothing fails here: a line that is no choice belongs to the
state, and a reply that was cut off counts without its last line.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice, pairwise

from service.summarising import state
from service.summarising.reading import Finish, Reply
from service.summarising.state import Segment
from service.summarising.wordings import WORDINGS

_MOST_LINES = 400
_LONGEST_LINE = 4000  # characters
_MOST_NUMBERS = 512  # in one line

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
_REASONING_ENDS = ("</think>", "</thinking>", "</reasoning>")
_COLON = re.compile(r"\s{0,4}[:：]\s{0,8}")
_AROUND = " \t*_`"


class Verb(StrEnum):
    """The kind of choice that a line makes."""

    RULES = "rules"
    QUOTATIONS = "quotations"
    REPLACED = "replaced"


_VERBS = {name: verb for one in WORDINGS.values() for verb in Verb for name in one.verbs[verb]}
# Models write such a word where there is nothing to choose, though they are asked for no line then.
_NOTHING = {name for one in WORDINGS.values() for name in one.verbs["nothing"]}


@dataclass(frozen=True, slots=True)
class Answer:
    """A parsed reply."""

    #: Lines of the state, in their stored form.
    state: tuple[str, ...] = ()
    #: Numbers of sentences such as `12.3`, of pins such as `P7`, and ranges such as `12.3-13.1`.
    rules: tuple[str, ...] = ()
    quotations: tuple[str, ...] = ()
    #: A pin's number, and the number of what holds instead.
    replaced: tuple[tuple[int, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return self == Answer()


def strip_reasoning(text: str) -> str:
    """Removes the reasoning before an answer, which some servers leave in the text.

    Templates may open the reasoning in the prompt, so that only its end stands in the reply.
    """
    ends = [place + len(mark) for mark in _REASONING_ENDS if (place := text.rfind(mark)) >= 0]
    return text[max(ends) :].lstrip() if ends else text


def parse_reply(reply: Reply) -> Answer:
    """Parses a reply; one that was cut off counts without its last line."""
    written = reply.text.splitlines()
    if reply.finish is Finish.LENGTH:
        written = written[:-1]
    lines = [line[:_LONGEST_LINE] for line in written[:_MOST_LINES]]
    reader = _ReplyReader()
    for segment in state.split_segments(lines):
        reader.read(segment)
    return reader.finish()


@dataclass(slots=True)
class _ReplyReader:
    """Goes through the lines of a reply; numbers belong to the last `verb` above them."""

    verb: Verb | None = None
    state: list[str] = field(default_factory=list)
    chosen: dict[Verb, list[str]] = field(default_factory=lambda: {verb: [] for verb in Verb})

    def read(self, segment: Segment) -> None:
        """Reads a segment; a fence around the whole answer does not belong to the state."""
        if segment.fence is not None and not self._is_answer(segment):
            self.verb = None
            self.state += state.add_fences(segment)
            return
        for line in segment.lines:
            if state.says_something(line):
                self._read_line(line)

    def _is_answer(self, segment: Segment) -> bool:
        """Whether a fence stands around the answer: it chooses, or begins with a head."""
        first = next((line for line in segment.lines if line.strip()), "")
        if _read_choice(first):
            return True
        return not self.state and state.parse_line(first).startswith(state.HEAD)

    def _read_line(self, raw: str) -> None:
        choice = _read_choice(raw)
        if choice:
            self.verb, rest = choice
            self.chosen[self.verb].append(rest)
        elif self.verb and _chooses(raw):
            self.chosen[self.verb].append(raw)
        else:
            self.verb = None
            self.state.append(state.parse_line(raw))

    def finish(self) -> Answer:
        """Returns the parsed reply."""
        changes = "\n".join(self.chosen[Verb.REPLACED])
        return Answer(
            tuple(_drop_empty_heads(self.state)),
            self._list_numbers(Verb.RULES),
            self._list_numbers(Verb.QUOTATIONS),
            tuple((int(one["pin"]), one["by"]) for one in _REPLACED.finditer(changes)),
        )

    def _list_numbers(self, verb: Verb) -> tuple[str, ...]:
        lines = map(_find_numbers, self.chosen[verb])
        return tuple(chain.from_iterable(lines))


def _read_choice(raw: str) -> tuple[Verb, str] | None:
    """Reads the verb of a line that chooses, and its numbers; None for a line of the state."""
    line = state.strip_marks(raw).strip()
    label, _, rest = _COLON.sub(":", line, count=1).partition(":")
    verb = _VERBS.get(label.strip(_AROUND).casefold())
    numbers = rest.strip(_AROUND)
    return (verb, numbers) if verb and (not numbers or _chooses(numbers)) else None


def _chooses(rest: str) -> bool:
    """Whether a line names sentences or pins, and says nothing else."""
    bare = _REPLACED.sub("1", state.strip_marks(rest))
    says_nothing = bare.strip(_AROUND).rstrip(".。").casefold() in _NOTHING
    return says_nothing or bool(_ONLY_NUMBERS.match(bare))


def _find_numbers(line: str) -> Iterator[str]:
    """Yields the numbers and ranges of a line."""
    spaced = _JOINED.sub(r"\1, ", line)
    for found in islice(_NUMBER.finditer(spaced), _MOST_NUMBERS):
        first, last = found.groups()
        yield f"{first}-{last}" if last else first


def _drop_empty_heads(lines: Sequence[str]) -> Iterator[str]:
    """Yields lines without heads of nothing; a line that a model repeats stands once."""
    end = ("## ",)
    for block, following in pairwise([*state.split_blocks(lines), end]):
        is_empty = block[0].startswith(state.HEAD) and following[0].startswith(state.HEAD)
        if block[0].strip("# ") and block != following and not is_empty:
            yield from block
