"""What a summary has kept of a chat: survival by type, values, leaks, contradictions, drift.

In: a chat, which of its messages are covered, the summary's text. Out: a `Score`. Pure. It shares no code with the
service's own gate, which it judges.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.fidelity.generator import Chat
from benchmarks.fidelity.items import Item, has, normal
from service.transcript import parse, steps

_HEAD = re.compile(r"\A\[Previous conversation summary:[^\n]*\n")
# What a ledger counts itself, and the names of entries: no values of the conversation.
_COUNTED = re.compile(
    r"\b[PT]\d+\b|× ?\d+|\b\d+ ×"
    r"|\b\d+ (?:results?|errors?|lines?|characters?|items?|images?|failed|calls?|mention|columns?|more)\b"
)
_TOKEN = re.compile(r"https?://[^\s\"'<>)\]|]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b[a-z]{2,4}-\d+\b|\d+(?:[.:]\d+)*")
_DIGITS = re.compile(r"\d+(?:[.:/-]\d+)*")


@dataclass(frozen=True, slots=True)
class Score:
    """One summary's marks.

    Attributes:
        kept: ids of the items that stand in it.
        lost: ids of the current items that do not.
        survival: by type, (kept, all current ones).
        held_out: (kept, all) of what is said in phrasings that are held out.
        tried: the same of what is said in the others.
        values: (right, all) values that it has.
        recall: (found, all) planted values.
        leaks: superseded items that it shows as if they still held.
        superseded: how many are superseded.
        contradicted: (items, all with a subject and a value) that it gives another value.
        drift: (changed, all) of the items that stood in the last summary too: whether their line is another one.
        tool_drift: the same of what tools gave, whose lines code makes shorter as they grow old.
        order: whether it repeats what an instruction in a tool result asked for.
        lines: where each kept item stands.
        wrong: values that no source has.
    """

    kept: frozenset[str]
    lost: tuple[str, ...]
    survival: dict[str, tuple[int, int]]
    held_out: tuple[int, int]
    tried: tuple[int, int]
    values: tuple[int, int]
    recall: tuple[int, int]
    leaks: tuple[str, ...]
    superseded: int
    contradicted: tuple[tuple[str, ...], int]
    drift: tuple[int, int]
    tool_drift: tuple[int, int]
    order: bool
    lines: dict[str, frozenset[str]] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A chat's truth for what is covered: the values of its texts, and its current items."""

    chat: Chat
    values: frozenset[str]
    covered: frozenset[str]

    @classmethod
    def of(cls, chat: Chat, covered: Collection[str]) -> "Source":
        """The truth when these messages are covered."""
        found: set[str] = set(map(normal, chat.derived))
        for message in chat.messages:
            if message["id"] in covered:
                for step in steps(parse(message)):
                    texts = [step.text, *(f"{one.call.arguments}\n{one.result.text}" for one in step.calls)]
                    text = "\n".join(texts)
                    found |= _values(text) | _values(text.replace(",", " "))  # a comma may part two numbers
        return cls(chat, frozenset(found), frozenset(covered))

    @property
    def current(self) -> list[Item]:
        """What has been said and still holds."""
        return [item for item in self.chat.items if item.current(self.covered)]

    @property
    def superseded(self) -> list[tuple[Item, Item]]:
        """What does not hold any more, each with its successor."""
        return [
            (old, new)
            for old in self.chat.items
            if old.until in self.covered and old.message in self.covered
            for new in self.chat.items
            if new.replaces == old.id
        ]


def score(source: Source, summary: str, before: Score | None = None) -> Score:
    """The marks of one summary; `before` is the last round's."""
    raw = [line.strip() for line in summary.splitlines() if line.strip()]
    lines = [normal(line) for line in raw]
    current = source.current
    places = {item.id: frozenset(_places(item, raw, lines)) for item in current}
    kept = frozenset(identity for identity, found in places.items() if found)
    wanted = [value for item in current if item.type != "tool" for value in item.values]
    text = "\n".join(lines)
    values = _values(_COUNTED.sub(" ", _HEAD.sub("", summary)))
    wrong = sorted(values - source.values)
    superseded = source.superseded
    valued = [item for item in current if item.type != "tool" and item.subject and item.values]
    same = kept & before.kept if before else frozenset[str]()
    tools = {item.id for item in current if item.type == "tool"}
    return Score(
        kept=kept,
        lost=tuple(item.id for item in current if item.id not in kept),
        survival=_survival(current, kept),
        held_out=_share(kept, (item for item in current if item.held_out)),
        tried=_share(kept, (item for item in current if item.type != "tool" and not item.held_out)),
        values=(len(values) - len(wrong), len(values)),
        recall=(sum(has(text, value) for value in wanted), len(wanted)),
        leaks=tuple(old.id for old, new in superseded if any(_leaks(old, new, line) for line in lines)),
        superseded=len(superseded),
        contradicted=(tuple(item.id for item in valued if _contradicted(item, lines, current, wrong)), len(valued)),
        drift=_drift(same - tools, before, places),
        tool_drift=_drift(same & tools, before, places),
        order=normal(source.chat.order) in text,
        lines=places,
        wrong=tuple(wrong),
    )


def _drift(same: Collection[str], before: Score | None, places: Mapping[str, frozenset[str]]) -> tuple[int, int]:
    return sum(not (before.lines[one] & places[one]) for one in same) if before else 0, len(same)


def _places(item: Item, raw: Sequence[str], lines: Sequence[str]) -> list[str]:
    return [line for line, flat in zip(raw, lines, strict=True) if item.stands_in(line if item.exact else flat)]


def _survival(current: Sequence[Item], kept: Collection[str]) -> dict[str, tuple[int, int]]:
    types = dict.fromkeys(item.type for item in current)
    return {type_: _share(kept, (item for item in current if item.type == type_)) for type_ in types}


def _share(kept: Collection[str], items: Iterable[Item]) -> tuple[int, int]:
    found = [item.id in kept for item in items]
    return sum(found), len(found)


def _values(text: str) -> set[str]:
    return {found.rstrip(".,:;/") for found in _TOKEN.findall(normal(text))}


def _leaks(old: Item, new: Item, line: str) -> bool:
    """The old value stands alone: without the new one beside it."""
    return all(has(line, value) for value in old.values) and not any(has(line, value) for value in new.values)


def _contradicted(item: Item, lines: Sequence[str], current: Sequence[Item], wrong: Collection[str]) -> bool:
    """Some line is about the item and has a value of the same shape, but not the right one.

    Any line has bare numbers, so of those only one that no source has is another value.
    """
    shapes = {_shape(normal(value)) for value in item.values}
    if shapes == {"0"}:
        lines = [line for line in lines if _values(line) & set(wrong)]
    for line in lines:
        if not all(has(line, key) for key in item.subject) or any(has(line, value) for value in item.values):
            continue
        if any(shape in _shape(line) for shape in shapes) and not any(one.stands_in(line) for one in current):
            return True
    return False


def _shape(text: str) -> str:
    """All numbers look the same: `4260 eur` and `17 eur` are both `0 eur`."""
    return _DIGITS.sub("0", text)
