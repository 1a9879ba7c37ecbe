"""The publish gate: what of a summariser's reply may stand in a summary. Pure.

A reply that is no answer at all is rejected whole. Of an answer the narrative is judged line by line: a line with a
number, id, URL or quoted name that nothing covered bears out, with a value that holds no more, or with an order that
only a tool or a quotation gave, is dropped. When too little stands, the reply is rejected with the reasons, which the
summariser is told once. Pins need no judging, because their words are copied.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from service import languages, tokens
from service.summarising import suspicion, values
from service.summarising.answer import NARRATIVE, Answer
from service.summarising.echoes import Heard
from service.summarising.likeness import negated, subject
from service.summarising.reading import Finish, Reply
from service.summarising.values import Evidence

_REASONING = re.compile(r"</?(?:think|thinking|reasoning|thought)\b|<\|(?:channel|start)\|>|◁think▷", re.IGNORECASE)
_PROTOCOL = re.compile(
    r"<[|｜]?/?(?:tool_calls?(?:_\w+)?|function_calls?|tool_response|invoke|tool▁)\b|<function=|\[TOOL_CALLS\]|"
    r'^[^\S\n]*+\{\s*+"(?:tool_calls|function_call|name"\s*+:\s*+"[^"]*+",\s*+"(?:arguments|parameters))\b',
    re.IGNORECASE | re.MULTILINE,
)
_REFUSAL = re.compile(
    r"\A\s*+(?:#[^\n]*+\n\s*+[-*]?\s*+)?(?:i['’]?m (?:sorry|unable|not able)|i am (?:sorry|unable|not able)|"
    r"i can(?:no|['’])t (?:help|assist|comply|do|summari[sz]e|provide|fulfil+)|sorry,? (?:but )?i|as an ai\b|"
    r"i apologi[sz]e|unfortunately,? i can|"
    r"es tut mir leid|ich kann (?:dabei|dir|ihnen|diese[nrs]?)? ?(?:leider )?nicht|"
    r"je suis désolé|lo siento|mi dispiace|desculp)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{2,120})[\"”“»]|`([^`\n]{2,120})`|(?<!\w)'([^'\n]{2,120})'(?!\w)")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_SLACK = 5 / 4  # a model cannot count its own tokens exactly
_LEAST_GAIN = 9 / 10  # of what it replaces a summary may be so large at most
_SAME = 0.75  # of what a ban is about, for a line to be about the same
_STANDS = 0.5  # of the lines have to be left, or a repair is asked for
_SHOWN = 160  # characters of a dropped line in a verdict
_MOST_REASONS = 12
_PASSAGE = 160  # characters around a value in a tool's result
_MOST_PLACES = 8


class Fault(NamedTuple):
    """Why something may not stand: a word for it, and a sentence, which may quote the text."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A line that was left out, and why."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a reply; stored with the checkpoint and shown to operators.

    Attributes:
        outcome: `accepted`, `mended` (lines were dropped), `repaired` (the second reply was taken), `degraded` (rules
            wrote it, because neither reply was usable), `extractive` (rules write here anyway), or `rejected`.
        reasons: why an earlier reply, or this one, was rejected.
        dropped: lines that were left out of the narrative.
        unfounded: proposals and marks that nothing in the text bears out; they were ignored.
        left_out: pins that found no room.
        masked: secrets that were masked in what is new.
        kinds: of `reasons` when this reply was rejected; without a word of the text, so they may be logged.
    """

    outcome: str
    reasons: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    unfounded: tuple[str, ...] = ()
    left_out: int = 0
    masked: int = 0
    kinds: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether there is a narrative to publish."""
        return self.outcome != "rejected"

    def as_json(self) -> dict[str, Any]:
        """For storage; empty fields are left out."""
        whole = {
            "outcome": self.outcome,
            "reasons": list(self.reasons),
            "dropped": [{"line": one.line[:_SHOWN], "reason": one.reason} for one in self.dropped[:_MOST_REASONS]],
            "unfounded": [text[:_SHOWN] for text in self.unfounded[:_MOST_REASONS]],
            "left_out": self.left_out,
            "masked": self.masked,
        }
        return {name: value for name, value in whole.items() if value}


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a narrative is judged by.

    Attributes:
        evidence: of all that is covered: the texts read and the memory before.
        ordered: of what people said themselves; only that may give orders.
        foreign: what tools answered.
        heard: what was spoken, and what only orders say.
        bans: numbers of the constraints that forbid something, and what each is about.
        stale: values that hold no more, each with those that took its place.
        language: of the conversation; None when it cannot be told.
    """

    evidence: Evidence
    ordered: Evidence
    foreign: Sequence[str] = ()
    heard: Heard | None = None
    bans: Sequence[tuple[int, frozenset[str]]] = ()
    stale: Mapping[str, frozenset[str]] = field(default_factory=dict)
    language: str | None = None


def fault(reply: Reply) -> Fault | None:
    """Why a reply is no answer at all; None when it is one."""
    text = reply.text.strip()
    checks: tuple[tuple[Callable[[], object], Fault], ...] = (
        (lambda: not text, Fault("empty", "empty answer")),
        (
            lambda: reply.finish is Finish.LENGTH,
            Fault("cut_off", "cut off: the summariser reached its output limit"),
        ),
        (lambda: reply.finish is not Finish.STOP, Fault("unfinished", "not finished normally")),
        (lambda: _REASONING.search(text), Fault("reasoning", "contains reasoning")),
        (lambda: _PROTOCOL.search(text), Fault("tool_protocol", "contains tool protocol")),
        (lambda: _REFUSAL.match(text), Fault("refusal", "a refusal, not a record")),
    )
    return next((found for failed, found in checks if failed()), None)


def rejected(faults: Sequence[Fault], dropped: tuple[Dropped, ...] = ()) -> Verdict:
    """The verdict on a reply that may not stand."""
    return Verdict(
        "rejected",
        tuple(one.reason for one in faults),
        dropped,
        kinds=tuple(dict.fromkeys(one.kind for one in faults)),
    )


def judge(answer: Answer, grounds: Grounds, limit: int) -> tuple[dict[str, tuple[str, ...]], Verdict]:
    """The narrative lines that stand, and the verdict."""
    kept: dict[str, tuple[str, ...]] = {}
    objections: list[tuple[str, Fault]] = []
    for section in NARRATIVE:
        said = dict.fromkeys(answer.narrative.get(section, ()))
        judged = [(line, _objection(line, grounds)) for line in said]
        kept[section] = tuple(line for line, objection in judged if not objection)
        objections += [(line, objection) for line, objection in judged if objection]
    lines = [line for section in NARRATIVE for line in kept[section]]
    dropped = tuple(Dropped(line, objection.reason) for line, objection in objections)
    if faults := _whole(lines, objections, answer, grounds, limit):
        return kept, rejected(faults, dropped)
    return kept, Verdict("mended" if dropped else "accepted", dropped=dropped)


def gain(size: int, replaced: int) -> Fault | None:
    """Why a summary message of `size` tokens is not worth what it stands for; None when it is."""
    if size > replaced * _LEAST_GAIN:
        return Fault("not_smaller", f"not smaller than what it replaces: {size} tokens for {replaced}")
    return None


def _whole(
    lines: Sequence[str],
    objections: Sequence[tuple[str, Fault]],
    answer: Answer,
    grounds: Grounds,
    limit: int,
) -> list[Fault]:
    """Why the narrative cannot stand as a whole."""
    faults: list[Fault] = []
    if not lines and not objections and not (answer.proposals or answer.marks):
        faults.append(Fault("says_nothing", "says nothing"))
    if objections and len(lines) < _STANDS * (len(lines) + len(objections)):
        told = (Fault(one.kind, f"{one.reason} in: {line[:_SHOWN]}") for line, one in objections)
        faults += list(dict.fromkeys(told))[:_MOST_REASONS]
    text = "\n".join(lines)
    if grounds.language and languages.differs(text, grounds.language):
        reason = f"not in the language of the conversation ({grounds.language})"
        faults.append(Fault("other_language", reason))
    if (written := tokens.count(text)) > limit * _SLACK:
        reason = f"too long: {written} tokens where {limit} were asked for"
        faults.append(Fault("too_long", reason))
    return faults


def _objection(line: str, grounds: Grounds) -> Fault | None:
    """Why a line may not stand; None when it may."""
    if suspicion.structural(line):
        return Fault("prompt_structure", "imitates the structure of a prompt")
    if missing := grounds.evidence.missing(line):
        return Fault("value_unknown", f"{', '.join(missing[:3])} does not occur")
    if names := [name for name in _names(line) if not grounds.evidence.says(name)]:
        return Fault("name_unknown", f"“{names[0]}” does not occur")
    if suspicion.suspicious(line) and not _said(line, grounds.ordered):
        return Fault("order", "an order that no user gave")
    if grounds.heard and grounds.heard.echoed(line):
        return Fault("order_echoed", "taken over from an order that no user gave")
    if planted := [value for value in values.found(line) if _planted(value.text, grounds)]:
        return Fault("value_planted", f"{planted[0].text} stands only in an order that a tool gave")
    if broken := [number for number, about in grounds.bans if _allows(line, about)]:
        return Fault("ban_broken", f"says the opposite of P{broken[0]}")
    present = {values.spelling(value) for value in values.found(line)}
    old = [value for value in present & grounds.stale.keys() if not present & grounds.stale[value]]
    return Fault("value_stale", f"{old[0]} holds no more") if old else None


def _allows(line: str, about: frozenset[str]) -> bool:
    """Whether a line tells of what is forbidden, without the word that forbids it."""
    words = subject(line)
    return len(words & about) >= max(_SAME * len(about), 2) and len(words) <= 2 * len(about) and not negated(line)


def _planted(value: str, grounds: Grounds) -> bool:
    """Whether a value stands nowhere but in passages of tool results that read like orders."""
    if grounds.ordered.says(value):
        return False
    places = [
        text[max(found.start() - _PASSAGE, 0) : found.end() + _PASSAGE]
        for text in grounds.foreign
        for found in islice(re.finditer(re.escape(value), text, re.IGNORECASE), _MOST_PLACES)
    ]
    return bool(places) and all(map(suspicion.suspicious, places))


def _names(line: str) -> list[str]:
    return [" ".join(next(filter(None, match.groups())).strip(" .,;:!?…").split()) for match in _QUOTED.finditer(line)]


def _said(line: str, ordered: Evidence) -> bool:
    """Whether people themselves used most of the line's words."""
    words = _LONG_WORD.findall(line.casefold())
    return sum(ordered.says(word) for word in words) >= 0.7 * len(words)
