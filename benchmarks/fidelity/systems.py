"""The systems side by side: Precis with a summariser of known quality, and simpler means as floors.

In: a chat, how many tokens a summary may have. Out: the summary of the last of five rounds. Precis runs the service's
own code; only the database and the network are left out.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.fidelity.generator import Chat
from benchmarks.fidelity.scripts import SCRIPTS, Script, Scripted
from benchmarks.played import Path, Played, every_round
from service.policy import Policy
from service.text import tokens

ROUNDS = 5
TAIL = 10  # messages
BUILT_IN = "built-in"
_SUMMARISER = 16_384  # tokens of its window
# Ends of sentences in scripts with and without blanks, and lines.
_SENTENCE = re.compile(r"[^.!?。！？\n]*[.!?。！？\n]+|[^.!?。！？\n]+\Z")


@dataclass(frozen=True, slots=True)
class Made:
    """A last summary; how much an LLM read for all rounds; what became of its replies."""

    summary: str
    read: int = 0
    outcomes: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class System:
    """A name, what it is, and how it makes the last summary of a chat within so many tokens."""

    name: str
    meaning: str
    run: Callable[[Chat, Path, int], Made]
    floor: bool = False


def systems() -> list[System]:
    """All of them, the built-in summariser first."""
    ours = [System(script.name, script.meaning, _with(script)) for script in SCRIPTS]
    floors = [
        System("newest text", "the newest text that fits", _floor(_lines), floor=True),
        System("user's sentences", "the user's sentences, newest first", _floor(_by_users), floor=True),
        System("first sentences", "the first sentence of each message, newest first", _floor(_firsts), floor=True),
    ]
    return [System(BUILT_IN, "no LLM", lambda _chat, path, room: _played(path, room)), *ours, *floors]


def covered(path: Path) -> int:
    """How many messages are covered in the last round."""
    return path.rounds(ROUNDS, TAIL)[-1]


def _with(script: Script) -> Callable[[Chat, Path, int], Made]:
    return lambda chat, path, room: _played(path, room, Scripted(script, chat))


def _played(path: Path, room: int, summariser: Scripted | None = None) -> Made:
    policy = every_round(Policy.sized(summariser_window=_SUMMARISER), TAIL)
    played = Played(path, summariser)

    async def play() -> None:
        for end in path.rounds(ROUNDS, TAIL):
            await played.round(end + TAIL, policy, room)

    asyncio.run(play())
    return Made(played.shown.text, played.read, played.outcomes, played.reasons)


def _floor(passages: Callable[[Path, int], Iterator[str]]) -> Callable[[Chat, Path, int], Made]:
    """Whole passages, newest first, until no more fit; shown in their order."""

    def run(_chat: Chat, path: Path, room: int) -> Made:
        kept: list[str] = []
        for passage in reversed(list(passages(path, covered(path)))):
            cost = tokens.count(passage) + 1
            if cost <= room:
                room -= cost
                kept.append(passage)
        return Made("\n".join(reversed(kept)))

    return run


def _lines(path: Path, messages: int) -> Iterator[str]:
    for step in (step for some in path.steps[:messages] for step in some):
        called = [f"{one.call.name}({one.call.arguments})\n{one.result.text}" for one in step.calls]
        for text in (step.text, *called):
            yield from (f"{step.role}: {line}" for line in text.splitlines() if line.strip())


def _by_users(path: Path, messages: int) -> Iterator[str]:
    for step in (step for some in path.steps[:messages] for step in some):
        if step.role == "user":
            yield from _sentences(step.text)


def _firsts(path: Path, messages: int) -> Iterator[str]:
    for some in path.steps[:messages]:
        told = next((sentence for step in some for sentence in _sentences(step.text)), None)
        if told:
            yield f"{some[0].role}: {told}"


def _sentences(text: str) -> Iterator[str]:
    yield from (found.strip() for found in _SENTENCE.findall(text) if found.strip())
