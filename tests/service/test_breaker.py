"""The circuit breaker of a summariser's endpoint: when it opens, what happens meanwhile, and how it closes."""

import asyncio
import json
from typing import Any

import pytest

from service.usecases.compress import compress
from tests.constants import NEVER
from tests.fakes.scripted_llm import Behaviour, Disconnect, Fail, Say
from tests.service.harness import Harness, long_chats
from tests.service.talk import Json, row, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONE_CALL: dict[str, Any] = {
    "summariser_window": 32_768,
    "fallback_after": NEVER,
}  # a chat is one call, and nobody stands in


async def shown(harness: Harness) -> Json:
    """The same as operators see it."""
    (endpoint,) = (await harness.service.as_operator.get("/v1/status")).json()["endpoints"]
    return dict(endpoint)


async def breaker(harness: Harness) -> Any:
    query = "select *, extract(epoch from open_until - changed_at) as pause, open_until > now() as open from endpoints"
    return await row(harness.runtime, query)


async def pause_is_over(harness: Harness) -> None:
    """The breaker is half-open, and every chat is due."""
    await run_sql(harness.runtime, "update endpoints set open_until = now() - interval '1 second'")
    await harness.due_now()


@pytest.mark.parametrize("behaviour", [Disconnect(), Fail(401)], ids=["a lost connection", "401"])
async def test_it_opens_after_so_many_calls_in_a_row_that_found_nobody_at_home(
    harness: Harness, behaviour: Behaviour
) -> None:
    await long_chats(harness, 3)
    harness.llm.default = behaviour
    worker_context = harness.worker_context(**ONE_CALL, breaker_after=2, breaker_pause=40)

    await harness.compress(worker_context)
    first = await breaker(harness)
    assert (first.failures, first.open) == (1, None)
    await harness.compress(worker_context)

    opened = await breaker(harness)
    assert (opened.failures, opened.open, opened.pause) == (2, True, 40)
    (failed,) = await rows(harness.runtime, "select distinct last_error from chats where last_error is not null")
    assert opened.last_error == failed.last_error
    assert await shown(harness) == {
        "name": f"openai:scripted {harness.llm.openai_url}",
        "state": "open",
        "failures": 2,
        "open_until": opened.open_until.isoformat().replace("+00:00", "Z"),
        "last_error": failed.last_error,
    }
    asked = len(harness.llm.requests)
    await harness.due_now()
    assert [await compress(worker_context) for _ in range(3)] == [None] * 3
    assert len(harness.llm.requests) == asked
    assert len(await harness.runs()) == 2


@pytest.mark.parametrize(("between", "opened"), [(Say(""), None), (Fail(400), True)], ids=["rejected", "400"])
async def test_any_answer_of_the_model_ends_the_row_of_failures(
    harness: Harness, between: Behaviour, opened: bool | None
) -> None:
    """An answer that the gate rejects is an answer; a refused request says nothing about the next chat's."""
    await long_chats(harness, 3)
    harness.llm.script(Fail(401), between, Fail(401))
    worker_context = harness.worker_context(**ONE_CALL, breaker_after=2)

    for _ in range(3):
        await harness.compress(worker_context)

    assert (await breaker(harness)).open is opened


async def opened(harness: Harness, **more: Any) -> None:
    """A call has failed, and the breaker is open."""
    await run_sql(harness.runtime, "delete from endpoints")
    harness.llm.script(Fail(401))
    await long_chats(harness, 1, prefix="opener")
    await harness.compress(harness.worker_context(**ONE_CALL, breaker_after=1, **more))
    assert (await breaker(harness)).open
    await run_sql(harness.runtime, "delete from chats where external_id like 'opener-%'")
    harness.llm.requests.clear()


async def test_two_endpoints_have_two_breakers(harness: Harness) -> None:
    await opened(harness)
    await long_chats(harness, 1)

    assert await compress(harness.worker_context(**ONE_CALL)) is None
    assert await compress(harness.worker_context("ollama", **ONE_CALL))

    (request,) = harness.llm.requests
    assert request.path == "/api/chat"
    assert request.body["options"]["num_ctx"] == 32_768, "or Ollama would cut the input in silence"
    found = await rows(harness.runtime, "select name, failures from endpoints order by name")
    assert [tuple(one) for one in found] == [
        (f"ollama:scripted {harness.llm.ollama_url}", 0),
        (f"openai:scripted {harness.llm.openai_url}", 1),
    ]


