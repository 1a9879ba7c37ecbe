"""From what is to be read to a judged draught: one call of a summariser, or the built-in one's.

Workers, tests and `benchmarks/fidelity` go through it, and decide themselves what follows on a rejected reply.
They say as well where the work on texts runs (`run`).
"""

from dataclasses import dataclass, replace

from service import tokens
from service.planning import Policy
from service.summarising import compose, extractive, gate, message, prompt
from service.summarising.compose import Covered, Draught, Material
from service.summarising.gate import Verdict
from service.summarising.memory import Memory
from service.summarising.reading import Reading, Reply, Run, Summariser

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

    @property
    def kinds(self) -> tuple[str, ...]:
        """The same without a word of the text, for the log."""
        return self.draught.verdict.kinds


async def attempt(
    run: Run,
    summariser: Summariser,
    material: Material,
    policy: Policy,
    covered: Covered,
    faults: tuple[str, ...] = (),
) -> Attempt:
    """One call; `faults` are the reasons why the one before was rejected, and are kept in the verdict.

    Raises:
        SummariserError: no usable answer came in time.
    """
    reading = replace(material.reading, faults=faults)
    reply = await summariser.summarise(reading)
    attempt = await run(_composed, replace(material, reading=reading), reply, policy, covered)
    if faults and attempt.accepted:
        return replace(attempt, draught=_judged(attempt.draught, "repaired", faults))
    return attempt


async def by_rule(
    run: Run,
    stand_in: Summariser,
    material: Material,
    policy: Policy,
    covered: Covered,
    outcome: str = "extractive",
    faults: tuple[str, ...] = (),
) -> Attempt:
    """What the built-in summariser makes of it; `faults` are why another one's replies were rejected."""
    reply = await stand_in.summarise(material.reading)
    attempt = await run(_composed, material, reply, policy, covered, by_rule=True)
    if attempt.accepted:
        return replace(attempt, draught=_judged(attempt.draught, outcome, faults))
    return attempt


def by_size(memory: Memory, messages: int, size: int, policy: Policy, covered: Covered) -> Attempt:
    """What can be written without a look at any text: that there were so many messages of `size` tokens.

    Pure. `memory` is carried on as it is.
    """
    narrative = extractive.unread(memory.narrative, messages, size, policy.summary_tokens)
    memory = replace(memory, narrative=narrative)
    summary = message.render(memory, covered.messages, covered.until)
    tokens_of_it = message.size(summary)
    verdict = Verdict("degraded", ("a text of these messages was too hard to read",))
    useless = gate.gain(tokens_of_it, covered.tokens)
    no_gain = useless.reason if useless else ""
    return Attempt(Draught(memory, summary, tokens_of_it, verdict, no_gain), 0, 0)


def _composed(material: Material, reply: Reply, policy: Policy, covered: Covered, *, by_rule: bool = False) -> Attempt:
    """The draught, and what its reply cost: the provider's counts, or else ours."""
    read, wrote = reply.prompt_tokens, reply.completion_tokens
    if read is None:
        read = _size(material.reading)
    if wrote is None:
        wrote = 0 if by_rule else tokens.count(reply.text)
    draught = compose.compose(material, reply, policy, covered, by_rule=by_rule)
    return Attempt(draught, read, wrote)


def _judged(draught: Draught, outcome: str, reasons: tuple[str, ...]) -> Draught:
    return replace(draught, verdict=replace(draught.verdict, outcome=outcome, reasons=reasons))


def _size(reading: Reading) -> int:
    wording = prompt.build(reading)
    return tokens.count(wording.system) + tokens.count(wording.user)
