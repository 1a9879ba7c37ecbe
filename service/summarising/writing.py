"""Turns what is to be read into a judged candidate: by one call of a summariser, or by code.

Workers, tests and benchmarks go through it, and decide themselves what follows on a rejected reply.
They also say where the work on texts runs (`run`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.policy import Policy
from service.summarising import compose, message, prompt
from service.summarising.compose import Candidate, Covered, Material
from service.summarising.gate import Verdict
from service.summarising.kept import pins
from service.summarising.kept.record import Record
from service.summarising.ledger import unread_calls
from service.summarising.memory import WISH, Memory
from service.summarising.message import Rendered
from service.summarising.reading import Reading, Reply, Run, Summariser
from service.summarising.utterances import Speaker, Utterance
from service.text import tokens
from service.text.blocks import Sort

BY_CODE = "extractive"
"""The name of the built-in way, as operators see it."""
CALLS = 2  # of a summariser for one candidate: the second knows why the first was rejected


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate with the gate's verdict, and the tokens that it cost."""

    candidate: Candidate
    read: int = 0
    wrote: int = 0

    @property
    def accepted(self) -> bool:
        """Whether it may be published."""
        return self.candidate.verdict.accepted

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the gate has against it."""
        return self.candidate.verdict.reasons

    @property
    def kinds(self) -> tuple[str, ...]:
        """The same without a word of the text, for the log."""
        return self.candidate.verdict.kinds


async def attempt(
    run: Run,
    summariser: Summariser,
    material: Material,
    policy: Policy,
    covered: Covered,
    rejections: tuple[str, ...] = (),
) -> Attempt:
    """One call; `rejections` are why the one before was rejected, and are kept in the verdict.

    Raises:
        SummariserError: no usable answer came in time.
    """
    reading = replace(material.reading, rejections=rejections)
    reply = await summariser.summarise(reading)
    read = replace(material, reading=reading)
    attempt = await run(_composed, read, reply, policy, covered)
    if rejections and attempt.accepted:
        return replace(attempt, candidate=_judged(attempt.candidate, "repaired", rejections))
    return attempt


async def by_rule(
    run: Run,
    material: Material,
    policy: Policy,
    covered: Covered,
    outcome: str = "extractive",
    rejections: tuple[str, ...] = (),
) -> Attempt:
    """What code makes of it alone; `rejections` are why a summariser's replies were rejected."""
    candidate = await run(compose.by_rule, material, policy, covered)
    return Attempt(_judged(candidate, outcome, rejections))


@dataclass(frozen=True, slots=True)
class Unread:
    """What is covered without being read: so many messages of `size` tokens.

    `calls` are those of each step that ends in it, so that what comes later keeps its numbers.
    """

    messages: int
    size: int
    calls: Sequence[int]


def by_size(memory: Memory, unread: Unread, policy: Policy, covered: Covered, why: str) -> Attempt:
    """What can be written without reading any text. Pure.

    `memory` is carried on as it is. For messages that a text process could not read in its bounds,
    or on which our own code failed; `why` is which of them.
    """
    grown = _grown(memory, unread)
    rendered, left_out = compose.rendered(grown, policy, covered)
    return _unjudged(grown, rendered, left_out, covered, why)


def by_size_alone(memory: Memory, unread: Unread, covered: Covered, why: str) -> Attempt:
    """The same, and of the memory only the narrative and the user's wishes are shown. Pure.

    For a memory that cannot be shown: little of our code is left that could fail on it.
    """
    grown = _grown(memory, unread)
    line = grown.talk[-1]
    held = list(pins.shown(grown.pins))
    wishes = tuple((pin, pins.line(pin)) for pin in held if pin.source == WISH)
    record = Record(wishes, (f"{line.speaker}: {line.text}",))
    rendered = message.render(grown.narrative, record, covered.messages, covered.until)
    return _unjudged(grown, rendered, len(held) - len(wishes), covered, why)


def _grown(memory: Memory, unread: Unread) -> Memory:
    told = f"[{unread.messages} messages of {unread.size:,} tokens in all, too hard to read]"
    line = Utterance(memory.heard + 1, 1, Speaker.USER, told, "", sort=Sort.PASTED)
    return replace(
        memory,
        talk=(*memory.talk, line),
        ledger=unread_calls(memory.ledger, sum(unread.calls)),
        heard=memory.heard + len(unread.calls),
    )


def _unjudged(
    memory: Memory, rendered: Rendered, left_out: int, covered: Covered, why: str
) -> Attempt:
    verdict = Verdict("degraded", (why,), left_out=left_out)
    return Attempt(compose.candidate(memory, rendered, verdict, covered))


def _composed(material: Material, reply: Reply, policy: Policy, covered: Covered) -> Attempt:
    """The candidate, and what its reply cost: the provider's counts, or else ours."""
    read, wrote = reply.prompt_tokens, reply.completion_tokens
    if read is None:
        read = _size(material.reading)
    if wrote is None:
        wrote = tokens.count(reply.text)
    return Attempt(compose.compose(material, reply, policy, covered), read, wrote)


def _judged(candidate: Candidate, outcome: str, reasons: tuple[str, ...]) -> Candidate:
    return replace(candidate, verdict=replace(candidate.verdict, outcome=outcome, reasons=reasons))


def _size(reading: Reading) -> int:
    wording = prompt.build(reading)
    return tokens.count(wording.system) + tokens.count(wording.user)
