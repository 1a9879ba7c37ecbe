"""The way from steps to a summary, from top to bottom. Every chat of people goes it.

    gather    steps → what a summariser is shown (`shown`), and what code keeps of them
    ask       one call; a reply with doubtful values is asked for once more
    compose   reply → choices by number and a state (`reply`, `choices`), judged (`gate`) →
              memory → what has room (`room`) → the text (`message`)
    summarise_by_code   the same without a reply: code alone

All but `ask` is pure; the work on texts runs where `run` says, beside the event loop. Who calls
decides what follows on a rejected reply.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from service.planning.policy import Policy
from service.summarising import (
    choices,
    gate,
    ledger,
    message,
    prompt,
    reply,
    room,
    shown,
    state,
    utterances,
)
from service.summarising.gate import DroppedClause, SourceEvidence, Verdict
from service.summarising.memory import Memory
from service.summarising.message import HEAD_TOKENS, Parts
from service.summarising.reading import (
    Excerpt,
    Reading,
    RejectedReply,
    Reply,
    Summariser,
    TextRunner,
)
from service.summarising.reply import Answer
from service.summarising.utterances import Speaker, Utterance
from service.text import languages, sentences, tokens
from service.text.blocks import TextOrigin
from service.transcript import Step

TOO_LONG = "too_long"
"""The kind of rejection of a state that is too long."""
BY_CODE = "extractive"
"""The name of the built-in way, as operators see it."""
CALLS = 2  # of a summariser for one candidate: the second knows what was wrong with the first
_LEAST_ROOM = 64  # tokens; a summary that saves nothing even with so little is not published
_STANDS = 0.5  # of a state has to be left, or it is no answer
_FEW = 0.1  # of a state may be cut without asking once more
_SLACK = 5 / 4  # times its limit a state may have where there is room
_MOST_NAMED, _NAMED = 8, 80  # sentences that a model is told to be without, and their characters
_LEDGER = 4096  # tokens of the ledger that a state is compared with


@dataclass(frozen=True, slots=True)
class StepRead:
    """One step, or piece `piece` (from 0) of `pieces` of it, that a call reads."""

    step: Step
    piece: int = 0
    pieces: int = 1

    @property
    def completes(self) -> bool:
        """Whether its step is heard with it."""
        return self.piece == self.pieces - 1


@dataclass(frozen=True, slots=True)
class CoveredSpan:
    """What the new summary stands for, and what follows it.

    Attributes:
        messages: how many it covers.
        tokens: what they cost the model.
        until: when the last of them was sent, in Unix seconds.
        tail: tokens of what follows, as it was planned on.
    """

    messages: int
    tokens: int
    until: int | None = None
    tail: int = 0


@dataclass(frozen=True, slots=True)
class Material:
    """What one chunk is made of.

    Attributes:
        memory: what it grows from.
        reading: what the summariser is shown.
        said: what it may point at, of all steps that are read, wholly or in part.
        completed: the steps whose last piece is read.
        heard: utterances of those, which the talk grows by.
        sources: the whole texts of all steps that are read, those of tools too.
        language: of the conversation; None when it is not clear.
        masked: secrets in what is new.
        last_call: the highest number of a call, `T12` or so; 0 without one.
    """

    memory: Memory
    reading: Reading
    said: tuple[Utterance, ...]
    completed: tuple[Step, ...]
    heard: tuple[Utterance, ...]
    sources: tuple[str, ...] = ()
    language: str | None = None
    masked: int = 0
    last_call: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """What became of a reply: the new memory, its summary with its tokens, and the gate's verdict.

    `rejected` is the reply, when it may not stand, for the next call.

    `no_gain` says why the summary is not worth publishing although nothing is wrong with it: it is
    about as large as what it stands for, or has nothing in it. Empty when it is worth it. `calls`,
    `read` and `wrote` are the calls and the tokens that it cost.
    """

    memory: Memory
    text: str
    size: int
    verdict: Verdict
    no_gain: str = ""
    calls: int = 0
    read: int = 0
    wrote: int = 0
    rejected: RejectedReply | None = None


@dataclass(frozen=True, slots=True)
class UnreadSpan:
    """What is covered without being read: so many messages of `size` tokens.

    `calls` are those of each step that ends in it, so that what comes later keeps its numbers.
    """

    messages: int
    size: int
    calls: Sequence[int]


def gather(
    memory: Memory,
    reads: Sequence[StepRead],
    policy: Policy,
    *,
    part: int = 1,
    parts: int = 1,
    mask: bool = True,
) -> Material:
    """What a summariser reads next.

    No hidden character of these steps gets any further than here, nor, with `mask`, a secret.
    """
    # Several pieces of one step may be read in one call: it is cleaned and parsed once.
    grouped = [list(pieces) for _, pieces in groupby(reads, key=lambda read: id(read.step))]
    steps: list[Step] = []
    masked = 0
    for pieces in grouped:
        step, found = shown.clean_step(pieces[0].step, mask)
        steps.append(step)
        masked += found
    detected = _detect_language(steps)
    language = detected or "en"
    excerpts: list[Excerpt] = []
    said: list[Utterance] = []
    completed: list[Step] = []
    heard: list[Utterance] = []
    first_call = ledger.find_last_number(memory.ledger) + 1
    spoken = memory.newest
    for number, (step, pieces) in enumerate(zip(steps, grouped, strict=True), memory.heard + 1):
        passages = utterances.read_passages(step, number, language, spoken)
        spoken = [one for passage in passages for one in passage.utterances]
        for read in pieces:
            excerpts += shown.make_excerpts(step, passages, first_call, read.piece, read.pieces)
        said += utterances.list_choices(passages)
        if pieces[-1].completes:
            completed.append(step)
            heard += spoken
        first_call += len(step.calls)
    reading = Reading(
        previous=memory.state,
        excerpts=tuple(excerpts),
        state_tokens=policy.state_tokens,
        entries=shown.list_entries(memory.rules, memory.quotations, policy.entry_tokens),
        part=part,
        parts=parts,
        language=language,
    )
    return Material(
        memory=memory,
        reading=reading,
        said=tuple(said),
        completed=tuple(completed),
        heard=tuple(heard),
        sources=tuple(_list_sources(steps)),
        language=detected,
        masked=masked,
        last_call=first_call - 1,
    )


async def ask(
    run: TextRunner,
    summariser: Summariser,
    material: Material,
    policy: Policy,
    covered: CoveredSpan,
    rejected: RejectedReply | None = None,
) -> Candidate:
    """One call; `rejected` is the reply to the one before, whose faults are kept in the verdict.

    Raises:
        SummariserError: no usable answer came in time.
    """
    material = replace(material, reading=replace(material.reading, rejected=rejected))
    answer = await summariser.summarise(material.reading)
    return await run(_compose_attempt, material, answer, policy, covered)


def compose(material: Material, written: Reply, policy: Policy, covered: CoveredSpan) -> Candidate:
    """What a summariser's reply makes, if the verdict accepts it.

    The talk and the ledger grow by what was read, whatever the reply says. Where a repair has lost
    most of what may stand of the reply before it, that one is taken: a small model may answer with
    the mended lines alone, or not at all.
    """
    candidate = _compose_alone(material, written, policy, covered)
    before = material.reading.rejected
    if before is None:
        return candidate
    first = _compose_alone(material, Reply(before.text, before.finish), policy, covered)
    has_lost = _measure_written_state(candidate, material) < _STANDS * _measure_written_state(
        first, material
    )
    return first if has_lost else candidate


def _compose_alone(
    material: Material, written: Reply, policy: Policy, covered: CoveredSpan
) -> Candidate:
    answer = reply.parse_reply(written)
    own = (one for one in answer.state if not prompt.repeats_prompt(one, material.reading.language))
    answer = replace(answer, state=tuple(own))
    rejection = _find_rejection(written, answer, material)
    if rejection:
        return _make_candidate(
            material, material.memory, gate.reject_reply([rejection]), policy, covered
        )

    written_state, verdict = _verify_state(answer, material, policy, covered)
    memory = material.memory
    merged = choices.apply_choices(memory.pins, material.said, answer, _list_known_texts(material))
    if verdict.accepted:
        # A reply that only chooses leaves the state as it was, and the talk that it does not tell.
        if written_state:
            told = memory.heard + len(material.completed)
            memory = replace(memory, state=written_state, told=told)
        memory = replace(memory, pins=merged.pins)
    return _make_candidate(
        material, memory, replace(verdict, unfounded=merged.unfounded), policy, covered
    )


def _find_rejection(written: Reply, answer: Answer, material: Material) -> gate.Rejection | None:
    """Why a reply is no answer to what was asked; None when it is one."""
    if found := gate.find_rejection(written):
        return found
    if prompt.is_copied(written.text, material.reading):
        return gate.Rejection("copy", "repeats its prompt")
    return gate.Rejection("says_nothing", "says nothing") if answer.is_empty else None


def summarise_by_code(
    material: Material,
    policy: Policy,
    covered: CoveredSpan,
    outcome: str = BY_CODE,
    rejections: tuple[str, ...] = (),
) -> Candidate:
    """The summary that code makes alone: state and pins stay as they were, the rest grows.

    Args:
        material: what is read.
        policy: the budgets.
        covered: what the summary stands for.
        outcome: of the verdict.
        rejections: why a summariser's replies were rejected.
    """
    verdict = Verdict(outcome, rejections)
    return _make_candidate(material, material.memory, verdict, policy, covered)


def summarise_by_size(
    memory: Memory, unread: UnreadSpan, policy: Policy, covered: CoveredSpan, why: str
) -> Candidate:
    """What can be written without reading any text.

    `memory` is carried on as it is. For messages that a text process could not read in its bounds,
    or on which our own code failed; `why` is which of them.
    """
    grown = _add_unread(memory, unread)
    parts = _fit_memory(grown, policy, covered)
    verdict = Verdict("degraded", (why,), left_out=parts.left_out)
    return _render_candidate(grown, parts, verdict, covered)


def summarise_size_only(
    memory: Memory, unread: UnreadSpan, covered: CoveredSpan, why: str
) -> Candidate:
    """The same, and nothing of the memory is shown.

    For a memory that cannot be shown: little of our code is left that could fail on it.
    """
    grown = _add_unread(memory, unread)
    line = grown.talk[-1]
    parts = Parts(talk=(f"{line.speaker}: {line.text}",), left_out=len(memory.pins))
    verdict = Verdict("degraded", (why,), left_out=parts.left_out)
    return _render_candidate(grown, parts, verdict, covered)


def render_memory(memory: Memory, policy: Policy, covered: CoveredSpan) -> tuple[str, Parts]:
    """A memory as a summary within the policy's room."""
    parts = _fit_memory(memory, policy, covered)
    return message.render(parts, covered.messages, covered.until), parts


