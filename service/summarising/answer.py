"""A summariser's reply → what it says: narrative lines by section, proposals for pins, marks of superseded ones. Pure.

Nothing fails here. A model that ignores the format still says something: lines under no known head go to the current
state, lines under a pinned section are proposals, wherever they stand.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.summarising.memory import Kind
from service.summarising.pins import Proposal
from service.summarising.superseding import Mark

SECTIONS = (
    "Goal",
    "Constraints and preferences",
    "Decisions",
    "Facts and values",
    "Files and artifacts",
    "Open questions",
    "Current state",
)
GOAL, CONSTRAINTS, DECISIONS, FACTS, FILES, QUESTIONS, STATE = SECTIONS
NARRATIVE = (GOAL, QUESTIONS, STATE)
"""The sections that a summariser rewrites; the lines of the others are made by code."""
KINDS: Mapping[str, tuple[Kind, ...]] = {
    GOAL: (Kind.GOAL,),
    CONSTRAINTS: (Kind.CONSTRAINT, Kind.PREFERENCE),
    DECISIONS: (Kind.DECISION,),
    FACTS: (Kind.VALUE, Kind.FACT),
    FILES: (Kind.FILE,),
}
SUPERSEDED = "Superseded"

_HEAD = re.compile(
    r"\A\s*+(?:\d{1,2}[.)]\s*+)?(?:#{1,6}\s*+(?:\*\*)?|\*\*)(?:\d{1,2}[.)]\s*+)?"
    r"([^#*:]++):?\s*+(?:\*\*)?:?\s*+$"
    r"|\A\s*+([A-Z][A-Za-z ]{3,30}):\s*+$"
)
_BULLET = re.compile(r"\A\s*+(?:[*•\-–—]|\d{1,3}[.)])\s+")
_FENCE_LINE = re.compile(r"\A\s*+(?:```\w*+|~~~\w*+|={3}.*+)\s*+$")
_NUMBERED = re.compile(r"\A\W*+P(\d{1,6})\W*[:\-–—→>]*\s*(?:(?:is )?(?:superseded|replaced)(?: by)?\W*)?")
_NOTHING = re.compile(
    r"\A\W*+(?:none|nothing(?: new| yet)?|n/?a|no new (?:entries|ones)|keine|aucun\w*|ningun\w*|nessun\w*+)\W*+", re.I
)
_MOST_LINES = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """`narrative` has the lines of each narrative section, without list marks."""

    narrative: Mapping[str, tuple[str, ...]]
    proposals: tuple[Proposal, ...] = ()
    marks: tuple[Mark, ...] = ()


def parse(text: str) -> Answer:
    """What a reply says. Heads are known by their words, whatever marks stand around them."""
    narrative: dict[str, list[str]] = {section: [] for section in NARRATIVE}
    proposals: list[Proposal] = []
    marks: list[Mark] = []
    current = STATE
    for raw in text.splitlines()[:_MOST_LINES]:
        if head := _section(raw):
            current = head
            continue
        line = " ".join(_BULLET.sub("", raw, count=1).split())
        if not line or _FENCE_LINE.match(line) or _NOTHING.fullmatch(line):
            continue
        if current == SUPERSEDED:
            marks += _marks(line)
        elif current in NARRATIVE:
            narrative[current].append(line)
        else:
            proposals.append(Proposal(_NUMBERED.sub("", line), KINDS[current]))
    return Answer({section: tuple(lines) for section, lines in narrative.items()}, tuple(proposals), tuple(marks))


def written(narrative: Mapping[str, Sequence[str]]) -> str:
    """Narrative lines as Markdown, in the order of the sections."""
    blocks = [
        "\n".join([f"## {section}", *(f"- {line}" for line in narrative[section])])
        for section in NARRATIVE
        if narrative.get(section)
    ]
    return "\n\n".join(blocks)


def _section(line: str) -> str | None:
    found = _HEAD.match(line)
    if not found:
        return None
    words = (found[1] or found[2]).strip().casefold()
    return next((name for name in (*SECTIONS, SUPERSEDED) if words.startswith(name.casefold())), None) or _alike(words)


def _alike(words: str) -> str | None:
    """A head that says the same in fewer words."""
    first = words.split()[0] if words else ""
    known = {
        "goals": GOAL,
        "constraints": CONSTRAINTS,
        "constraint": CONSTRAINTS,
        "preferences": CONSTRAINTS,
        "rules": CONSTRAINTS,
        "decision": DECISIONS,
        "facts": FACTS,
        "values": FACTS,
        "files": FILES,
        "artifacts": FILES,
        "questions": QUESTIONS,
        "open": QUESTIONS,
        "state": STATE,
        "status": STATE,
        "current": STATE,
    }
    return known.get(first)


def _marks(line: str) -> list[Mark]:
    found = _NUMBERED.match(line)
    words = line[found.end() :].strip(" \"'“”`") if found else ""
    return [Mark(int(found[1]), words)] if found and words else []
