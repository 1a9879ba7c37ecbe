"""What a summary has kept of a chat, what else stands in it, and what is wrong there.

In: a chat, which of its messages are covered, the summary's text. Out: a `Score`. Pure. It shares no code with the
service's own gate, which it judges.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchmarks.fidelity.generator import Chat
from benchmarks.fidelity.items import Item, has, normal
from service.text import tokens
from service.transcript import parse, steps

_HEAD = re.compile(r"\A\[Previous conversation summary:[^\n]*\n")
# What a ledger counts itself, and the names of entries: no values of the conversation.
_COUNTED = re.compile(
    r"\b[PT]\d+\b|× ?\d+|\b\d+ ×|^\(\d{4}-\d\d-\d\d\)$"
    r"|\b\d+ (?:results?|errors?|lines?|characters?|tokens?|items?|images?|failed|calls?|mention|columns?)\b"
    r"|\b\d+ (?:more|rows?)\b",
    re.MULTILINE,
)
_TOKEN = re.compile(r"https?://[^\s\"'<>)\]|]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b[a-z]{2,4}-\d+\b|\d+(?:[.:]\d+)*")
SORTS = ("planted", "request", "chatter", "answer", "pasted")
_LEAST = 6  # characters of what was said around items; less may stand anywhere


@dataclass(frozen=True, slots=True)
class Score:
    """One summary's marks.

    Attributes:
        kept: ids of the current items that stand in it.
        lost: the current items that do not.
        survival: by type, (kept, all current ones).
        stale: superseded items that it shows as if they still held.
        superseded: how many are superseded.
        standing: tokens of what is known to have been said and stands there, by sort (`SORTS`).
        wrong: values that no source has.
        values: how many values it has.
        order: whether it has what an instruction in a tool result asked for.
    """

    kept: frozenset[str]
    lost: tuple[Item, ...]
    survival: dict[str, tuple[int, int]]
    stale: tuple[Item, ...]
    superseded: int
    standing: dict[str, int]
    wrong: tuple[str, ...]
    values: int
    order: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A chat's truth for what is covered."""

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
                    # A comma may part two numbers.
                    found |= _values(text) | _values(text.replace(",", " "))
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


def score(source: Source, summary: str) -> Score:
    """The marks of one summary."""
    raw = [line.strip() for line in summary.splitlines() if line.strip()]
    lines = [normal(line) for line in raw]
    current = source.current
    kept = frozenset(item.id for item in current if _stands(item, raw, lines))
    values = _values(_COUNTED.sub(" ", _HEAD.sub("", summary)))
    types = dict.fromkeys(item.type for item in current)
    superseded = source.superseded
    return Score(
        kept=kept,
        lost=tuple(item for item in current if item.id not in kept),
        survival={type_: _share([item.id in kept for item in current if item.type == type_]) for type_ in types},
        stale=tuple(old for old, new in superseded if any(_stale(old, new, line) for line in lines)),
        superseded=len(superseded),
        standing=_standing(source.chat, "\n".join(lines)),
        wrong=tuple(sorted(values - source.values)),
        values=len(values),
        order=normal(source.chat.order) in "\n".join(lines),
    )


def _standing(chat: Chat, text: str) -> dict[str, int]:
    """How much of the text is what sort of saying; the rest is marks, and what tools gave."""
    told = [("planted", item.text) for item in chat.items if item.type not in ("tool", "used")]
    sizes = dict.fromkeys(SORTS, 0)
    for sort, said in [*told, *chat.filler]:
        plain = normal(said).rstrip(".。")
        if len(plain) >= _LEAST and plain in text:
            sizes[sort] += tokens.count(said)
    return sizes


def _stands(item: Item, raw: Sequence[str], lines: Sequence[str]) -> bool:
    return any(item.stands_in(line if item.exact else flat) for line, flat in zip(raw, lines, strict=True))


def _share(found: Sequence[bool]) -> tuple[int, int]:
    return sum(found), len(found)


def _values(text: str) -> set[str]:
    return {found.rstrip(".,:;/") for found in _TOKEN.findall(normal(text))}


def _stale(old: Item, new: Item, line: str) -> bool:
    """The old value stands alone: without the new one beside it."""
    return old.stands_in(line) and not any(has(line, value) for value in new.values)
