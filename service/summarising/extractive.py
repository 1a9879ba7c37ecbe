"""The built-in summariser: picks sentences by rule, writes none. Deterministic, needs no model, invents nothing.

It is the summariser of an installation without an LLM, and the degraded fallback of one whose LLM stays away.
Pure: reading in, narrative out, in the same sections as an LLM is asked for.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from service import tokens
from service.summarising.prompt import SECTIONS
from service.summarising.reading import Excerpt, Reading

GOAL, CONSTRAINTS, DECISIONS, FACTS, FILES, QUESTIONS, STATE = SECTIONS

_SHARE = {GOAL: 10, CONSTRAINTS: 20, DECISIONS: 18, FACTS: 24, FILES: 8, QUESTIONS: 8, STATE: 12}  # per cent
_KEEPS_OLDEST = {GOAL, CONSTRAINTS}  # they are set early; of the other sections the newest lines matter most
_REPLACED = {QUESTIONS, STATE}  # they describe the end of what was read

_SENTENCE = 240  # characters
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SPLIT = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_BULLET = re.compile(r"^\s*(?:(?:[>*•\-–—#]+|\d{1,3}[.)])\s+)*")
_EMPHASIS = re.compile(r"(?<!\w)(?:\*\*|__|`)|(?:\*\*|__|`)(?!\w)")  # not the `**` of 2**10

_CONSTRAINT = re.compile(
    r"\b(must(?: not)?|never|always|do not|don't|cannot|only|prefer\w*|at most|at least|no more than|no later than|"
    r"deadline|budget|required?|forbidden|not allowed|keep in mind|remember|make sure|rule|"
    r"muss|nie|immer|nur|nicht|bitte|höchstens|doit|jamais|toujours|debe|nunca|siempre)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(decided?|decision|we(?:'ll| will) (?:use|go|keep|take|do|move)|let's (?:use|go|keep|take|do)|agreed|chose|"
    r"chosen|settled on|go with|instead of|switch(?:ed|ing)? to|approved?|final|"
    r"entschieden|beschlossen|décidé|decidido)\b",
    re.IGNORECASE,
)
_VALUE = re.compile(r"https?://\S+|\b[\w.-]+@[\w-]+\.\w+|\b[A-Z]{2,}-\d+\b|\d[\d.,:/-]*\d|\b\d+\s?%|\b\d\b")
_FILE = re.compile(
    r"https?://[^\s)>\"'`\]]+|(?<![\w/])(?:~?/|\./)?(?:[\w.-]+/)+[\w.-]+\.\w{1,8}\b|\b[\w-]+\.(?:py|sql|md|ya?ml|json|csv|txt|toml|sh|ts|js|go|rs|java|pdf|xlsx?|docx?)\b"
)


def extract(reading: Reading) -> str:
    """The new narrative: the previous one's lines and the best sentences of what followed, within `summary_tokens`."""
    old = _parse(reading.previous)
    new = _collect(reading.excerpts, first=not old.get(GOAL))
    merged = {}
    for section in SECTIONS:
        kept = [] if section in _REPLACED and new[section] else old.get(section, [])
        merged[section] = _unique([*kept, *new[section]])
    return _write(merged, reading.summary_tokens)


def _collect(excerpts: Sequence[Excerpt], first: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for excerpt in excerpts:
        if excerpt.label.startswith("tool"):
            continue  # a result's place is the ledger
        by_user = _by(excerpt, "user")
        found[FILES] += _files(excerpt.text)
        for number, sentence in enumerate(_sentences(excerpt.text)):
            if by_user and first and number < 2:
                found[GOAL].append(sentence)
            if by_user and _CONSTRAINT.search(sentence):
                found[CONSTRAINTS].append(sentence)
            elif _DECISION.search(sentence):
                found[DECISIONS].append(sentence)
            elif len(_VALUE.findall(sentence)) >= (1 if by_user else 2):
                found[FACTS].append(sentence)
        first = first and not by_user
    found[QUESTIONS] = _open_questions(excerpts)
    found[STATE] = _state(excerpts)
    return found


def _by(excerpt: Excerpt, role: str) -> bool:
    """Whether a whole step, or a piece of one, is of `role`."""
    return excerpt.label == role or excerpt.label.startswith(f"{role}, piece ")


def _open_questions(excerpts: Sequence[Excerpt]) -> list[str]:
    last = next((e.text for e in reversed(excerpts) if _by(e, "assistant")), "")
    return [sentence for sentence in _sentences(last) if sentence.endswith("?")][:3]


def _state(excerpts: Sequence[Excerpt]) -> list[str]:
    state = []
    for label, lead in (("user", "Last asked: "), ("assistant", "Last answered: ")):
        text = next((e.text for e in reversed(excerpts) if _by(e, label)), "")
        if sentences := list(_sentences(text))[:2]:
            state.append(lead + " ".join(sentences))
    return state


def _files(text: str) -> list[str]:
    return [match.rstrip(".,;:") for match in _FILE.findall(text)]


def _sentences(text: str) -> Iterator[str]:
    for raw in _SPLIT.split(_CODE.sub("\n", text)):
        if raw.lstrip().startswith(("|", "[")):
            continue  # a table row or a label
        sentence = " ".join(_EMPHASIS.sub("", _BULLET.sub("", raw, count=1)).split())
        if len(sentence) >= 12:
            yield _short(sentence)


def _short(sentence: str) -> str:
    """Cut between words, so that no number loses its end."""
    if len(sentence) <= _SENTENCE:
        return sentence
    begin, blank, _ = sentence[:_SENTENCE].rpartition(" ")
    return f"{begin} …" if blank else "…"


def _parse(narrative: str) -> dict[str, list[str]]:
    """The sections of an earlier narrative, whoever wrote it; lines outside known sections count as facts."""
    sections: dict[str, list[str]] = {}
    current = FACTS
    for line in narrative.splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ").strip()
            current = title if title in SECTIONS else FACTS
        elif text := line.strip().removeprefix("- ").strip():
            sections.setdefault(current, []).append(text)
    return sections


def _unique(lines: Iterable[str]) -> list[str]:
    return list({line.casefold(): line for line in lines}.values())


def _write(sections: dict[str, list[str]], limit: int) -> str:
    """Each section gets its share; what a section leaves goes to the next ones."""
    out: list[str] = []
    spare = 0
    for section in SECTIONS:
        room = limit * _SHARE[section] // 100 + spare
        lines, used = _fit(sections[section], room, section in _KEEPS_OLDEST)
        if lines:
            out += [f"## {section}", *lines, ""]
        spare = room - used
    return "\n".join(out).strip()


def _fit(lines: Sequence[str], room: int, oldest_first: bool) -> tuple[list[str], int]:
    kept: list[str] = []
    used = 8  # the head
    for line in lines if oldest_first else reversed(lines):
        cost = tokens.count(line) + 3
        if used + cost <= room:
            kept.append(f"- {line}")
            used += cost
    return (kept if oldest_first else kept[::-1]), used if kept else 0
