"""A writer of summaries with almost no work on texts: what is measured beside it shows. Pure.

The full writer (`compose`) takes most of the CPU time of a round. This one has the same frame, the
same bounds and the same memory, so that storage, queues and requests cannot tell them apart: what
a summariser wrote stands as it is, pins of before stay, and of each step stands its beginning.
It takes no pins from a reply, keeps no ledger, and judges no line of a narrative, so it is for
loads and measurements and not for people's chats.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from service.policy import Policy
from service.summarising import gate, ledger, message
from service.summarising.compose import (
    LINE_TOKENS,
    Candidate,
    Covered,
    Material,
    Read,
    candidate,
    cleaned,
    finished,
    record_room,
)
from service.summarising.gate import Verdict
from service.summarising.kept import pins
from service.summarising.kept.record import Record
from service.summarising.markup import harmless, unmarked
from service.summarising.memory import Memory, Paragraph, Pin
from service.summarising.reading import Excerpt, Reading, Reply
from service.summarising.reply import answer
from service.summarising.utterances import Speaker, Utterance
from service.summarising.writing import Writer
from service.text import tokens
from service.text.plain import plain
from service.transcript import Step

_BEGINNING = 80  # characters of a step
_MOST_TALK = 24  # steps that are remembered, the newest


def gather(
    memory: Memory,
    reads: Sequence[Read],
    policy: Policy,
    *,
    part: int = 1,
    parts: int = 1,
    mask: bool = True,
) -> Material:
    """The texts as they are, without numbers; hidden characters and secrets are left out too."""
    readable = {id(read.step): cleaned(read.step, mask) for read in reads}
    done = [readable[key][0] for key in finished(reads)]
    reading = Reading(
        previous=memory.narrative,
        excerpts=tuple(_excerpt(readable[id(read.step)][0], read) for read in reads),
        summary_tokens=policy.summary_tokens,
        part=part,
        parts=parts,
    )
    heard = tuple(_heard(done, memory.heard + 1))
    masked = sum(found for _, found in readable.values())
    return Material(memory, reading, heard, tuple(done), heard, masked=masked)


def compose(material: Material, reply: Reply, policy: Policy, covered: Covered) -> Candidate:
    """What a reply makes: its narrative as far as there is room, if it is an answer at all."""
    text = answer.unreasoned(reply.text)
    rejection = gate.rejection(Reply(text, reply.finish))
    if rejection:
        verdict = gate.rejected([rejection])
        return _candidate(material, material.memory.narrative, verdict, policy, covered)
    narrative = tuple(_within(answer.parse(text).narrative, policy.summary_tokens))
    return _candidate(material, narrative, Verdict("accepted"), policy, covered)


def by_rule(material: Material, policy: Policy, covered: Covered) -> Candidate:
    """What code makes alone: the narrative stays as it was."""
    verdict = Verdict("extractive")
    return _candidate(material, material.memory.narrative, verdict, policy, covered)


PLAIN = Writer(gather, compose, by_rule)


def _excerpt(step: Step, read: Read) -> Excerpt:
    calls = (f"[tool] {ledger.line_of(call)}" for call in step.calls)
    text = "\n".join([step.text, *calls])
    if read.pieces == 1:
        return Excerpt(step.role, text)
    label = f"{step.role}, piece {read.piece + 1} of {read.pieces}"
    return Excerpt(label, tokens.pieces(text, read.pieces)[read.piece])


def _heard(done: Sequence[Step], first: int) -> Iterator[Utterance]:
    """The beginning of each step."""
    for number, step in enumerate(done, first):
        said = " ".join(step.text[:_BEGINNING].split())
        if said:
            yield Utterance(number, 1, Speaker(step.role), said, step.message_id, step.at)


def _within(narrative: Iterable[Paragraph], room: int) -> Iterator[Paragraph]:
    """The paragraphs whose lines find room."""
    for paragraph in narrative:
        lines: list[str] = []
        for line in map(plain, paragraph.lines):
            room -= tokens.count(line) + LINE_TOKENS
            if room >= 0:
                lines.append(line)
        if lines:
            yield Paragraph(paragraph.section, tuple(lines))


def _candidate(
    material: Material,
    narrative: tuple[Paragraph, ...],
    verdict: Verdict,
    policy: Policy,
    covered: Covered,
) -> Candidate:
    """The memory with what was read, and its summary."""
    memory = material.memory
    talk = (*memory.talk, *material.heard)[-_MOST_TALK:]
    heard = memory.heard + len(material.completed)
    grown = Memory(narrative, memory.pins, talk, memory.ledger, heard)
    record = _recorded(grown, record_room(narrative, policy, covered))
    shown = message.render(narrative, record, covered.messages, covered.until)
    judged = replace(verdict, left_out=record.left_out, masked=material.masked)
    return candidate(grown, shown, judged, covered)


def _recorded(memory: Memory, room: int) -> Record:
    """The pins, then the newest of the talk, within `room` tokens."""
    told = [(pin, harmless(pins.line(pin))) for pin in pins.shown(memory.pins)]
    held: list[tuple[Pin, str]] = []
    for pin, words in told:
        room -= tokens.count(words) + LINE_TOKENS
        if room >= 0:
            held.append((pin, words))
    lines: list[str] = []
    for one in reversed(memory.talk):
        line = f"{one.speaker}: {unmarked(one.text)}"
        room -= tokens.count(line) + LINE_TOKENS
        if room < 0:
            break
        lines.append(line)
    return Record(tuple(held), tuple(reversed(lines)), left_out=len(told) - len(held))
