"""The systems side by side: Precis with a summariser of known quality, and simpler means as floors.

In: a chat, a share of the covered tokens as budget. Out: five `Made` summaries, one a round. Precis runs the service's
own code (parse, steps, plan, gather, prompt, compose); only the database and the network are left out.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.fidelity.generator import Chat
from benchmarks.fidelity.scripts import PERFECT, SCRIPTS, Script, Scripted, rewrite
from service import planning, tokens
from service.planning import Chunk, PathMessage, Policy
from service.summarising import prompt, writing
from service.summarising.compose import Covered, Draught, Read, gather
from service.summarising.excerpts import excerpts
from service.summarising.memory import Memory
from service.summarising.reading import Excerpt, Reading, Summariser
from service.summarising.summarisers import ExtractiveSummariser
from service.summarising.writing import Attempt
from service.transcript import ROOT, Step, digest, native_tokens, parse, step_tokens, steps

ROUNDS = 5
_TAIL = 10  # messages
_SUMMARISER = 16_384  # tokens of its window
_MASKED = "[tool output left out]"

BUILT_IN = ExtractiveSummariser(asyncio.to_thread)


@dataclass(frozen=True, slots=True)
class Made:
    """A round's summary.

    Attributes:
        covered: ids of the messages that it stands for.
        covered_tokens: what those cost the model.
        summary: what the model gets instead.
        read: tokens that an LLM read for it.
        verdicts: how often a reply was accepted, mended, repaired, degraded, and why replies were rejected.
    """

    covered: frozenset[str]
    covered_tokens: int
    summary: str
    read: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Path:
    """A chat, parsed and counted once."""

    chat: Chat
    steps: Sequence[Sequence[Step]]
    nodes: Sequence[PathMessage]

    @classmethod
    def of(cls, chat: Chat) -> "Path":
        """The path of a chat."""
        nodes, cut, above = [], [], ROOT
        for message in chat.messages:
            cut.append(steps(parse(message)))
            above = digest(above, message["id"], "")
            sizes = tuple(map(step_tokens, cut[-1]))
            nodes.append(PathMessage(message["id"], message["role"], above, native_tokens(message), sizes))
        return cls(chat, cut, nodes)

    @property
    def ends(self) -> list[int]:
        """How many messages there are in each round."""
        step = (len(self.nodes) - _TAIL) // ROUNDS
        return [_TAIL + step * number for number in range(1, ROUNDS + 1)]

    def tokens(self, messages: int) -> int:
        """What the first so many messages cost the model."""
        return sum(node.tokens for node in self.nodes[:messages])

    def covered(self, messages: int) -> frozenset[str]:
        """The ids of the first so many messages."""
        return frozenset(node.id for node in self.nodes[:messages])


@dataclass(frozen=True, slots=True)
class System:
    """A name, the LLM behind it, and how it makes the five summaries of a chat within so many tokens."""

    name: str
    llm: str
    meaning: str
    run: Callable[[Path, int], Iterator[Made]]


def budget(path: Path, share: float) -> int:
    """A share of what is covered in the last round, in tokens."""
    return int(path.tokens(path.ends[-1] - _TAIL) * share)


def systems() -> list[System]:
    """All of them, Precis first."""
    ours = [System("precis", script.name, script.meaning, _with(script)) for script in SCRIPTS]
    built_in = System("precis", "extractive", "the built-in summariser, no LLM", _extractive)
    free = [
        System("rewriting", script.name, f"one free summary a round; the LLM {script.meaning}", _free(script))
        for script in SCRIPTS
    ]
    floors = [
        System("truncation", "none", "the newest text that fits", _truncated),
        System("masking", "none", "tool outputs left out, then the newest text that fits", _masked),
    ]
    return [*ours, built_in, *free, *floors]


def policy_of(limit: int, keep: int = _TAIL) -> Policy:
    """The service's own budgets, scaled so that narrative, pins and ledger together have so many tokens.

    Each round of the chat is worth a checkpoint, and its tail is `keep` messages.
    """
    sized = Policy.sized(planning.DEFAULT_WINDOW, _SUMMARISER)
    parts = {name: getattr(sized, name) for name in ("summary_tokens", "pins_tokens", "ledger_tokens")}
    whole = sum(parts.values())
    scaled = {name: part * limit // whole for name, part in parts.items()}
    return replace(sized, prepare_at=0, step_tokens=1, keep_tokens=10**6, keep_messages=keep, **scaled)


def precis(path: Path, policy: Policy, summariser: Summariser = BUILT_IN) -> Iterator[Made]:
    """Five rounds of the service's work on a growing chat."""
    memory, made, summary = Memory(), None, ""
    for end in path.ends:
        read, verdicts = 0, Counter[str]()
        for chunk in planning.plan(path.nodes[:end], [made] if made else [], policy).chunks:
            written, cost = asyncio.run(_written(path, policy, summariser, chunk, memory, verdicts))
            read += cost
            if written.accepted:
                memory, summary = written.draught.memory, written.draught.summary
                made = _checkpoint(path, chunk, written.draught) or made
        if made:
            yield Made(path.covered(made.messages), made.covered_tokens, summary, read, verdicts)


