"""The way from steps to a summary, from top to bottom. Every chat goes it.

    gather       steps → what a summariser is shown, and what code keeps of them
    ask          makes one call; the caller asks again when the reply is rejected
    compose      reply → choices and a state, verified by `gate` → memory → record
    write_alone  the same without a reply

Everything but `ask` is pure, and text work runs in the given `TextRunner`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby

from service.planning.policy import Policy
from service.summarising import (
    choices,
    gate,
    ledger,
    message,
    prompt,
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
from service.summarising.reply import Answer, parse_reply, strip_reasoning
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
_LEAST_SHARE = 0.5  # of a state that has to be left; with less, the reply is no answer
_CUT_UNASKED = 0.1  # of a state that may be cut without asking the summariser once more
_SLACK = 5 / 4  # times its limit a state may have where there is room
_NAMED_LINES, _NAMED_CHARACTERS = 8, 80  # of a too long state, quoted to its summariser
_LEDGER_TOKENS = 4096  # of the ledger that a state is compared with


@dataclass(frozen=True, slots=True)
class StepRead:
    """One step, or one piece of a step, that a call reads."""

    step: Step
    #: Number of the piece, from 0.
    piece: int = 0
    pieces: int = 1

    @property
    def completes_step(self) -> bool:
        """Whether the step is read to its end with this piece."""
        return self.piece == self.pieces - 1


@dataclass(frozen=True, slots=True)
class CoveredSpan:
    """The messages that a new summary stands for."""

    messages: int
    #: What they cost the model.
    tokens: int
    #: Unix seconds at which the last of them was sent.
    until: int | None = None
    #: Tokens of what follows, as planning assumed.
    tail: int = 0


@dataclass(frozen=True, slots=True)
class Material:
    """The material of one summary."""

    #: The memory that it grows from.
    memory: Memory
    #: What the summariser is shown.
    reading: Reading
    #: The sentences that the summariser may point at.
    said: tuple[Utterance, ...]
    #: The steps whose last piece is read, and their utterances, by which the talk grows.
    completed: tuple[Step, ...]
    heard: tuple[Utterance, ...]
    #: The whole texts of all steps that are read, including calls and results.
    sources: tuple[str, ...] = ()
    #: Language of the conversation; None when it is not clear.
    language: str | None = None
    #: Number of secrets that were masked in the new steps.
    masked: int = 0
    #: The highest number of a call, as in `T12`; 0 without one.
    last_call: int = 0


@dataclass(frozen=True)
class Task:
    """A summary that is to be made: its material, its span and its budgets."""

    material: Material
    policy: Policy
    span: CoveredSpan

    @property
    def memory(self) -> Memory:
        """The memory that it grows from."""
        return self.material.memory

    @property
    def rejected(self) -> RejectedReply | None:
        """The reply to the first call, if this is the second."""
        return self.material.reading.rejected

    @property
    def room(self) -> int:
        """The tokens of the summary without its frame."""
        return _count_summary_room(self.policy, self.span)

    @cached_property
    def known_texts(self) -> tuple[str, ...]:
        """The covered texts, as far as they are stored."""
        memory = self.memory
        pins = [pin.text for pin in memory.pins]
        talk = [one.text for one in memory.talk]
        calls = ledger.choose(memory.ledger, _LEDGER_TOKENS).lines
        return (*memory.state, *pins, *talk, *calls, *self.material.sources)

    @property
    def evidence(self) -> SourceEvidence:
        """The texts by which a state is verified: all known ones, also in the form shown."""
        reading = self.material.reading
        excerpts = [excerpt.text for excerpt in reading.excerpts]
        # A model may name calls by our labels, also a call that stands in a merged line.
        labels = " ".join(f"T{number}" for number in range(1, self.material.last_call + 1))
        texts = (*self.known_texts, *excerpts, *reading.entries, labels)
        return SourceEvidence(texts, self.material.language)

    def with_rejected(self, rejected: RejectedReply | None) -> "Task":
        """Returns this task for a call that is shown what was wrong with the reply before."""
        reading = replace(self.material.reading, rejected=rejected)
        return replace(self, material=replace(self.material, reading=reading))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A summary before it is published."""

    memory: Memory
    text: str
    #: Tokens of the record.
    size: int
    verdict: Verdict
    #: Why even an accepted summary is not worth publishing; "" when it is.
    no_gain: str = ""
    #: Calls of the summariser, and the tokens that it read and wrote.
    calls: int = 0
    read: int = 0
    wrote: int = 0
    #: The reply, if it was rejected, for the next call.
    rejected: RejectedReply | None = None