def _compose_attempt(
    material: Material, written: Reply, policy: Policy, covered: CoveredSpan
) -> Candidate:
    """The candidate, and what its reply cost: the provider's counts, or else ours."""
    read, wrote = written.prompt_tokens, written.completion_tokens
    if read is None:
        asked = prompt.build(material.reading).messages
        read = sum(tokens.count(one["content"]) for one in asked)
    if wrote is None:
        wrote = tokens.count(written.text)
    written = replace(written, text=reply.strip_reasoning(written.text))
    candidate = compose(material, written, policy, covered)
    rejected = None
    if not candidate.verdict.accepted:
        rejected = RejectedReply(
            text=written.text,
            reasons=candidate.verdict.reasons,
            finish=written.finish,
            is_too_long=candidate.verdict.kinds == (TOO_LONG,),
        )
    return replace(candidate, calls=1, read=read, wrote=wrote, rejected=rejected)


def _measure_written_state(candidate: Candidate, material: Material) -> int:
    """The characters of the state that a reply wrote; 0 when none of it may stand."""
    is_written = candidate.memory.told > material.memory.told
    return sum(map(len, candidate.memory.state)) if is_written else 0


def _verify_state(
    answer: Answer, material: Material, policy: Policy, covered: CoveredSpan
) -> tuple[tuple[str, ...], Verdict]:
    """The state as it may stand, and the verdict."""
    judged = gate.verify_state(answer.state, _collect_evidence(material))
    rules = [message.write_pin(pin) for pin in material.memory.rules]
    limit = _limit_state(material.reading.state_tokens, rules, _count_summary_room(policy, covered))
    fitted = state.fit(judged.kept, limit, rules)
    kept = tuple(chain.from_iterable(fitted.kept))
    no_room = [DroppedClause(one, "no room") for one in fitted.given_up]
    dropped = (*judged.dropped, *no_room)
    doubts = (*_name_surplus(fitted.given_up), *judged.doubts)
    before = material.reading.rejected
    # Whoever mends a little may lose more.
    is_asked_again = before is None and bool(doubts) and _share_kept(kept, answer.state) < 1 - _FEW
    if is_asked_again or _is_unusable(judged.doubts, _share_kept(judged.kept, answer.state)):
        return (), replace(gate.reject_reply(doubts), dropped=dropped)
    if before:
        return kept, Verdict("repaired", before.reasons, dropped)
    return kept, Verdict("trimmed" if dropped else "accepted", dropped=dropped)


