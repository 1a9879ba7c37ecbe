"""One chunk of work without its I/O. Pure.

Steps become what a summariser reads; its reply becomes a memory and a summary.
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
from service.summarising.memory import Kind, Memory, Paragraph, Pin
from service.summarising.message import Rendered
from service.summarising.reading import Excerpt, Reading, Reply
from service.summarising.reply import answer
from service.summarising.utterances import Passage, Speaker, Utterance
from service.text import languages, redaction, tokens, values
from service.text.plain import plain
from service.transcript import Call, Step

_LEAST_RECORD = 64  # tokens; a summary that saves nothing even with so little is not published
_LINE_TOKENS = 3  # what the list mark and the line break of a line cost
_GROUNDS = 8  # times the narrative: so much of the ledger a narrative is compared with
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
        language: of the conversation; None when it is not clear.
        masked: secrets in what is new.
        unread_calls: how many calls the completed steps have that were left out of them; None when
            nothing was left out.
    """

    memory: Memory
    reading: Reading
    said: tuple[Utterance, ...]
    completed: tuple[Step, ...]
    heard: tuple[Utterance, ...]
    foreign: tuple[str, ...] = ()
    language: str | None = None
    masked: int = 0
    unread_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """What became of a reply: the new memory, its summary with its tokens, and the gate's verdict.

    `no_gain` says why the summary is not worth publishing although nothing is wrong with it: it is
    about as large as what it stands for, or has nothing in it. Empty when it is worth it.
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
    # Several pieces of one step are read in one call, and the step is cleaned and parsed once.
    readable = {id(read.step): _cleaned(read.step, mask) for read in reads}
    steps = [step for step, _ in readable.values()]
    language = _language(steps)
    passages = list(_parsed(memory, steps, language or "en"))
    parsed = dict(zip(readable, passages, strict=True))
    done = _finished(reads)
    excerpts: list[Excerpt] = []
    for read in reads:
        key = id(read.step)
        excerpts += _excerpts(readable[key][0], parsed[key], read)
    reading = Reading(
        previous=memory.narrative,
        excerpts=tuple(excerpts),
        summary_tokens=policy.summary_tokens,
        entries=_entries(memory.pins, policy.entry_tokens),
        part=part,
        parts=parts,
        language=language or "en",
    )
    return Material(
        memory=memory,
        reading=reading,
        said=tuple(_said(passages)),
        completed=tuple(readable[key][0] for key in done),
        heard=tuple(_said(parsed[key] for key in done)),
        foreign=tuple(_foreign(steps, passages)),
        language=language,
        masked=sum(found for _, found in readable.values()),
    )


def compose(material: Material, reply: Reply, policy: Policy, covered: Covered) -> Candidate:
    """What a summariser's reply makes, if the verdict accepts it.

    The talk and the ledger grow by what was read, whatever the reply says.
    """
    reply = replace(reply, text=answer.unreasoned(reply.text))
    rejection = gate.rejection(reply)
    if rejection:
        verdict = gate.rejected([rejection])
        return _judged_candidate(material, material.memory, verdict, policy, covered)
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
    record = recorded(memory, _record_room(memory.narrative, policy, covered))
    shown = message.render(memory.narrative, record, covered.messages, covered.until)
    return shown, record.left_out


def _record_room(narrative: Sequence[Paragraph], policy: Policy, covered: Covered) -> int:
    """How many tokens a summary has for what stands beside the narrative."""
    written = [line for paragraph in narrative for line in paragraph.lines]
    taken = sum(tokens.count(line) + _LINE_TOKENS for line in written)
    whole = policy.summary_tokens + policy.record_tokens
    # A summary of little has to be smaller than what it stands for, whatever the policy allows.
    smaller = int(covered.tokens * gate.LEAST_GAIN)
    room = min(whole, smaller) - message.FRAME_TOKENS - taken
    return max(room, _LEAST_RECORD)


def _judged_candidate(
    material: Material, memory: Memory, verdict: Verdict, policy: Policy, covered: Covered
) -> Candidate:
    """The memory with what was read, and its summary."""
    grown = Memory(
        narrative=memory.narrative,
        pins=memory.pins,
        talk=(*memory.talk, *material.heard),
        ledger=_ledger(material),
        heard=memory.heard + len(material.completed),
    )
    kept = stored(grown, policy.summary_tokens + policy.record_tokens)
    shown, left_out = rendered(kept, policy, covered)
    judged = replace(verdict, left_out=left_out, masked=material.masked)
    return candidate(kept, shown, judged, covered)


def candidate(memory: Memory, shown: Rendered, verdict: Verdict, covered: Covered) -> Candidate:
    """A summary with the verdict on it: the one place that says what is not worth publishing."""
    size = message.size(shown)
    no_gain = ""
    if shown.is_empty:
        no_gain = "nothing in it: what it replaces has no words, or none that fit"
    elif size > covered.tokens * gate.LEAST_GAIN:
        no_gain = f"not smaller than what it replaces: {size} tokens for {covered.tokens}"
    return Candidate(memory, shown, size, verdict, no_gain if verdict.accepted else "")


def _ledger(material: Material) -> tuple[ledger.Entry, ...]:
    known = material.memory.ledger
    if material.unread_calls is not None:
        return ledger.unread_calls(known, material.unread_calls)
    return ledger.extend(known, material.completed)


def _finished(reads: Sequence[Read]) -> list[int]:
    """The `id` of each step whose last piece is read: only such a step was heard."""
    return [id(read.step) for read in reads if read.piece == read.pieces - 1]


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
        result = replace(one.result, text=clean(one.result.text))
        calls.append(Call(call, result))
    # Inline files are cut out first, so that nothing else has to read them.
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
    for step in steps:
        for call in step.calls:
            yield from (call.call.name, call.call.arguments, call.result.text)
    for step in steps:
        yield from (attachment.name for attachment in step.attachments)
    for passage in chain.from_iterable(parsed):
        if not all(said.stands for said in passage.utterances):
            yield passage.text


def _excerpts(step: Step, passages: Sequence[Passage], read: Read) -> Iterator[Excerpt]:
    """A step as it is read: its sentences numbered, each call as its line of the ledger."""
    text = "\n".join(map(_numbered, passages))
    calls = [ledger.line_of(call) for call in step.calls]
    if read.pieces > 1:
        # The whole is cut, calls included, so that the pieces are about equally long.
        whole = "\n".join([text, *(f"[tool] {line}" for line in calls)])
        label = f"{step.role}, piece {read.piece + 1} of {read.pieces}"
        yield Excerpt(label, tokens.pieces(whole, read.pieces)[read.piece])
        return
    if text:
        yield Excerpt(step.role, text)
    for line in calls:
        yield Excerpt("tool", line)


def _numbered(passage: Passage) -> str:
    """A passage with the numbers of what can be pointed at."""
    first = passage.utterances[0] if passage.utterances else None
    if first and not first.stands:
        return f"[{first.number}] ({first.sort})\n{_unnumbered(passage.text)}"
    return " ".join(map(_with_number, passage.utterances))


def _with_number(one: Utterance) -> str:
    words = _unnumbered(one.text)
    return f"[{one.number}] {words}" if _worth_pointing_at(one) else words


def _unnumbered(text: str) -> str:
    """`text` without what looks like a number of ours, which could make a choice mean it."""
    return _LIKE_A_NUMBER.sub(r"(\1)", text) if "[" in text else text


def _worth_pointing_at(one: Utterance) -> bool:
    """Whether a summariser may want to point at it; each number costs it tokens to read.

    That is all that a user says, and of an assistant's words those with a value worth keeping.
    """
    if one.speaker is Speaker.USER:
        return True
    return values.marked(one.text) and any(value.weighty for value in values.found(one.text))


def _entries(known: Sequence[Pin], limit: int) -> tuple[str, ...]:
    """Pins that hold, as lines for the summariser, oldest first.

    When they take more than `limit` tokens, users' come before others, and the newest first.
    """
    chosen: list[tuple[int, str]] = []
    for pin in sorted(pins.shown(known), key=_precedence, reverse=True):
        entry = f"P{pin.number} {pin.kind}: {pins.line(pin)}"
        limit -= tokens.count(entry) + 1
        if limit < 0:
            break
        chosen.append((pin.number, entry))
    return tuple(entry for _, entry in sorted(chosen))


def _precedence(pin: Pin) -> tuple[bool, int]:
    return pin.speaker is Speaker.USER, pin.number


def _language(steps: Sequence[Step]) -> str | None:
    """Of what the users wrote; of everybody, when that is too little to detect one."""
    by_users = " ".join(step.text for step in steps if step.role == Speaker.USER)
    by_all = " ".join(step.text for step in steps)
    return languages.detect(by_users) or languages.detect(by_all)


def _grounds(material: Material, new: Sequence[Pin]) -> Grounds:
    """What a narrative is judged by; `new` are the pins after this reply."""
    memory = material.memory
    said = (*memory.talk, *material.said)
    own_words = [one.text for one in said if one.stands]
    comments = [entry.comment for entry in memory.ledger]
    foreign = [*_bare_calls(material), *material.foreign]
    # A pasted text that was read before is known by its first and last line only.
    pasted = [one.text for one in memory.talk if not one.stands]
    return Grounds(
        covered=(
            *_remembered(memory),
            *(one.text for one in said),
            *comments,
            *(excerpt.text for excerpt in material.reading.excerpts),
            *foreign,
        ),
        said=(*own_words, *comments),
        by_users=tuple(one.text for one in said if one.by_user),
        foreign=(*foreign, *pasted),
        rules=_rules(new),
        language=material.language,
    )


def _rules(known: Sequence[Pin]) -> tuple[str, ...]:
    """The words of the pins that hold and bind."""
    return tuple(pin.text for pin in pins.shown(known) if pin.kind in _RULES)


def _remembered(memory: Memory) -> Iterator[str]:
    """The narrative and all pins, replaced ones too: they were covered once."""
    for paragraph in memory.narrative:
        yield from paragraph.lines
    for pin in memory.pins:
        yield pin.text


def _bare_calls(material: Material) -> Sequence[str]:
    """The ledger without what an assistant said of a call: that is no tool's word."""
    bare = tuple(replace(entry, comment="") for entry in material.memory.ledger)
    return ledger.lines(bare, material.reading.summary_tokens * _GROUNDS)
