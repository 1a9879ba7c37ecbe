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
    state: Mapping[str, Sequence[str]],
    rules: Sequence[str] = (),
    quotations: Sequence[str] = (),
    replaced: Iterable[tuple[int, str]] = (),
) -> str:
    """The reply that chooses these numbers, and writes these lines by head."""
    lines = [
        f"{verb}: {', '.join(numbers)}" for verb, numbers in (("rules", rules), ("quotations", quotations)) if numbers
    ]
    lines += [f"replaced: P{old} by {new}" for old, new in replaced]
    for head, written in state.items():
        lines += ["", f"## {head}", *(f"- {line}" for line in written)] if written else []
    return "\n".join(lines)
