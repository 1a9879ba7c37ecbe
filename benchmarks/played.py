"""Plays a stored chat through the service's own code, without database and network.

In: stored messages, a policy, who summarises. Out: the summaries as they would be published.
Parsing, planning, prompts, composing and the gate are those of the service.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from service.planning import plan as planning
from service.planning.plan import Checkpoint, Chunk, PathMessage
from service.planning.policy import Policy, find_state_room
from service.summarising import summarise
from service.summarising.memory import Memory
from service.summarising.reading import Reading, RejectedReply, Reply, Summariser
from service.summarising.summarise import Candidate, CoveredSpan, StepRead, Task, gather
from service.transcript import Step, Stored, count_stored_tokens, estimate_step_tokens, parse, split_steps

_LEAST = 16  # tokens of a record; below, a summary is its frame
_FITTINGS = 8  # times that a summary is made smaller until it fits

P = ParamSpec("P")
T = TypeVar("T")


async def here(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs work on texts at once."""
    return function(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Path:
    """A chat, parsed and counted once."""

    messages: Sequence[Stored]
    steps: Sequence[Sequence[Step]]
    nodes: Sequence[PathMessage]

    @classmethod
    def of(cls, messages: Sequence[Stored]) -> "Path":
        """The path of these messages, root to leaf."""
        nodes, cut = [], []
        for message in messages:
            cut.append(split_steps(parse(message)))
            sizes = tuple(map(estimate_step_tokens, cut[-1]))
            role, size = message["role"], count_stored_tokens(message)
            nodes.append(PathMessage(message["id"], role, size, sizes))
        return cls(messages, cut, nodes)

    def tokens(self, messages: int) -> int:
        """What the first so many messages cost the model."""
        return sum(node.tokens for node in self.nodes[:messages])

    @property
    def turns(self) -> list[int]:
        """How many messages stand before each turn but the first."""
        return [start for start in planning.find_turn_starts(self.nodes) if start]

    def rounds(self, count: int, tail: int) -> list[int]:
        """Ends of the covered part, at turn ends, that leave a tail of so many messages or the turn that has them."""
        ends = [start for start in self.turns if start <= len(self.nodes) - tail]
        if not ends:
            return []
        wanted = [ends[-1] * number / count for number in range(1, count + 1)]
        return sorted({min(ends, key=lambda end: (abs(end - one), -end)) for one in wanted})


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary with what the next one grows from, and as planning sees it; nothing yet at first."""

    memory: Memory = field(default_factory=Memory)
    made: Checkpoint | None = None
    text: str = ""


@dataclass(slots=True)
class Played:
    """A chat while it is played.

    Attributes:
        path: the chat.
        summariser: the LLM; None for the built-in way.
        final: the last summary that others grow from.
        interim: what code made of more, which serves until the LLM has read that; None for none.
        spent: tokens that the LLM read and wrote.
        outcomes: of all candidates, as the verdicts name them.
        reasons: why replies were rejected.
    """

    path: Path
    summariser: Summariser | None = None
    final: Summary = field(default_factory=Summary)
    interim: Summary | None = None
    spent: int = 0
    outcomes: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def shown(self) -> Summary:
        """The summary that serves."""
        return self.interim or self.final

    async def round(self, messages: int, policy: Policy, room: int | None = None) -> None:
        """One round of work, when the chat has so many messages: code's, and then the LLM's.

        As a worker does; where a summary has its `room`, only one of them is made.

        Args:
            messages: how many of the path there are.
            policy: the budgets.
            room: bounds the summary as rendered, in tokens, instead of the policy.
        """
        if self.summariser and room is None:
            self._by_code(messages, policy)
        # Where a room is given, code covers whatever stands before the tail, as an LLM does.
        by_code = self.summariser is None and room is None
        nodes = self.path.nodes[:messages]
        planned = planning.plan(nodes, _known(self.final), policy, by_code=by_code)
        tail = self.path.tokens(messages) - self.path.tokens(planned.tail_start)
        for chunk in planned.chunks:
            candidate = await self._chunk(chunk, policy, room, tail)
            self.outcomes.append(candidate.verdict.outcome)
            if not candidate.verdict.accepted or (room is None and candidate.no_gain):
                return
            self.final = self._grown(self.final, chunk, candidate)
        if planned.chunks and self.interim:
            self._carry_on(messages, policy)

    def _carry_on(self, messages: int, policy: Policy) -> None:
        """What the LLM wrote takes the interim one's place, and is carried on to where that served."""
        interim, self.interim = self.interim, None
        final = self.final.made
        if interim and interim.made and final and final.messages < interim.made.messages:
            self._by_code(messages, replace(policy, prepare_at=0, step_tokens=1, code_tokens=1))

    def _by_code(self, messages: int, policy: Policy) -> None:
        """Code's work beside an LLM."""
        known = [*_known(self.final), *_known(self.interim)]
        grown = self.shown
        planned = planning.plan(self.path.nodes[:messages], known, policy, by_code=True)
        tail = self.path.tokens(messages) - self.path.tokens(planned.tail_start)
        for chunk in planned.chunks:
            material = gather(grown.memory, self._reads(chunk), policy, part=chunk.part, parts=chunk.parts)
            task = Task(material, policy, self._covered(chunk, tail))
            candidate = summarise.write_alone(task, "interim")
            grown = self._grown(grown, chunk, candidate)
            if chunk.covers is not None and not candidate.no_gain:
                self.interim = grown

    def _grown(self, before: Summary, chunk: Chunk, candidate: Candidate) -> Summary:
        if chunk.covers is None:
            return replace(before, memory=candidate.memory)
        return Summary(candidate.memory, self._checkpoint(chunk.covers, candidate), candidate.text)

    def _checkpoint(self, covers: int, candidate: Candidate) -> Checkpoint:
        last, size = self.path.nodes[covers - 1], candidate.size
        return Checkpoint(1, last.id, covers, self.path.tokens(covers), size)

    async def _chunk(self, chunk: Chunk, policy: Policy, room: int | None, tail: int) -> Candidate:
        covered = self._covered(chunk, tail)
        if room is not None:
            whole = max(room, _LEAST)
            state = find_state_room(whole, 8 * whole)
            policy = replace(policy, state_tokens=state, summary_tokens=whole, request_tokens=whole)
        material = gather(self.final.memory, self._reads(chunk), policy, part=chunk.part, parts=chunk.parts)
        asked = _Remembering(self.summariser, self.summariser.name) if self.summariser else None
        task = Task(material, policy, covered)
        candidate = await self._attempt(asked, task)
        if room is not None and candidate.size > room:
            candidate = await self._fitted(asked, task, candidate, room)
        self.reasons += asked.reasons if asked else []
        return candidate

    def _covered(self, chunk: Chunk, tail: int) -> CoveredSpan:
        last = chunk.covers or chunk.reads[-1].position.message + 1
        sent = self.path.messages[last - 1].get("timestamp")
        return CoveredSpan(last, self.path.tokens(last), sent, tail)

    def _reads(self, chunk: Chunk) -> list[StepRead]:
        return [
            StepRead(self.path.steps[at.message][at.step], at.piece, one.pieces)
            for one in chunk.reads
            for at in (one.position,)
        ]

    async def _fitted(
        self,
        asked: "_Remembering | None",
        task: Task,
        candidate: Candidate,
        room: int,
    ) -> Candidate:
        """The largest summary of at most `room` tokens, of those that a few records make; else the smallest."""
        least, most = _LEAST, task.policy.summary_tokens
        guess = most - (candidate.size - room)
        for _ in range(_FITTINGS):
            guess = min(max(guess, least), most)
            policy = replace(task.policy, summary_tokens=guess, request_tokens=guess)
            made = await self._attempt(asked, replace(task, policy=policy))
            size = made.size
            if size <= room or candidate.size > size > room:
                candidate = made
            least, most = (guess, most) if size <= room else (least, guess)
            if most - least <= room // 32 or room * 0.97 <= size <= room:
                break
            guess = (least + most) // 2
        return candidate

    async def _attempt(self, asked: "_Remembering | None", task: Task) -> Candidate:
        """As a worker does: a reply, one more when it is rejected, else what code makes."""
        rejections: tuple[str, ...] = ()
        rejected: RejectedReply | None = None
        for _ in range(summarise.CALLS if asked else 0):
            assert asked
            calls = asked.calls
            candidate = await summarise.ask(here, asked, task, rejected)
            if asked.calls > calls:
                self.spent += candidate.read + candidate.wrote
            if candidate.verdict.accepted:
                return candidate
            rejected, rejections = candidate.rejected, candidate.verdict.reasons
            asked.reasons = [*asked.reasons, *(one for one in rejections if one not in asked.reasons)]
        outcome = "degraded" if asked else "extractive"
        return summarise.write_alone(task, outcome, rejections)


@dataclass(slots=True)
class _Remembering:
    """Asks a summariser once for each reading, however often its reply is fitted into a room."""

    asked: Summariser
    name: str = ""
    calls: int = 0
    replies: list[tuple[Reading, Reply]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    async def summarise(self, reading: Reading) -> Reply:
        for known, reply in self.replies:
            if known == reading:
                return reply
        self.calls += 1
        reply = await self.asked.summarise(reading)
        self.replies.append((reading, reply))
        return reply


def _known(summary: Summary | None) -> list[Checkpoint]:
    return [summary.made] if summary and summary.made else []


def every_round(policy: Policy, tail: int) -> Policy:
    """The budgets of rounds that cover whatever stands before a tail of so many messages."""
    return replace(policy, prepare_at=0, step_tokens=1, keep_tokens=10**9, keep_messages=tail)
