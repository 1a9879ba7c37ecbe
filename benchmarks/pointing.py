"""How an LLM reads the prompt of Precis, and answers by numbers (docs/summariser.md); for LLMs that are scripts.

In: the user part of a prompt. Out: its numbered sentences and entries; and from what is to be kept, a reply.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

_NUMBERED = re.compile(r"\[(\d{1,7}\.\d{1,6})\] ?([^\n\[]*+(?:\[(?!\d{1,7}\.\d)[^\n\[]*+)*+)")
_ENTRY = re.compile(r"^P(\d{1,7}) [^:\n]{1,40}: (.+)$", re.MULTILINE)


def sentences(prompt: str) -> list[tuple[str, str]]:
    """Numbers with their sentences, in order."""
    return [(number, text.strip()) for number, text in _NUMBERED.findall(prompt)]


def entries(prompt: str) -> list[tuple[int, str]]:
    """What was kept before: numbers with their words."""
    return [(int(number), text) for number, text in _ENTRY.findall(prompt)]


def reply(
    narrative: Mapping[str, Sequence[str]],
    keeps: Mapping[str, Sequence[str]],
    replaced: Iterable[tuple[int, str]] = (),
    drops: Sequence[int] = (),
) -> str:
    """The reply that keeps these numbers by kind, and writes these lines by head."""
    blocks = ["\n".join([f"## {head}", *(f"- {line}" for line in lines)]) for head, lines in narrative.items() if lines]
    kept = [f"keep {kind}: {', '.join(numbers)}" for kind, numbers in keeps.items() if numbers]
    changed = [f"replaced: P{old} by {new}" for old, new in replaced]
    dropped = [f"drop: {', '.join(f'P{number}' for number in drops)}"] if drops else []
    return "\n\n".join([*blocks, "\n".join([*kept, *changed, *dropped])])
