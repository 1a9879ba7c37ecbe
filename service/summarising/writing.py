"""Turns what is to be read into a judged candidate: by one call of a summariser, or by code.

Workers, tests and benchmarks go through it, and decide themselves what follows on a rejected reply.
They also say where the work on texts runs (`run`), and which writer does it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from service.policy import Policy
from service.summarising import compose, message, prompt
from service.summarising.compose import Candidate, Covered, Material, Read
from service.summarising.gate import Verdict
from service.summarising.kept import pins
from service.summarising.kept.record import Record
from service.summarising.ledger import unread_calls
from service.summarising.memory import Memory
from service.summarising.message import Rendered
from service.summarising.reading import Reading, Reply, Run, Summariser
from service.summarising.utterances import Speaker, Utterance
from service.text import tokens
from service.text.blocks import Sort

BY_CODE = "extractive"
"""The name of the built-in way, as operators see it."""
CALLS = 2  # of a summariser for one candidate: the second knows why the first was rejected


class Gather(Protocol):
    """What a summariser reads next; as `compose.gather` says it."""

    def __call__(
        self,
        memory: Memory,
        reads: Sequence[Read],
        policy: Policy,
        *,
        part: int = 1,
        parts: int = 1,
        mask: bool = True,
    ) -> Material:
        """The material of one chunk."""
        ...


@dataclass(frozen=True, slots=True)
class Writer:
    """Everything that is done to texts on the way from steps to a summary. Pure.

    Each is a function of a module, because it is named to the text process in which it runs.

    Attributes:
        gather: what a summariser reads next.
        compose: what a summariser's reply makes, and whether it may stand.
        by_rule: the summary that code makes alone.
    """

    gather: Gather
    compose: Callable[[Material, Reply, Policy, Covered], Candidate]
    by_rule: Callable[[Material, Policy, Covered], Candidate]


FULL = Writer(compose.gather, compose.compose, compose.by_rule)
"""Pins, talk, ledger and a judged narrative. For another see `service.summarising.plain`."""


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
    writer: Writer = FULL,
) -> Attempt:
    """One call; `rejections` are why the one before was rejected, and are kept in the verdict.

    Raises:
        SummariserError: no usable answer came in time.
    """
    reading = replace(material.reading, rejections=rejections)
    reply = await summariser.summarise(reading)
    read = replace(material, reading=reading)
    attempt = await run(_composed, read, reply, policy, covered, writer)
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
    writer: Writer = FULL,
) -> Attempt:
    """What code makes of it alone; `rejections` are why a summariser's replies were rejected."""
    candidate = await run(writer.by_rule, material, policy, covered)
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
    """The same, and of the memory only the narrative is shown. Pure.

    For a memory that cannot be shown: little of our code is left that could fail on it.
    """
    grown = _grown(memory, unread)
    line = grown.talk[-1]
    record = Record((), (f"{line.speaker}: {line.text}",))
    rendered = message.render(grown.narrative, record, covered.messages, covered.until)
    left_out = len(list(pins.shown(grown.pins)))
    return _unjudged(grown, rendered, left_out, covered, why)


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


def _composed(
    material: Material, reply: Reply, policy: Policy, covered: Covered, writer: Writer
) -> Attempt:
    """The candidate, and what its reply cost: the provider's counts, or else ours."""
    read, wrote = reply.prompt_tokens, reply.completion_tokens
    if read is None:
        read = _size(material.reading)
    if wrote is None:
        wrote = tokens.count(reply.text)
    return Attempt(writer.compose(material, reply, policy, covered), read, wrote)


def _judged(candidate: Candidate, outcome: str, reasons: tuple[str, ...]) -> Candidate:
    return replace(candidate, verdict=replace(candidate.verdict, outcome=outcome, reasons=reasons))


def _size(reading: Reading) -> int:
    wording = prompt.build(reading)
    return tokens.count(wording.system) + tokens.count(wording.user)
