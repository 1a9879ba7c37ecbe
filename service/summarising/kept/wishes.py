"""Wishes: sentences that a chat's user wants in its summaries, as pins of their own. Pure.

They are the user's own words and nobody's interpretation, so a summariser neither drops nor
replaces them: they stand until the user withdraws them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from service.errors import Unprocessable
from service.summarising.memory import WISH, Kind, Memory, Pin
from service.text import redaction
from service.text.plain import plain

MOST = 10
"""Wishes of one chat. Each is in every request that carries a summary."""
LONGEST = 300  # characters


def wish(text: str, mask: bool) -> str:
    """A wish as it is stored: on one line, without characters that show nothing and secrets.

    Raises:
        Unprocessable: it is empty or too long.
    """
    line = " ".join(plain(text).split())
    if not line:
        raise Unprocessable("a focus has no text", pointer="/focus")
    if len(line) > LONGEST:
        raise Unprocessable(
            f"a focus has {len(line)} characters, and {LONGEST} are the most", pointer="/focus"
        )
    return redaction.mask(line).text if mask else line


def wished(memory: Memory, wishes: Sequence[str]) -> Memory:
    """The memory with exactly these wishes; the same object when it has them already.

    A wish that is there keeps its number.
    """
    wanted = dict.fromkeys(wishes)
    last = max((max(pin.number, pin.replaced_by or 0) for pin in memory.pins), default=0)
    pins: list[Pin] = []
    for pin in memory.pins:
        if pin.source != WISH:
            pins.append(pin)
        elif pin.text in wanted:
            pins.append(_as_wished(pin))
            del wanted[pin.text]
    numbers = count(last + 1)
    pins += [Pin(next(numbers), Kind.CONSTRAINT, text, source=WISH) for text in wanted]
    changed = tuple(pins)
    return memory if changed == memory.pins else replace(memory, pins=changed)


def _as_wished(pin: Pin) -> Pin:
    """Its kind and that it holds are not up to a summariser."""
    return replace(pin, kind=Kind.CONSTRAINT, replaced_by=None)