@dataclass(frozen=True, slots=True)
class UnreadSpan:
    """Messages that are covered without being read."""

    messages: int
    #: Their tokens.
    size: int
    #: Number of calls in each step that ends here, so that later calls keep their numbers.
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
    """Collects what a summariser reads next.

    Characters that show nothing are removed from the steps here, and secrets if `mask` is set.
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
        if pieces[-1].completes_step:
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
    task: Task,
    rejected: RejectedReply | None = None,
) -> Candidate:
    """Calls a summariser once; `rejected` is its reply to the call before.

    Raises:
        SummariserError: no usable answer came in time.
    """
    task = task.with_rejected(rejected)
    reply = await summariser.summarise(task.material.reading)
    return await run(_compose_attempt, task, reply)


def compose(task: Task, reply: Reply) -> Candidate:
    """Makes a candidate from a reply; talk and ledger grow whatever the reply says.

    A repair that lost most of the first reply does not take its place, because a small model may
    answer with the repaired lines alone, or not at all.
    """
    candidate = _compose_alone(task, reply)
    before = task.rejected
    if before is None:
        return candidate
    first = _compose_alone(task, Reply(before.text, before.finish))
    size = _measure_written_state(candidate, task)
    first_size = _measure_written_state(first, task)
    return first if size < _LEAST_SHARE * first_size else candidate


def _compose_alone(task: Task, reply: Reply) -> Candidate:
    """Makes a candidate from a reply, whatever the reply before it was."""
    material, memory = task.material, task.memory
    answer = _parse_answer(reply, material.reading.language)
    rejection = _find_rejection(reply, answer, material)
    if rejection:
        return _make_candidate(task, memory, gate.reject_reply([rejection]))
    new_state, verdict = _verify_state(task, answer)
    update = choices.apply_choices(memory.pins, material.said, answer, task.known_texts)
    verdict = replace(verdict, unfounded=update.unfounded)
    if verdict.accepted:
        memory = replace(memory, pins=update.pins)
        # A reply that only chooses leaves the state, and the talk since then, as they were.
        if new_state:
            steps_told = memory.heard + len(material.completed)
            memory = replace(memory, state=new_state, told=steps_told)
    return _make_candidate(task, memory, verdict)


def _parse_answer(reply: Reply, language: str) -> Answer:
    """Parses a reply without the lines of its prompt that it repeats."""
    answer = parse_reply(reply)
    own = [line for line in answer.state if not prompt.repeats_prompt(line, language)]
    return replace(answer, state=tuple(own))


def _find_rejection(reply: Reply, answer: Answer, material: Material) -> gate.Rejection | None:
    """Finds why a reply is no answer; None when it is one."""
    found = gate.find_rejection(reply)
    if found:
        return found
    if prompt.is_copied(reply.text, material.reading):
        return gate.Rejection("copy", "repeats its prompt")
    if answer.is_empty:
        return gate.Rejection("says_nothing", "says nothing")
    return None


def write_alone(task: Task, outcome: str = BY_CODE, rejections: tuple[str, ...] = ()) -> Candidate:
    """Makes a summary by code alone: state and pins stay, talk and ledger grow.

    `outcome` is that of the verdict; `rejections` say why a summariser's replies were rejected.
    """
    return _make_candidate(task, task.memory, Verdict(outcome, rejections))


def write_placeholder(
    memory: Memory, unread: UnreadSpan, policy: Policy, span: CoveredSpan, why: str
) -> Candidate:
    """Makes a summary without reading any text; `memory` is carried on as it is.

    For messages that a text process could not read within its limits, or on which our own code
    failed; `why` says which.
    """
    grown = _add_unread(memory, unread)
    parts = _fit_memory(grown, policy, span)
    verdict = Verdict("degraded", (why,), left_out=parts.left_out)
    return _render_candidate(grown, parts, verdict, span)


def write_bare_placeholder(
    memory: Memory, unread: UnreadSpan, span: CoveredSpan, why: str
) -> Candidate:
    """Makes a summary that shows nothing of the memory, for one that cannot be shown.

    It needs as little of our code as possible, because some of that has just failed.
    """
    grown = _add_unread(memory, unread)
    last = grown.talk[-1]
    parts = Parts(talk=(f"{last.speaker}: {last.text}",), left_out=len(memory.pins))
    verdict = Verdict("degraded", (why,), left_out=parts.left_out)
    return _render_candidate(grown, parts, verdict, span)


def render_memory(memory: Memory, policy: Policy, span: CoveredSpan) -> tuple[str, Parts]:
    """Renders a memory as a record within the policy's room."""
    parts = _fit_memory(memory, policy, span)
    return message.render(parts, span.messages, span.until), parts


