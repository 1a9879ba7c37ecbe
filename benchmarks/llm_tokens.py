"""What the summariser reads in 300 turns, against what the chat has; and how often the injected prefix changes.

Each turn: ask for the context as the filter does, hand the turn over, do the work that is due with an LLM on loopback
that answers at once. What would be sent never exceeds the window, and the boundary never moves back: both are asserted.
Tokens are those of the prompts that the LLM got.

    python -m benchmarks.llm_tokens
"""

import itertools
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import accumulate

from benchmarks import stage
from benchmarks.conversation import Message, grown
from benchmarks.report import Figure, Report, command
from service.runtime import Runtime, Urls, running
from service.settings import load
from service.text import tokens
from service.transcript import ROOT, native_tokens
from tests.fakes.scripted_llm import Message as Prompted
from tests.fakes.scripted_llm import scripted_llm

_TURNS = 300
_ORDINARY = 300  # tokens of a state
_GATE = 5 / 4  # a state may be so much longer than it was asked for


@dataclass(frozen=True, slots=True)
class Scene:
    """A window, the least and the most tokens of a turn, and whether states are as large as may be."""

    name: str
    window: int
    turn: tuple[int, int]
    large: bool
    bound: float


SCENES = (
    Scene("128k", 131_072, (1000, 2500), False, 1.10),
    Scene("16k", 16_384, (100, 600), False, 1.20),
    Scene("16k_large", 16_384, (100, 600), True, 1.30),
)


@dataclass(slots=True)
class Play:
    """One chat as it grows. `shares` is tokens read ÷ tokens of the chat after each turn."""

    tenant: int
    path: list[Message] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # what the model is sent for each message
    prompts: list[int] = field(default_factory=list)  # tokens of each call's prompt
    shares: list[float] = field(default_factory=list)
    prefix: str = ""
    changes: int = 0
    covered: int = 0
    most_sent: int = 0


async def measure(_quick: bool) -> Report:
    """The whole benchmark; --quick changes nothing, because the shares depend on the length of the chat."""
    figures, facts = [], []
    async with stage.servers() as urls:
        for scene in SCENES:
            async with stage.database(urls) as own:
                play = await _play(scene, own)
            what = f"summariser tokens ÷ chat tokens, {_TURNS} turns, window {scene.name.replace('_', ', ')}"
            figures.append(Figure(f"llm_tokens_{scene.name}", what, play.shares[-1], scene.bound))
            figures.append(Figure(f"prefix_changes_{scene.name}", "changes of the injected prefix", play.changes))
            facts.append(
                f"{scene.name}: {sum(play.sizes):,} tokens of chat, {len(play.prompts)} calls that read"
                f" {sum(play.prompts):,} (at worst {max(play.shares):.2f} of the chat so far);"
                f" the largest request would have {play.most_sent:,} of {scene.window:,}"
            )
    return Report("What summaries cost", figures, facts)


async def _play(scene: Scene, urls: Urls) -> Play:
    rng = random.Random(scene.name)
    _, tenant = await stage.filter_key(urls.database)
    play = Play(tenant)
    async with AsyncExitStack() as stack:
        llm = await stack.enter_async_context(scripted_llm())
        settings = load(
            database_url=urls.database,
            redis_url=urls.redis,
            window=scene.window,
            summariser="openai",
            summariser_url=llm.openai_url,
            summariser_model="scripted",
        )
        limit = settings.policy(stage.MODEL, scene.window).state_tokens
        size = int(limit * _GATE) if scene.large else min(_ORDINARY, limit)

        def summarised(messages: list[Prompted]) -> str:
            play.prompts.append(sum(tokens.count(message["content"]) for message in messages))
            return _record(rng, messages[-1]["content"], size)

        llm.default = summarised
        runtime = await stack.enter_async_context(running(settings, urls))
        for question, answer in itertools.pairwise(itertools.islice(_growing(rng, scene), 2 * _TURNS)):
            if question.role == "user":
                await _turn(runtime, play, question, answer)
        await _nothing_failed(urls)
    return play


def _record(rng: random.Random, prompt: str, size: int) -> str:
    """A state of `size` tokens out of what the prompt shows: the gate lets nothing else pass."""
    lines = [line for line in dict.fromkeys(prompt.splitlines()) if len(line) > 40 and not line.startswith("=")]
    rng.shuffle(lines)
    costs = accumulate(tokens.count(line) + 3 for line in lines)
    return "\n".join(["## State", *(f"- {line}" for line, cost in zip(lines, costs, strict=True) if cost < size)])


def _growing(rng: random.Random, scene: Scene) -> Iterator[Message]:
    """Questions of a fifth of a turn, and their answers."""

    def sizes() -> Iterator[tuple[str, int]]:
        while True:
            size = rng.randint(*scene.turn)
            yield from (("user", size // 5), ("assistant", size - size // 5))

    return grown(rng, ROOT, sizes=sizes())


async def _turn(runtime: Runtime, play: Play, question: Message, answer: Message) -> None:
    """Ask, answer, hand over, do the work."""
    above = play.path[-1] if play.path else None
    _add(play, question)
    served = await _ask(runtime, play)
    _add(play, answer)
    accepted = await stage.ingest_into(runtime, play.tenant, "chat", above, [question, answer], served)
    if accepted.due:
        await stage.work(runtime)
    play.shares.append(sum(play.prompts) / sum(play.sizes))


def _add(play: Play, message: Message) -> None:
    play.path.append(message)
    play.sizes.append(native_tokens(message.stored))


async def _ask(runtime: Runtime, play: Play) -> int:
    """What the filter asks before the answer; returns the checkpoint that is served, 0 for none."""
    answer, summary = await stage.ask(runtime, play.tenant, "chat", play.path)
    covered = answer.covered_messages or 0
    assert covered >= play.covered, f"the boundary moved back from {play.covered} to {covered}"
    sent = sum(play.sizes[covered:]) + tokens.count(summary)
    assert sent <= runtime.settings.window, f"{sent} tokens would be sent, the window has {runtime.settings.window}"
    play.changes += summary != play.prefix
    play.prefix, play.covered, play.most_sent = summary, covered, max(play.most_sent, sent)
    return answer.checkpoint_id or 0


async def _nothing_failed(urls: Urls) -> None:
    async with stage.plain(urls.database) as connection:
        failed = await connection.fetch(
            "select chat_id, outcome from runs where outcome not in ('done', 'nothing to do')"
        )
    assert not failed, failed


if __name__ == "__main__":
    command(measure)