def _is_unusable(doubts: Iterable[gate.Rejection], founded: float) -> bool:
    """Whether a state is in another language, or too small a share of it is founded."""
    return founded < _STANDS or any(one.kind == "other_language" for one in doubts)


def _limit_state(told: int, rules: Sequence[str], whole: int) -> int:
    """How many tokens of a state stand: those that its model was told, whatever else there is.

    Some more do where the rules leave them, because a model cannot count its tokens.
    """
    left = whole - room.count_with_head(rules) - HEAD_TOKENS
    return max(told, min(int(told * _SLACK), left))


def _name_surplus(given_up: Sequence[str]) -> Iterator[gate.Rejection]:
    """What a model is asked whose state is too long: which lines it may lose, the least first."""
    if given_up:
        named = "; ".join(f"“{sentences.shorten(one, _NAMED)}”" for one in given_up[:_MOST_NAMED])
        reason = f"too long by {len(given_up)} lines; what it may do without, first: {named}"
        yield gate.Rejection(TOO_LONG, reason)


def _collect_evidence(material: Material) -> SourceEvidence:
    """What a state is judged by: what is known, and that in the form in which it was shown."""
    shown = (excerpt.text for excerpt in material.reading.excerpts)
    # A model may name entries and calls by our labels, also a call that stands in a merged line.
    labels = " ".join(f"T{number}" for number in range(1, material.last_call + 1))
    covered = (*_list_known_texts(material), *shown, *material.reading.entries, labels)
    return SourceEvidence(covered, material.language)