async def test_a_model_may_have_a_summariser_of_its_own(harness: Harness) -> None:
    await harness.long_chat()
    own = {harness.talk.model: {"summariser_model": "another"}, "model-2": {"summariser_model": "third"}}

    await harness.compress(harness.worker_context(summariser_window=32_768, models=json.dumps(own)))

    assert {request.body["model"] for request in harness.llm.requests} == {"another"}
    assert {made.summariser for made in await harness.made()} == {"openai:another"}


def gate(harness: Harness) -> asyncio.Event:
    """Calls wait until it is set."""
    opened = asyncio.Event()
    harness.llm.thinking = lambda _: opened.wait()
    return opened


async def test_when_the_pause_is_over_exactly_one_chat_probes(harness: Harness) -> None:
    await opened(harness)
    await long_chats(harness, 4)
    await pause_is_over(harness)
    go = gate(harness)
    worker_context = harness.worker_context(**ONE_CALL)

    probe = asyncio.create_task(compress(worker_context))
    await harness.llm.received(1)
    assert await asyncio.gather(*(compress(worker_context) for _ in range(5))) == [None] * 5
    go.set()
    await probe

    assert len(harness.llm.requests) == 1
    assert (await breaker(harness)).open_until is None


async def test_a_failed_probe_makes_the_pause_twice_as_long_up_to_five_minutes(harness: Harness) -> None:
    await opened(harness, breaker_pause=100)
    await long_chats(harness, 1)
    harness.llm.default = Fail(401)
    worker_context = harness.worker_context(**ONE_CALL, breaker_after=1, breaker_pause=100)
    pauses = [(await breaker(harness)).pause]

    for _ in range(3):
        await pause_is_over(harness)
        await harness.compress(worker_context)
        assert (await breaker(harness)).open
        pauses.append((await breaker(harness)).pause)

    assert pauses == [100, 200, 300, 300]
    assert len(harness.llm.requests) == 3
    await run_sql(harness.runtime, "update endpoints set failures = 2000")  # those of a week
    await pause_is_over(harness)
    await harness.compress(worker_context)
    assert (await breaker(harness)).pause == 300


async def test_a_probe_that_ends_without_a_verdict_leaves_the_next_chat_to_probe(harness: Harness) -> None:
    await opened(harness)
    await long_chats(harness, 2)
    await pause_is_over(harness)
    harness.llm.script(Fail(400))
    worker_context = harness.worker_context(**ONE_CALL)

    await harness.compress(worker_context)
    assert (await shown(harness))["state"] == "half-open"
    await harness.compress(worker_context)

    assert (await breaker(harness)).open_until is None


async def test_calls_that_were_under_way_when_it_opened_do_not_open_it_further(harness: Harness) -> None:
    await long_chats(harness, 4)
    go = gate(harness)
    harness.llm.default = Fail(401)
    worker_context = harness.worker_context(**ONE_CALL, breaker_after=2, breaker_pause=40)
    calls = [asyncio.create_task(compress(worker_context)) for _ in range(4)]
    await harness.llm.received(4)

    go.set()
    await asyncio.gather(*calls)

    after = await breaker(harness)
    assert (after.failures, after.open) == (2, True)
    (since,) = await rows(harness.runtime, "select min(ended_at) as ended from runs")
    assert (after.open_until - since.ended).total_seconds() < 60  # 40 s once, not 80


async def test_a_call_that_was_under_way_when_it_opened_and_succeeds_closes_it(harness: Harness) -> None:
    await long_chats(harness, 2)
    go = gate(harness)
    worker_context = harness.worker_context(**ONE_CALL, breaker_after=1)
    slow = asyncio.create_task(compress(worker_context))
    await harness.llm.received(1)
    harness.llm.thinking = None
    harness.llm.script(Fail(401))
    await harness.compress(worker_context)
    assert (await breaker(harness)).open

    go.set()
    await slow

    assert (await breaker(harness)).open_until is None
