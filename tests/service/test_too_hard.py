"""Texts that are too hard to read: the chat gets its summary all the same, and nobody else waits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import pytest

from service.errors import TextTooHard
from service.processes import Texts, intake, materials
from service.processes.intake import RawMessage
from service.settings import Settings
from service.storage import codec
from service.summarising.summarise import Candidate
from service.usecases.compress import WorkerContext
from service.usecases.read_messages import read_messages
from tests.conftest import TEXTS, serving
from tests.service.harness import Harness
from tests.service.talk import check_tree, row
from tests.waiting import until

P = ParamSpec("P")
T = TypeVar("T")
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Hard(Texts):
    """The pool of all tests, but what `too_hard` holds for is too hard. `tests/texts` has the real thing."""

    too_hard: Callable[[Callable[..., object], tuple[Any, ...]], bool]

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.too_hard(function, args):
            raise TextTooHard("crash", "the process ended with status -9")
        return await TEXTS.run(function, *args, **kwargs)


def built_in(harness: Harness, texts: Texts, **more: Any) -> WorkerContext:
    """A worker without a model."""
    worker_context = harness.worker_context(**more)
    return replace(worker_context, summariser=None, texts=texts)


async def retries(harness: Harness, worker_context: WorkerContext) -> None:
    """Rounds, back-offs skipped, until nothing is due."""
    for _ in range(60):
        if (await harness.chat()).due_at is None:
            return
        await harness.due_now()
        await harness.compress(worker_context)
    raise AssertionError("work is still due")


@pytest.mark.parametrize(("hard", "at"), [("a2", 0), ("a6", 1)])
async def test_the_round_that_meets_a_hard_text_gives_its_chunk_by_size_and_reads_the_others(
    harness: Harness, hard: str, at: int
) -> None:
    leaf = await harness.long_chat(20)
    stored = await row(harness.runtime, "select message_id from messages where host_id = :id", id=hard)
    texts = Hard(lambda function, args: function is materials.gather_material and stored.message_id in args[0])

    await harness.compress(built_in(harness, texts))

    chat = await harness.chat()
    assert (chat.dead_at, chat.last_error) == (None, None)
    assert [run.outcome for run in await harness.runs()] == ["done"]
    made = await harness.made()
    expected = ["extractive"] * len(made)
    expected[at] = "degraded"
    assert [one.kind for one in made] == expected
    assert len(made) > 2, "what follows is read as usual"
    assert "tokens in all, too hard to read" in made[at].summary
    (why,) = made[at].verdict["reasons"]
    assert why == "a text is too hard (crash): the process ended with status -9"
    assert ("pump" in made[at].summary) == (at > 0), "what was summarised before stays"
    assert (await harness.talk.ask(leaf))["status"] == "ready"
    await check_tree(harness.runtime)


async def test_a_message_too_hard_to_store_is_stored_as_a_note_of_its_size(harness: Harness) -> None:
    runtime, serving = harness.runtime, harness.service.app.state.serving
    hard = Hard(lambda function, args: function is intake.parse_messages and "secret" in str(args))
    object.__setattr__(serving, "texts", hard)
    try:
        talk = harness.talk
        leaf = talk.add("hard", talk.add("q", None), "assistant", "secret " * 30_000)
        leaf = talk.turns(20, leaf=leaf)
        assert await talk.ingest(leaf)
        assert await talk.ingest(leaf), "the same again changes nothing"
    finally:
        object.__setattr__(serving, "texts", runtime.texts)

    stored = await row(runtime, "select * from messages where host_id = 'hard'")
    assert stored.tokens > 210_000 // 5
    assert len(stored.body) < 300
    await retries(harness, built_in(harness, runtime.texts))
    answer = await talk.ask(leaf)
    assert answer["status"] == "ready"
    assert "secret" not in answer["summary"]
    await check_tree(runtime)


async def test_short_messages_are_read_however_many_were_too_hard() -> None:
    long, short = (b'{"role": "user", "content": "%s"}' % text for text in (b"secret " * 10_000, b"It hums."))

    *_, last = await read_messages(Hard(lambda *_: True), [RawMessage(one) for one in (long, long, short)], True)

    assert codec.unpack(last.body)["content"] == "It hums."


@dataclass
class Worthless(Texts):
    """The pool of all tests, but the first summaries that code writes save nothing."""

    most: int
    composed: int = 0

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = await TEXTS.run(function, *args, **kwargs)
        if isinstance(result, Candidate):
            self.composed += 1
            if self.composed <= self.most:
                result = replace(result, no_gain="not smaller")
        return result


async def test_a_summary_that_saves_nothing_is_not_published_and_the_next_one_stands_for_both(harness: Harness) -> None:
    leaf = await harness.long_chat(20)

    await retries(harness, built_in(harness, Worthless(1)))

    made = await harness.made()
    run = (await harness.runs())[0]
    assert (run.outcome, run.calls) == ("done", 0), "code makes no call"
    assert made[0].covered_messages == 8, "each call reads two turns"
    assert "Reading u0-0" in str(made[0].talk), "what the first one read is in it"
    assert "Reading u0-0" in made[0].summary
    assert (await harness.talk.ask(leaf))["status"] == "ready"


@pytest.mark.parametrize("who", ["a model", "code"])
async def test_a_round_that_is_not_worth_publishing_is_no_failure_and_waits_for_the_next_turn(
    harness: Harness, who: str
) -> None:
    leaf = await harness.long_chat(20)
    worker_context = built_in(harness, texts := Worthless(1000), max_attempts=1)
    if who == "a model":
        worker_context = replace(worker_context, summariser=harness.worker_context().summariser)

    assert await harness.compress(worker_context) is None

    chat, calls = await harness.chat(), texts.composed
    assert (chat.due_at, chat.dead_at, chat.attempts, chat.last_error) == (None, None, 0, None)
    left = [("nothing to do", "not smaller")] if who == "a model" else []
    assert [(run.outcome, run.reason) for run in await harness.runs()] == left, "a call is on record"
    assert await harness.interim() == []
    assert await harness.compress(worker_context) is None
    assert texts.composed == calls, "no call is made again"
    assert await harness.talk.ingest(harness.talk.turns(1, leaf=leaf))
    texts.most = 0
    await retries(harness, worker_context)
    assert await harness.made()


@pytest.mark.asyncio(loop_scope="function")
async def test_a_text_process_for_requests_starts_with_the_service_and_rounds_have_their_own(
    settings: Settings,
) -> None:
    async with serving(settings, None) as service:
        texts, texts_of_rounds = service.runtime.texts, service.runtime.worker_context.texts
        await until(lambda: bool(texts._processes))
        assert not texts_of_rounds._processes
