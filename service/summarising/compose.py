"""One chunk of work without its I/O: steps → what a summariser reads; its reply → a new memory and its summary message.

Pure, and the only way from a reply to a summary: workers, tests and the fidelity benchmark all go through here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from service import languages, secrets, tokens
from service.planning import Policy
from service.summarising import answer, gate, ledger, message, pins, superseding, wording
from service.summarising.answer import Answer
from service.summarising.echoes import Heard
from service.summarising.excerpts import excerpts
from service.summarising.gate import Fault, Grounds, Verdict
from service.summarising.likeness import bans
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.reading import Excerpt, Reading, Reply
from service.summarising.sentences import Sentence, own_words, parted, sentences, unquoted
from service.summarising.suspicion import orders, suspicious
from service.summarising.values import Evidence
from service.transcript import Call, Step

_LEAST_PINS = 64  # tokens; a summary that saves nothing even with so few pins is not published


@dataclass(frozen=True, slots=True)
class Read:
    """One step, or piece `piece` (from 0) of `pieces` of it, that a call reads."""

    step: Step
    piece: int = 0
    pieces: int = 1


@dataclass(frozen=True, slots=True)
class Covered:
    """What the new summary stands for: so many messages and tokens, the last one sent at `until` (Unix seconds)."""

    messages: int
    tokens: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """What one chunk is made of.

    Attributes:
        memory: what it grows from.
        reading: what the summariser is shown.
        said: own sentences of all steps that are read, wholly or in part.
        completed: the steps whose last piece is read.
        complete: own sentences of those.
        language: of the conversation; None when it cannot be told.
        masked: secrets in what is new.
    """

    memory: Memory
    reading: Reading
    said: tuple[Sentence, ...]
    completed: tuple[Step, ...]
    complete: tuple[Sentence, ...]
    language: str | None = None
    masked: int = 0


@dataclass(frozen=True, slots=True)
class Draught:
    """What became of a reply: the new memory, its summary message with its tokens, and the gate's verdict.

    `no_gain` says why the summary is not worth publishing although nothing is wrong with it: it is
    about as large as what it stands for. Empty when it saves something.
    """

    memory: Memory
    summary: str
    size: int
    verdict: Verdict
    no_gain: str = ""


def gather(
    memory: Memory, reads: Sequence[Read], policy: Policy, *, part: int = 1, parts: int = 1, mask: bool = True
) -> Material:
    """What a summariser reads next.

    No hidden character of these steps gets any further than here, nor, with `mask`, a secret.
    """
    cleaned = {id(read.step): _cleaned(read.step, mask) for read in reads}
    own = [replace(read, step=cleaned[id(read.step)][0]) for read in reads]
    masked = sum(found for _, found in cleaned.values())
    spoken = {id(step): tuple(sentences([step])) for step, _ in cleaned.values()}
    said = tuple(chain.from_iterable(spoken.values()))
    completed = tuple(read.step for read in own if read.piece == read.pieces - 1)
    complete = tuple(chain.from_iterable(spoken[id(step)] for step in completed))
    language = _language(said, memory)
    reading = Reading(
        previous=memory.narrative,
        excerpts=tuple(excerpts((read.step, read.piece, read.pieces) for read in own)),
        summary_tokens=policy.summary_tokens,
        entries=_entries(memory.pins, policy.entry_tokens),
        part=part,
        parts=parts,
        language=language or "en",
    )
    return Material(memory, reading, said, completed, complete, language, masked)


def compose(material: Material, reply: Reply, policy: Policy, covered: Covered, *, by_rule: bool = False) -> Draught:
    """The new memory and its summary message, if the verdict accepts the reply.

    Pins and ledger are made whatever the reply says. They are shortened when the summary would not be
    smaller than the little that it covers.

    Args:
        material: from `gather`.
        reply: the summariser's.
        policy: the budgets.
        covered: what the summary message stands for.
        by_rule: the built-in summariser wrote it: lines may be dropped, but it is not rejected for its words.
    """
    fault = gate.fault(reply) if not by_rule else None
    given = answer.parse("" if fault else wording.plain(reply.text))
    merged = pins.merge(material.memory.pins, material.said, material.complete, given.proposals, given.marks)
    grounds = _grounds(material, by_rule) if not fault else None
    findings = _Findings(given, merged, fault, grounds)
    draught = _drafted(material, findings, policy, covered, by_rule)
    full = draught
    while draught.no_gain and policy.pins_tokens > _LEAST_PINS:
        # It covers little, such as the one short turn before a very long one.
        policy = replace(
            policy,
            summary_tokens=max(policy.summary_tokens // 2, _proposed(given)),
            pins_tokens=policy.pins_tokens // 2,
            ledger_tokens=policy.ledger_tokens // 2,
        )
        draught = _drafted(material, findings, policy, covered, by_rule)
    return full if draught.no_gain else draught


@dataclass(frozen=True, slots=True)
class _Findings:
    """What a reply says and what is to be said of it, before any budget. No `grounds` where there is a `fault`."""

    given: Answer
    merged: pins.Merged
    fault: Fault | None
    grounds: Grounds | None


def _proposed(given: Answer) -> int:
    """Tokens of the narrative that a reply proposes."""
    return tokens.count(answer.written(given.narrative))


def _drafted(material: Material, findings: _Findings, policy: Policy, covered: Covered, by_rule: bool) -> Draught:
    """What fits into the budgets."""
    old = material.memory
    # One room for all three: what the narrative and the ledger leave, the pins may have, and then the ledger again.
    whole = policy.summary_tokens + policy.pins_tokens + policy.ledger_tokens
    entries = ledger.extend(old.ledger, material.completed, policy.ledger_tokens)
    listed = tokens.count(ledger.render(entries))
    room = max(whole - _proposed(findings.given) - listed, policy.pins_tokens)
    pinned = pins.bounded(findings.merged, room)
    narrative: dict[str, tuple[str, ...]] = {}
    verdict = Verdict("extractive")
    if findings.fault:
        verdict = gate.rejected([findings.fault])
    elif findings.grounds:
        grounds = _with_pins(findings.grounds, pinned.pins)
        narrative, judged = gate.judge(findings.given, grounds, policy.summary_tokens)
        verdict = judged if not by_rule else replace(verdict, dropped=judged.dropped)
    verdict = replace(verdict, unfounded=pinned.unfounded, left_out=pinned.left_out, masked=material.masked)
    left = whole - tokens.count(answer.written(narrative)) - pins.size(pinned.pins)
    if listed > 0.9 * policy.ledger_tokens and left > policy.ledger_tokens:
        entries = ledger.extend(old.ledger, material.completed, left)
    memory = Memory(answer.written(narrative), pinned.pins, entries)
    summary = message.render(memory, covered.messages, covered.until)
    size = message.size(summary)
    useless = gate.gain(size, covered.tokens) if verdict.accepted else None
    return Draught(memory, summary, size, verdict, useless.reason if useless else "")


def _cleaned(step: Step, mask: bool) -> tuple[Step, int]:
    """A step without characters that show nothing and without secrets, and how many secrets there were."""
    masked = 0

    def clean(text: str) -> str:
        nonlocal masked
        text = wording.plain(text)
        if not mask:
            return text
        found = secrets.mask(text)
        masked += found.count
        return found.text

    calls = tuple(
        Call(replace(one.call, arguments=clean(one.call.arguments)), replace(one.result, text=clean(one.result.text)))
        for one in step.calls
    )
    return replace(step, text=clean(step.text), calls=calls), masked


def _entries(known: Sequence[Pin], limit: int) -> tuple[str, ...]:
    """Pins that hold as lines for the summariser, oldest first: the newest of users, then those of assistants."""
    chosen: list[Pin] = []
    for pin in sorted(pins.shown(known), key=lambda pin: (pin.role == "user", pin.number), reverse=True):
        limit -= tokens.count(_entry(pin)) + 1
        if limit < 0:
            break
        chosen.append(pin)
    return tuple(_entry(pin) for pin in sorted(chosen, key=lambda pin: pin.number))


def _entry(pin: Pin) -> str:
    return f"P{pin.number} {pin.kind}: {pin.text}"


def _language(said: Sequence[Sentence], memory: Memory) -> str | None:
    """Of what the users wrote themselves; of everybody, when that is too little to tell."""
    users = " ".join(one.text for one in said if one.role == "user")
    return languages.detect(users) or languages.detect(" ".join(one.text for one in said) + " " + memory.narrative)


def _grounds(material: Material, by_rule: bool) -> Grounds:
    """What a narrative is judged by, but for the pins beside it."""
    memory, said = material.memory, material.said
    before = (memory.narrative, *(pin.text for pin in memory.pins), ledger.render(memory.ledger))
    excerpts = material.reading.excerpts
    heeded = [one for one in excerpts if not (by_rule and one.label.startswith("tool"))]  # rules read no tool's words
    people = (
        *(one.own for one in said if one.role == "user"),
        *(pin.text for pin in memory.pins if pin.role == "user"),
    )
    return Grounds(
        evidence=Evidence.of((*before, *(f"{one.label}\n{one.text}" for one in excerpts))),
        ordered=Evidence.of(people),
        foreign=tuple(one.text for one in excerpts if one.label.startswith("tool")),
        heard=Heard.of(_spoken(memory, said), (passage for one in heeded for passage in _orders(one))),
        language=material.language,
    )


def _with_pins(grounds: Grounds, new: Sequence[Pin]) -> Grounds:
    constraints = [pin for pin in pins.shown(new) if pin.kind is Kind.CONSTRAINT]
    forbidden = [(pin.number, about) for pin in constraints for about in bans(pin.text)]
    return replace(grounds, bans=forbidden, stale=superseding.stale(new))


def _spoken(memory: Memory, said: Iterable[Sentence]) -> Iterator[str]:
    """What people and assistants said themselves, but for what may come from elsewhere."""
    yield from map(unquoted, (memory.narrative, *(pin.text for pin in memory.pins)))
    for one in said:
        if one.role == "user" or (one.role == "assistant" and not suspicious(one.text)):
            yield one.own


def _orders(excerpt: Excerpt) -> Iterator[str]:
    """The passages of an excerpt that order: a user may, but not in what is quoted or pasted."""
    if not excerpt.label.startswith("user"):
        yield from orders(excerpt.text)
        return
    yield from orders(excerpt.text, by_user=True)
    own = set(parted("user", own_words(excerpt.text))[0].splitlines())
    yield from orders("\n".join(line for line in excerpt.text.splitlines() if line not in own))
