"""One chunk of work without its I/O: steps → what a summariser reads; its reply → memory and summary.

Pure, and the only way from a reply to a summary: workers, tests and benchmarks all go through here.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from service.policy import Policy
from service.summarising import gate, ledger, message, utterances
from service.summarising.gate import Grounds, Verdict
from service.summarising.kept import pins
from service.summarising.kept.record import recorded, stored
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.message import Rendered
from service.summarising.reading import Excerpt, Reading, Reply
from service.summarising.reply import answer
from service.summarising.utterances import Passage, Speaker, Utterance
from service.text import languages, redaction, tokens, values
from service.text.plain import plain
from service.transcript import Call, Step

_LEAST_RECORD = 64  # tokens; a summary that saves nothing even with so little is not published
_LIKE_A_NUMBER = re.compile(r"\[(\d{1,9}\.\d{1,9})\]")
_RULES = (Kind.CONSTRAINT, Kind.DECISION, Kind.PREFERENCE)


@dataclass(frozen=True, slots=True)
class Read:
    """One step, or piece `piece` (from 0) of `pieces` of it, that a call reads."""

    step: Step
    piece: int = 0
    pieces: int = 1


@dataclass(frozen=True, slots=True)
class Covered:
    """What the new summary stands for: messages, tokens, and when the last was sent (Unix s)."""

    messages: int
    tokens: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """What one chunk is made of.

    Attributes:
        memory: what it grows from.
        reading: what the summariser is shown.
        said: utterances of all steps that are read, wholly or in part; it may point at any.
        completed: the steps whose last piece is read.
        heard: utterances of those, which the talk grows by.
        foreign: what tools were asked and answered, and what users pasted, in all that is read.
        language: of the conversation; None when it cannot be told.
        masked: secrets in what is new.
    """

    memory: Memory
    reading: Reading
    said: tuple[Utterance, ...]
    completed: tuple[Step, ...]
    heard: tuple[Utterance, ...]
    foreign: tuple[str, ...] = ()
    language: str | None = None
    masked: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """What became of a reply: the new memory, its summary with its tokens, and the gate's verdict.

    `no_gain` says why the summary is not worth publishing although nothing is wrong with it: it is
    about as large as what it stands for. Empty when it saves something.
    """

    memory: Memory
    rendered: Rendered
    size: int
    verdict: Verdict
    no_gain: str = ""


def gather(
    memory: Memory,
    reads: Sequence[Read],
    policy: Policy,
    *,
    part: int = 1,
    parts: int = 1,
    mask: bool = True,
) -> Material:
    """What a summariser reads next.

    No hidden character of these steps gets any further than here, nor, with `mask`, a secret.
    """
    cleaned = {id(read.step): _cleaned(read.step, mask) for read in reads}
    steps = [step for step, _ in cleaned.values()]
    language = _language(steps)
    parsed = dict(zip(cleaned, _parsed(memory, steps, language or "en"), strict=True))
    done = [id(read.step) for read in reads if read.piece == read.pieces - 1]
    excerpts = (_excerpts(cleaned[id(read.step)][0], parsed[id(read.step)], read) for read in reads)
    reading = Reading(
        previous=memory.narrative,
        excerpts=tuple(chain.from_iterable(excerpts)),
        summary_tokens=policy.summary_tokens,
        entries=_entries(memory.pins, policy.entry_tokens),
        part=part,
        parts=parts,
        language=language or "en",
    )
    return Material(
        memory=memory,
        reading=reading,
        said=tuple(_said(parsed.values())),
        completed=tuple(cleaned[one][0] for one in done),
        heard=tuple(_said(parsed[one] for one in done)),
        foreign=tuple(_foreign(steps, parsed.values())),
        language=language,
        masked=sum(found for _, found in cleaned.values()),
    )


def compose(material: Material, reply: Reply, policy: Policy, covered: Covered) -> Candidate:
    """What a summariser's reply makes, if the verdict accepts it.

    The talk and the ledger grow by what was read whatever the reply says.
    """
    reply = replace(reply, text=answer.unreasoned(reply.text))
    if rejection := gate.rejection(reply):
        return _judged_candidate(
            material, material.memory, gate.rejected([rejection]), policy, covered
        )
    given = answer.parse(reply.text)
    merged = pins.merge(material.memory.pins, material.said, given)
    grounds = _grounds(material, merged.pins)
    narrative, verdict = gate.judge(given, grounds, policy.summary_tokens)
    memory = replace(material.memory, narrative=narrative, pins=merged.pins)
    judged = replace(verdict, unfounded=merged.unfounded)
    return _judged_candidate(material, memory, judged, policy, covered)


def by_rule(material: Material, policy: Policy, covered: Covered) -> Candidate:
    """The summary that code makes alone: the narrative stays as it was, the record grows."""
    return _judged_candidate(material, material.memory, Verdict("extractive"), policy, covered)


def rendered(memory: Memory, policy: Policy, covered: Covered) -> tuple[Rendered, int]:
    """A memory as a summary message within the policy's room; and how many pins found none."""
    narrative = sum(tokens.count(line) + 3 for one in memory.narrative for line in one.lines)
    whole = policy.summary_tokens + policy.record_tokens
    smaller = int(covered.tokens * gate.LEAST_GAIN)  # of little, only little stands
    room = min(whole, smaller) - message.FRAME_TOKENS - narrative
    record = recorded(memory, max(room, _LEAST_RECORD))
    told = message.render(memory.narrative, record, covered.messages, covered.until)
    return told, record.left_out