def _compose_attempt(task: Task, reply: Reply) -> Candidate:
    """Makes a candidate that knows what its reply cost: by the provider's counts, or else ours."""
    read, wrote = reply.prompt_tokens, reply.completion_tokens
    if read is None:
        messages = prompt.build(task.material.reading).messages
        read = sum(tokens.count(one["content"]) for one in messages)
    if wrote is None:
        wrote = tokens.count(reply.text)
    reply = replace(reply, text=strip_reasoning(reply.text))
    candidate = compose(task, reply)
    verdict = candidate.verdict
    rejected = None
    if not verdict.accepted:
        is_too_long = verdict.kinds == (TOO_LONG,)
        rejected = RejectedReply(reply.text, verdict.reasons, reply.finish, is_too_long)
    return replace(candidate, calls=1, read=read, wrote=wrote, rejected=rejected)


def _measure_written_state(candidate: Candidate, task: Task) -> int:
    """Counts the characters of the state that a reply wrote; 0 when none of it may stand."""
    is_written = candidate.memory.told > task.memory.told
    return sum(map(len, candidate.memory.state)) if is_written else 0


def _verify_state(task: Task, answer: Answer) -> tuple[tuple[str, ...], Verdict]:
    """Returns the lines of a state that may stand, and the verdict."""
    verified = gate.verify_state(answer.state, task.evidence)
    fitted = _fit_state(task, verified.kept)
    kept = tuple(chain.from_iterable(fitted.kept))
    without_room = [DroppedClause(one, "no room") for one in fitted.given_up]
    dropped = (*verified.dropped, *without_room)
    violations = (*_name_surplus(fitted.given_up), *verified.violations)
    before = task.rejected
    # A summariser is asked only once more: in a repair, it may lose more.
    loses_much = _share_kept(kept, answer.state) < 1 - _CUT_UNASKED
    is_asked_again = before is None and bool(violations) and loses_much
    founded = _share_kept(verified.kept, answer.state)
    if is_asked_again or _is_unusable(verified.violations, founded):
        return (), replace(gate.reject_reply(violations), dropped=dropped)
    if before:
        return kept, Verdict("repaired", before.reasons, dropped)
    return kept, Verdict("trimmed" if dropped else "accepted", dropped=dropped)


def _fit_state(task: Task, lines: Sequence[str]) -> state.FittedState:
    """Fits a state into at least as many tokens as it was asked for.

    A model cannot count its tokens, so it may use some more where the rules leave them.
    """
    rules = [message.write_pin(pin) for pin in task.memory.rules]
    left = task.room - room.count_with_head(rules) - HEAD_TOKENS
    asked = task.material.reading.state_tokens
    limit = max(asked, min(int(asked * _SLACK), left))
    return state.fit(lines, limit, rules)


def _is_unusable(violations: Iterable[gate.Rejection], founded: float) -> bool:
    """Whether a state is in another language, or too small a share of it is founded."""
    in_other_language = any(one.kind == "other_language" for one in violations)
    return in_other_language or founded < _LEAST_SHARE


