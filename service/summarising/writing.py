"""From what is to be read to a judged draught: one call of a summariser, or the built-in one's.

Workers, tests and `benchmarks/fidelity` go through it, and decide themselves what follows on a rejected reply.
"""

import asyncio
from dataclasses import dataclass, replace

from service import tokens
from service.planning import Policy
from service.summarising import compose, prompt
from service.summarising.compose import Covered, Draught, Material
from service.summarising.reading import Reading, Summariser

CALLS = 2  # of a summariser for one draught: the second one knows why the first was rejected


@dataclass(frozen=True, slots=True)
class Attempt:
    """A draught with the gate's verdict, and the tokens that it cost."""

    draught: Draught
    read: int
    wrote: int

    @property
    def accepted(self) -> bool:
        """Whether it may be published."""
        return self.draught.verdict.accepted

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the gate has against it."""
        return self.draught.verdict.reasons


async def attempt(
    summariser: Summariser, material: Material, policy: Policy, covered: Covered, faults: tuple[str, ...] = ()
) -> Attempt:
    """One call; `faults` are the reasons why the one before was rejected, and are kept in the verdict.

    Raises:
        SummariserError: no usable answer came in time.
    """
    reading = replace(material.reading, faults=faults)
    reply = await summariser.summarise(reading)
    read = reply.prompt_tokens if reply.prompt_tokens is not None else await asyncio.to_thread(_size, reading)
    wrote = reply.completion_tokens if reply.completion_tokens is not None else tokens.count(reply.text)
    draught = await asyncio.to_thread(compose.compose, material, reply, policy, covered)
    if faults and draught.verdict.accepted:
        draught = _judged(draught, "repaired", faults)
    return Attempt(draught, read, wrote)


async def by_rule(
    stand_in: Summariser,
    material: Material,
    policy: Policy,
    covered: Covered,
    outcome: str = "extractive",
    faults: tuple[str, ...] = (),
) -> Attempt:
    """What the built-in summariser makes of it; `faults` are why another one's replies were rejected."""
    reply = await stand_in.summarise(material.reading)
    draught = await asyncio.to_thread(compose.compose, material, reply, policy, covered, by_rule=True)
    if draught.verdict.accepted:
        draught = _judged(draught, outcome, faults)
    return Attempt(draught, await asyncio.to_thread(_size, material.reading), 0)


def _judged(draught: Draught, outcome: str, reasons: tuple[str, ...]) -> Draught:
    return replace(draught, verdict=replace(draught.verdict, outcome=outcome, reasons=reasons))


def _size(reading: Reading) -> int:
    wording = prompt.build(reading)
    return tokens.count(wording.system) + tokens.count(wording.user)
