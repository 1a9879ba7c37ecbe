"""The publish gate: verifies which clauses of a summariser's state may stand. Pure.

A reply that is no answer is rejected whole. A line in which the summariser speaks of itself or of
its task is cut. A value or a name has to occur in what is covered, in any spelling, or to follow
from amounts of the state, as a sum or a rest does. The summariser is asked once about those that do
not; after that, the clauses that have them are cut, and the rest of their lines stays.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from heapq import nlargest
from importlib import resources
from itertools import chain, combinations
from typing import Any, NamedTuple

from service.summarising import state as states
from service.summarising.reading import Finish, Reply
from service.text import languages, sentences, values
from service.text.plain import drop_hidden
from service.text.terms import find_terms, has_digit
from service.text.values import Evidence

LEAST_GAIN = 9 / 10
"""How large a summary may be at most, as a share of what it replaces."""

_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{2,120})[\"”“»]|(?<!\w)'([^'\n]{2,120})'(?!\w)")
_HEAD = re.compile(r"\A#[^\n]{0,100}\n\s{0,40}(?:[-*]\s{1,8})?")
# A name has letters alone: `OBUT9V` and `Nightly_Sync` are values, which occur whole or not at all.
_NAME = re.compile(
    r"(?:(?:(?<=[^\W\d_] )|(?<=, ))[^\W\d_]{4,40}+|\b[A-Z][a-z]{1,30}[A-Z][^\W\d_]{1,30}+)"
    r"(?!\d|_++[^\W_])"
)
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:[.:/@'’-][^\W_]++)++")
_PART = re.compile(r"[^\W_]++")
_STEM = 4  # letters by which names are known in other forms
_NOUNS_HAVE_CAPITALS = ("de", "lb")
# Where a clause ends; a sign inside a number or a name ends none.
_CLAUSE_ENDS = re.compile(
    r"(?<=[.;,:!?])\s{1,4}|(?<=[。；，、！？])|\s{0,4}(?=[(（])|(?<=[)）])\s{0,4}"
)
_ENDS = " ,;:，；、-–—"
_SUMMED = 6  # values that one value may be the sum of
_BESIDE = 12  # values on a line that are combined; more would reach nearly any number
_LISTED = 40  # lines of a list whose amounts are summed up
_TOTALS = 400  # numbers that others may be the rest of: each is tried for every unknown one
_LARGE = 100  # a smaller number is the difference of some two numbers by chance
_SHOWN = 160  # characters of a cut clause in a verdict
_MOST_REASONS = 12
_QUOTED_MOST = 80  # characters of what a summariser is told to be wrong
_SPEAKS_OF_ITSELF = "the summariser speaks of itself or of its task"
_MARKED = {
    "copy": "repeats its prompt",
    "reasoning": "contains reasoning",
    "protocol": "contains tool protocol",
    "refusal": "a refusal, not a record",
}


class Rejection(NamedTuple):
    """The reason why a reply may not stand: a word for logs, and a sentence that may quote it."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class DroppedClause:
    """A clause that was left out, and the reason."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for a reply; stored with the checkpoint and shown to operators."""

    #: `accepted`, `rejected`, `trimmed` (clauses were cut), `repaired` (the second reply stands),
    #: `degraded` (code wrote, because no reply was usable), or `extractive` (code writes anyway).
    outcome: str
    #: Why an earlier reply, or this one, was rejected.
    reasons: tuple[str, ...] = ()
    #: Clauses that were left out of the state.
    dropped: tuple[DroppedClause, ...] = ()
    #: Choices that nothing in the text supports; they were ignored.
    unfounded: tuple[str, ...] = ()
    #: Number of rules and quotations that found no room.
    left_out: int = 0
    #: Number of secrets that were masked in the new steps.
    masked: int = 0
    #: Kinds of the rejections; they have no word of the text, so they may be logged.
    kinds: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether there is something to publish."""
        return self.outcome != "rejected"

    def as_json(self) -> dict[str, Any]:
        """For storage; empty fields are left out."""
        whole = {
            "outcome": self.outcome,
            "reasons": list(self.reasons),
            "dropped": [
                {"line": one.line[:_SHOWN], "reason": one.reason}
                for one in self.dropped[:_MOST_REASONS]
            ],
            "unfounded": [text[:_SHOWN] for text in self.unfounded[:_MOST_REASONS]],
            "left_out": self.left_out,
            "masked": self.masked,
        }
        return {name: value for name, value in whole.items() if value}


@dataclass(frozen=True)
class SourceEvidence:
    """The texts that a state is verified by."""

    #: What was read, and the memory before.
    covered: Sequence[str]
    #: Language of the conversation; None when it cannot be told.
    language: str | None = None

    @cached_property
    def values(self) -> Evidence:
        """The values of all covered texts."""
        return Evidence("\n".join(self.covered))

    @cached_property
    def stems(self) -> frozenset[str]:
        """The covered values, and the beginnings of all covered words and of their parts."""
        whole = "\n".join(self.covered).replace("_", " ")
        joined = " ".join(_JOINED.findall(whole))
        parts = " ".join(_PART.findall(joined))
        words = find_terms(whole) | find_terms(parts)
        return frozenset(map(_shorten_term, words))

    @property
    def names_have_capitals(self) -> bool:
        """Whether a capital inside a sentence marks a name; in German, every noun has one."""
        return self.language is not None and self.language not in _NOUNS_HAVE_CAPITALS


def find_rejection(reply: Reply) -> Rejection | None:
    """Finds why a reply is no answer; None when it is one, or the beginning of one."""
    text = reply.text.strip()
    if not text:
        return Rejection("empty", "empty answer")
    if reply.finish is Finish.OTHER:
        return Rejection("unfinished", "not finished normally")
    # A refusal may stand under a head; the other marks are looked for everywhere.
    searched = {"reasoning": text, "protocol": text, "copy": text, "refusal": _HEAD.sub("", text)}
    for kind, part in searched.items():
        if any(pattern.search(part) for pattern in load_patterns()[kind]):
            return Rejection(kind, _MARKED[kind])
    return None


def reject_reply(rejections: Sequence[Rejection]) -> Verdict:
    """Makes the verdict on a reply that may not stand."""
    reasons = tuple(one.reason for one in rejections)
    kinds = tuple(dict.fromkeys(one.kind for one in rejections))
    return Verdict("rejected", reasons, kinds=kinds)


class VerifiedState(NamedTuple):
    """A state by its clauses."""

    #: The lines without the clauses that nothing supports, and those clauses.
    kept: tuple[str, ...]
    dropped: tuple[DroppedClause, ...]
    #: What a summariser is asked about once, before anything is cut.
    violations: tuple[Rejection, ...]


def verify_state(state: Sequence[str], evidence: SourceEvidence) -> VerifiedState:
    """Finds the clauses of a state that may stand."""
    unknown = _find_unknown(state, evidence)
    code = _find_code_lines(state)
    kept: list[str] = []
    dropped: list[DroppedClause] = []
    for place, (line, words) in enumerate(zip(state, unknown, strict=True)):
        if place in code:
            rest, cut = _cut_code_line(line, words)
        else:
            rest, cut = _cut_line(line, words, evidence)
        kept += rest
        dropped += cut
    violations = _list_violations(state, dropped, evidence.language)
    return VerifiedState(tuple(kept), tuple(dropped), violations)


def _cut_code_line(line: str, unknown: Sequence[str]) -> tuple[list[str], list[DroppedClause]]:
    """Drops a whole line of code, because without one of its clauses it would be other code."""
    if unknown:
        return [], [DroppedClause(line, _write_reason(unknown))]
    return [line], []


def _cut_line(
    line: str, unknown: Sequence[str], evidence: SourceEvidence
) -> tuple[list[str], list[DroppedClause]]:
    """Drops the clauses of a line that nothing supports, or all of it."""
    if _is_of_itself(line, evidence):
        return [], [DroppedClause(line, _SPEAKS_OF_ITSELF)]
    rest, cut = _cut_clauses(line, unknown)
    says_something = any(map(str.isalnum, rest))
    return [rest] if says_something else [], cut


def _find_code_lines(state: Sequence[str]) -> frozenset[int]:
    """Finds the places of fenced lines, and of their fences."""
    places: set[int] = set()
    place = 0
    for block in states.split_blocks(state):
        if states.is_code(block):
            places.update(range(place, place + len(block)))
        place += len(block)
    return frozenset(places)


def _list_violations(
    state: Sequence[str], dropped: Iterable[DroppedClause], language: str | None
) -> tuple[Rejection, ...]:
    """Lists what a summariser is asked about: where it is wrong, and why."""
    found: list[Rejection] = []
    if language and languages.differs("\n".join(state), language):
        reason = f"not in the language of the conversation ({language})"
        found.append(Rejection("other_language", reason))
    for one in dropped:
        kind = "of_itself" if one.reason == _SPEAKS_OF_ITSELF else "value_unknown"
        where = sentences.shorten(one.line, _QUOTED_MOST)
        found.append(Rejection(kind, f"“{where}”: {one.reason}"))
    return tuple(found[:_MOST_REASONS])


def _write_reason(words: Sequence[str]) -> str:
    return f"{', '.join(words[:3])} does not occur"


def _is_of_itself(line: str, evidence: SourceEvidence) -> bool:
    """Whether more than half of a line are words of the summariser about itself or its task.

    What it quotes, and what the chat says in the same words, is not its own.
    """
    if line.startswith("## "):
        return False
    language = evidence.language or "en"
    marks = load_patterns().get(f"of_itself_{language}", ())
    said = list(sentences.split_sentences(_QUOTED.sub(" ", line.removeprefix("- ")), language))
    own = [one for one in said if any(mark.search(one) for mark in marks)]
    own = [one for one in own if not evidence.values.says(one)]
    return 2 * sum(map(len, own)) > sum(map(len, said))


def _cut_clauses(line: str, unknown: Sequence[str]) -> tuple[str, list[DroppedClause]]:
    """Cuts the clauses with something unknown out of a line; returns the rest and them."""
    if not unknown:
        return line, []
    clauses = _CLAUSE_ENDS.split(line)
    standing = [one for one in clauses if not any(_contains(one, words) for words in unknown)]
    if len(standing) == len(clauses):
        # The value spans two clauses: nothing smaller than the line can be cut.
        standing = []
    cut = [DroppedClause(one, _write_reason(unknown)) for one in clauses if one not in standing]
    return " ".join(standing).strip(_ENDS), cut


def _contains(clause: str, words: str) -> bool:
    """Whether words stand in a clause; `5` does not stand in `15`."""
    return bool(re.search(rf"(?<!\d){re.escape(words)}(?!\d)", clause))


def _find_unknown(state: Sequence[str], evidence: SourceEvidence) -> list[list[str]]:
    """Finds the values and names of each line that nothing supports, as they stand there."""
    lines = list(map(drop_hidden, state))
    missing = [evidence.values.missing(line) for line in lines]
    amounts = [_collect_amounts(line, values) for line, values in zip(lines, missing, strict=True)]
    totals = _sum_totals(amounts)
    found: list[list[str]] = []
    for line, absent, own in zip(lines, missing, amounts, strict=True):
        found.append([*_find_underived(absent, own, totals), *_find_unknown_names(line, evidence)])
    return found


def _collect_amounts(line: str, missing: Sequence[str]) -> set[Decimal]:
    """Collects the numbers of a line that occur in what is covered."""
    numbers: set[Decimal] = set()
    for value in values.find_values(line):
        if value not in missing:
            numbers |= values.read_numbers(value)
    return numbers


def _sum_totals(amounts: Sequence[Collection[Decimal]]) -> frozenset[Decimal]:
    """Collects the numbers from which others may follow: all amounts, and sums over lines.

    A list has its sum below it, and one amount in each line.
    """
    totals = set(chain.from_iterable(amounts))
    for first in range(len(amounts)):
        running = Decimal(0)
        for own in amounts[first : first + _LISTED]:
            if not own:
                break
            running += max(own)
            totals.add(running)
    return frozenset(nlargest(_TOTALS, totals))


def _find_underived(
    missing: Sequence[str], own: set[Decimal], totals: Collection[Decimal]
) -> Iterator[str]:
    """Yields the missing values that follow neither from a line's `own` numbers nor from `totals`.

    A value that follows becomes one of the line's own numbers.
    """
    for value in missing:
        numbers = values.read_numbers(value)
        if any(_follows(number, own, totals) for number in numbers):
            own |= numbers
        else:
            yield value


def _follows(number: Decimal, own: Collection[Decimal], totals: Collection[Decimal]) -> bool:
    """Whether a number is a sum or product of a line's own numbers, or the rest of a total.

    A large number may also be the rest of any total of the state, or of two, because hardly any is
    so by chance.
    """
    few = sorted(own, reverse=True)[:_BESIDE]
    sums = {sum(some) for count in range(1, _SUMMED + 1) for some in combinations(few, count)}
    products = {one * other for one, other in combinations(few, 2)}
    if number in sums | products or any(total - number in sums for total in own):
        return True
    if number < _LARGE:
        return False
    rests = {abs(total - number) for total in totals}
    return number in totals or not rests.isdisjoint({*sums, *totals})


def _find_unknown_names(line: str, evidence: SourceEvidence) -> Iterator[str]:
    """Yields the names that do not occur; a name is a word with a capital inside a sentence."""
    if not evidence.names_have_capitals:
        return
    for word in _NAME.findall(line):
        if not word[0].isupper():
            continue
        # A name is known in any form: only the beginnings are compared.
        stems = {term[:_STEM] for term in find_terms(word)}
        if stems and not stems & evidence.stems:
            yield word


def _shorten_term(term: str) -> str:
    """Shortens a word to its beginning; a value stays whole."""
    return term if has_digit(term) else term[:_STEM]


@cache
def load_patterns() -> dict[str, tuple[re.Pattern[str], ...]]:
    """Loads the patterns of replies that are no answer, by kind."""
    data = tomllib.loads(resources.files(__package__).joinpath("gate.toml").read_text("utf-8"))
    return {
        kind: tuple(re.compile(mark["pattern"], re.IGNORECASE | re.MULTILINE) for mark in marks)
        for kind, marks in data.items()
    }