def _name_surplus(given_up: Sequence[str]) -> Iterator[gate.Rejection]:
    """Yields what a model is told whose state is too long: the lines it may lose."""
    if not given_up:
        return
    named = [sentences.shorten(one, _NAMED_CHARACTERS) for one in given_up[:_NAMED_LINES]]
    quoted = "; ".join(f"“{one}”" for one in named)
    reason = f"too long by {len(given_up)} lines; what it may do without, first: {quoted}"
    yield gate.Rejection(TOO_LONG, reason)


def _make_candidate(task: Task, memory: Memory, verdict: Verdict) -> Candidate:
    """Adds the new steps to a memory, and renders it."""
    material, policy, span = task.material, task.policy, task.span
    grown = replace(
        memory,
        talk=(*memory.talk, *material.heard),
        ledger=ledger.extend(memory.ledger, material.completed),
        heard=memory.heard + len(material.completed),
    )
    kept = room.trim_memory(grown, policy.summary_room(span.tokens, span.tail))
    parts = room.fit_memory(kept, task.room)
    verdict = replace(verdict, left_out=parts.left_out, masked=material.masked)
    return _render_candidate(kept, parts, verdict, span)


def _fit_memory(memory: Memory, policy: Policy, span: CoveredSpan) -> Parts:
    """Fits a memory into the room of a summary."""
    return room.fit_memory(memory, _count_summary_room(policy, span))


def _count_summary_room(policy: Policy, span: CoveredSpan) -> int:
    """Counts the tokens of a summary without its frame."""
    # A summary of little has to be smaller than what it stands for, whatever the policy allows.
    smaller = int(span.tokens * gate.LEAST_GAIN)
    whole = min(policy.summary_room(span.tokens, span.tail), smaller)
    return max(whole - message.FRAME_TOKENS, _LEAST_ROOM)


def _render_candidate(
    memory: Memory, parts: Parts, verdict: Verdict, span: CoveredSpan
) -> Candidate:
    """Renders a summary; no other place says that one is not worth publishing."""
    text = message.render(parts, span.messages, span.until)
    size = message.count_tokens(text)
    no_gain = ""
    if parts.is_empty:
        no_gain = "nothing in it: what it replaces has no words, or none that fit"
    elif size > span.tokens * gate.LEAST_GAIN:
        no_gain = f"not smaller than what it replaces: {size} tokens for {span.tokens}"
    shown = replace(memory, front=parts.front_names)
    return Candidate(shown, text, size, verdict, no_gain)


def _add_unread(memory: Memory, unread: UnreadSpan) -> Memory:
    """Adds messages to a memory by their size only."""
    words = f"[{unread.messages} messages of {unread.size:,} tokens in all, too hard to read]"
    line = Utterance(memory.heard + 1, 1, Speaker.USER, words, "", sort=TextOrigin.PASTED)
    return replace(
        memory,
        talk=(*memory.talk, line),
        ledger=ledger.add_unread_calls(memory.ledger, sum(unread.calls)),
        heard=memory.heard + len(unread.calls),
    )


def _list_sources(steps: Sequence[Step]) -> Iterator[str]:
    """Yields all texts of steps, including calls, results and names of files."""
    for step in steps:
        yield step.text
        for call in step.calls:
            yield from (call.call.name, call.call.arguments, call.result.text)
        yield from (attachment.name for attachment in step.attachments)


def _detect_language(steps: Sequence[Step]) -> str | None:
    """Detects the language of the users, or of everybody when the users wrote too little."""
    by_users = " ".join(step.text for step in steps if step.role == Speaker.USER)
    by_all = " ".join(step.text for step in steps)
    return languages.detect(by_users) or languages.detect(by_all)


def _share_kept(kept: Iterable[str], state: Iterable[str]) -> float:
    """Returns which share of a state's characters is kept; all of an empty one."""
    whole = sum(map(len, state))
    return sum(map(len, kept)) / whole if whole else 1