def _judged_candidate(
    material: Material, memory: Memory, verdict: Verdict, policy: Policy, covered: Covered
) -> Candidate:
    """The memory with what was read, and its summary."""
    grown = Memory(
        narrative=memory.narrative,
        pins=memory.pins,
        talk=(*memory.talk, *material.heard),
        ledger=ledger.extend(memory.ledger, material.completed),
        heard=memory.heard + len(material.completed),
    )
    kept = stored(grown, policy.summary_tokens + policy.record_tokens)
    told, left_out = rendered(kept, policy, covered)
    size = message.size(told)
    useless = gate.gain(size, covered.tokens) if verdict.accepted else None
    judged = replace(verdict, left_out=left_out, masked=material.masked)
    return Candidate(kept, told, size, judged, useless.reason if useless else "")


def _cleaned(step: Step, mask: bool) -> tuple[Step, int]:
    """A step without characters that show nothing and without secrets, and how many there were."""
    masked = 0

    def clean(text: str) -> str:
        nonlocal masked
        text = plain(text)
        if not mask:
            return text
        found = redaction.mask(text)
        masked += found.count
        return found.text

    calls: list[Call] = []
    for one in step.calls:
        call = replace(one.call, arguments=clean(one.call.arguments))
        calls.append(Call(call, replace(one.result, text=clean(one.result.text))))
    text = clean(tokens.without_data(step.text))
    return replace(step, text=text, calls=tuple(calls)), masked


def _parsed(memory: Memory, steps: Sequence[Step], language: str) -> Iterator[list[Passage]]:
    """The passages of each step, numbered on from what was heard before."""
    asked = utterances.question(memory.talk)
    for number, step in enumerate(steps, memory.heard + 1):
        found = utterances.passages(step, number, asked, language)
        asked = utterances.question(list(_said([found])))
        yield found


def _said(parsed: Iterable[Sequence[Passage]]) -> Iterator[Utterance]:
    for passage in chain.from_iterable(parsed):
        yield from passage.utterances


def _foreign(steps: Sequence[Step], parsed: Iterable[Sequence[Passage]]) -> Iterator[str]:
    """What nobody said in their own words."""
    for call in chain.from_iterable(step.calls for step in steps):
        yield from (call.call.name, call.call.arguments, call.result.text)
    for attachment in chain.from_iterable(step.attachments for step in steps):
        yield attachment.name
    for passage in chain.from_iterable(parsed):
        if not all(said.own for said in passage.utterances):
            yield passage.text