def _list_known_texts(material: Material) -> tuple[str, ...]:
    """The texts of all that is covered, as far as they are still there."""
    memory = material.memory
    return (
        *memory.state,
        *(pin.text for pin in memory.pins),
        *(one.text for one in memory.talk),
        *ledger.choose(memory.ledger, _LEDGER).lines,
        *material.sources,
    )


def _make_candidate(
    material: Material, memory: Memory, verdict: Verdict, policy: Policy, covered: CoveredSpan
) -> Candidate:
    """The memory with what was read, and its summary."""
    grown = replace(
        memory,
        talk=(*memory.talk, *material.heard),
        ledger=ledger.extend(memory.ledger, material.completed),
        heard=memory.heard + len(material.completed),
    )
    kept = room.trim_memory(grown, policy.summary_room(covered.tokens, covered.tail))
    parts = _fit_memory(kept, policy, covered)
    judged = replace(verdict, left_out=parts.left_out, masked=material.masked)
    return _render_candidate(kept, parts, judged, covered)


def _fit_memory(memory: Memory, policy: Policy, covered: CoveredSpan) -> Parts:
    return room.fit_memory(memory, _count_summary_room(policy, covered))


def _count_summary_room(policy: Policy, covered: CoveredSpan) -> int:
    """Tokens of what a summary says, without its frame."""
    # A summary of little has to be smaller than what it stands for, whatever the policy allows.
    smaller = int(covered.tokens * gate.LEAST_GAIN)
    whole = min(policy.summary_room(covered.tokens, covered.tail), smaller)
    return max(whole - message.FRAME_TOKENS, _LEAST_ROOM)


def _render_candidate(
    memory: Memory, parts: Parts, verdict: Verdict, covered: CoveredSpan
) -> Candidate:
    """A summary with the verdict on it: the one place that says what is not worth publishing."""
    text = message.render(parts, covered.messages, covered.until)
    size = message.count_tokens(text)
    no_gain = ""
    if parts.is_empty:
        no_gain = "nothing in it: what it replaces has no words, or none that fit"
    elif size > covered.tokens * gate.LEAST_GAIN:
        no_gain = f"not smaller than what it replaces: {size} tokens for {covered.tokens}"
    shown = replace(memory, front=parts.front_names)
    return Candidate(shown, text, size, verdict, no_gain if verdict.accepted else "")


def _add_unread(memory: Memory, unread: UnreadSpan) -> Memory:
    words = f"[{unread.messages} messages of {unread.size:,} tokens in all, too hard to read]"
    line = Utterance(memory.heard + 1, 1, Speaker.USER, words, "", sort=TextOrigin.PASTED)
    return replace(
        memory,
        talk=(*memory.talk, line),
        ledger=ledger.add_unread_calls(memory.ledger, sum(unread.calls)),
        heard=memory.heard + len(unread.calls),
    )


def _list_sources(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        yield step.text
        for call in step.calls:
            yield from (call.call.name, call.call.arguments, call.result.text)
        yield from (attachment.name for attachment in step.attachments)


def _detect_language(steps: Sequence[Step]) -> str | None:
    """Of what the users wrote; of everybody, when that is too little to detect one."""
    by_users = " ".join(step.text for step in steps if step.role == Speaker.USER)
    by_all = " ".join(step.text for step in steps)
    return languages.detect(by_users) or languages.detect(by_all)


def _share_kept(kept: Iterable[str], state: Iterable[str]) -> float:
    """The share of a state's characters that is kept; all of an empty one."""
    whole = sum(map(len, state))
    return sum(map(len, kept)) / whole if whole else 1