def _checkpoint(path: Path, chunk: Chunk, draught: Draught) -> planning.Checkpoint | None:
    if chunk.covers is None:
        return None
    last = path.nodes[chunk.covers - 1]
    return planning.Checkpoint(1, last.id, last.digest, chunk.covers, path.tokens(chunk.covers), draught.size)


async def _written(
    path: Path, policy: Policy, summariser: Summariser, chunk: Chunk, memory: Memory, verdicts: Counter[str]
) -> tuple[Attempt, int]:
    """As a worker does: a reply, one more when it is rejected, else the built-in summariser's; and what an LLM read."""
    reads = [
        Read(path.steps[one.position.message][one.position.step], one.position.piece, one.pieces) for one in chunk.reads
    ]
    material = gather(memory, reads, policy, part=chunk.part, parts=chunk.parts)
    last = chunk.covers or chunk.reads[-1].position.message + 1
    covered = Covered(last, path.tokens(last), path.chat.messages[last - 1]["timestamp"])
    by_rule = summariser is BUILT_IN
    faults: tuple[str, ...] = ()
    read = 0
    for _ in range(0 if by_rule else writing.CALLS):
        attempt = await writing.attempt(asyncio.to_thread, summariser, material, policy, covered, faults)
        read += attempt.read
        if attempt.accepted:
            verdicts[attempt.draught.verdict.outcome] += 1
            return attempt, read
        faults = attempt.reasons
        verdicts.update(f"rejected: {_short(reason)}" for reason in faults)
    kind = "extractive" if by_rule else "degraded"
    verdicts[kind] += 1
    made = await writing.by_rule(asyncio.to_thread, BUILT_IN, material, policy, covered, kind, faults)
    return made, read


def _short(reason: str) -> str:
    """A reason without the words that it is about."""
    short = reason.partition(" in: ")[0].partition(": ")[0]
    return re.sub(r"^.* (?=does not occur|holds no more)", "a value ", short, flags=re.DOTALL)


def _cost(reading: Reading) -> int:
    wording = prompt.build(reading)
    return tokens.count(wording.system) + tokens.count(wording.user)


def _with(script: Script) -> Callable[[Path, int], Iterator[Made]]:
    return lambda path, limit: precis(path, policy_of(limit), Scripted(script, path.chat))


def _extractive(path: Path, limit: int) -> Iterator[Made]:
    return precis(path, policy_of(limit))


def _free(script: Script) -> Callable[[Path, int], Iterator[Made]]:
    """What most compactors do: the LLM rewrites its last summary with what is new. No pins, no gate, no ledger."""

    def run(path: Path, limit: int) -> Iterator[Made]:
        summary, start = "", 0
        for number, end in enumerate(path.ends, 1):
            new = tuple(excerpts((step, 0, 1) for some in path.steps[start : end - _TAIL] for step in some))
            reading = Reading(summary, new, limit)
            summary = rewrite(script, path.chat, summary, reading, limit, number)
            start = end - _TAIL
            yield Made(path.covered(start), path.tokens(start), summary, _cost(reading))

    return run


def _truncated(path: Path, limit: int) -> Iterator[Made]:
    return _newest(path, limit, lambda excerpt: excerpt.text)


def _masked(path: Path, limit: int) -> Iterator[Made]:
    return _newest(path, limit, lambda excerpt: _MASKED if excerpt.label == "tool result" else excerpt.text)


def _newest(path: Path, limit: int, text: Callable[[Excerpt], str]) -> Iterator[Made]:
    """The newest of the covered text that fits, whole lines."""
    for end in path.ends:
        covered = end - _TAIL
        kept: list[str] = []
        room = limit
        for excerpt in reversed(list(excerpts((step, 0, 1) for some in path.steps[:covered] for step in some))):
            for line in reversed(f"[{excerpt.label}]\n{text(excerpt)}".splitlines()):
                room -= tokens.count(line) + 1
                if room >= 0:
                    kept.append(line)
        yield Made(path.covered(covered), path.tokens(covered), "\n".join(reversed(kept)))


assert PERFECT in SCRIPTS