def _excerpts(step: Step, passages: Sequence[Passage], read: Read) -> Iterator[Excerpt]:
    """A step as it is read: its sentences numbered, each call as its line of the ledger."""
    told = "\n".join(map(_numbered, passages))
    if read.pieces > 1:
        whole = "\n".join([told, *(f"[tool] {ledger.line_of(call)}" for call in step.calls)])
        label = f"{step.role}, piece {read.piece + 1} of {read.pieces}"
        yield Excerpt(label, tokens.pieces(whole, read.pieces)[read.piece])
        return
    if told:
        yield Excerpt(step.role, told)
    for call in step.calls:
        yield Excerpt("tool", ledger.line_of(call))


def _numbered(passage: Passage) -> str:
    """A passage with the numbers of what can be pointed at."""
    first = passage.utterances[0] if passage.utterances else None
    if first and not first.own:
        return f"[{first.number}] ({first.sort})\n{_unnumbered(passage.text)}"
    return " ".join(
        f"[{one.number}] {_unnumbered(one.text)}" if _telling(one) else _unnumbered(one.text)
        for one in passage.utterances
    )


def _unnumbered(text: str) -> str:
    """`text` without what looks like a number of ours, which could make a choice mean it."""
    return _LIKE_A_NUMBER.sub(r"(\1)", text) if "[" in text else text


def _telling(one: Utterance) -> bool:
    """Whether a summariser may want to point at it: all of a user's, an assistant's with a value worth keeping."""
    if one.speaker is Speaker.USER:
        return True
    return values.marked(one.text) and any(value.weighty for value in values.found(one.text))


def _entries(known: Sequence[Pin], limit: int) -> tuple[str, ...]:
    """Pins that hold as lines for the summariser, oldest first: the newest of users, then others."""
    chosen: list[Pin] = []
    newest = sorted(
        pins.shown(known), key=lambda pin: (pin.speaker is Speaker.USER, pin.number), reverse=True
    )
    for pin in newest:
        limit -= tokens.count(_entry(pin)) + 1
        if limit < 0:
            break
        chosen.append(pin)
    return tuple(_entry(pin) for pin in sorted(chosen, key=lambda pin: pin.number))


def _entry(pin: Pin) -> str:
    return f"P{pin.number} {pin.kind}: {pins.line(pin)}"


def _language(steps: Sequence[Step]) -> str | None:
    """Of what the users wrote; of everybody, when that is too little to tell."""
    users = " ".join(step.text for step in steps if step.role == Speaker.USER)
    return languages.detect(users) or languages.detect(" ".join(step.text for step in steps))


def _grounds(material: Material, new: Sequence[Pin]) -> Grounds:
    """What a narrative is judged by."""
    memory = material.memory
    said = (*memory.talk, *material.said)
    # What an assistant said of a call is no tool's word.
    comments = [entry.comment for entry in memory.ledger]
    bare = tuple(replace(entry, comment="") for entry in memory.ledger)
    calls = ledger.lines(bare, material.reading.summary_tokens * 8)
    # A pasted text that was read before is told by its first and last line.
    pasted = (one.text for one in memory.talk if not one.own)
    return Grounds(
        covered=(
            *(line for paragraph in memory.narrative for line in paragraph.lines),
            *(pin.text for pin in memory.pins),
            *(one.text for one in said),
            *calls,
            *comments,
            *(excerpt.text for excerpt in material.reading.excerpts),
            *material.foreign,
        ),
        said=(*(one.text for one in said if one.own), *comments),
        by_users=tuple(one.text for one in said if one.by_user),
        foreign=(*calls, *pasted, *material.foreign),
        rules=tuple(pin.text for pin in pins.shown(new) if pin.kind in _RULES),
        language=material.language,
    )
