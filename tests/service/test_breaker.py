"""The circuit breaker of a summariser's endpoint: when it opens, what happens meanwhile, and how it closes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from service.storage import work
from service.storage.database import connect
from service.usecases.compress import compress
from tests.fakes.scripted_llm import (
    Behaviour,
    CutOff,
    Disconnect,
    Empty,
    Fail,
    Garbage,
    Hang,
    OtherShape,
    RateLimit,
    Request,
    Say,
)
from tests.service.desk import Desk
from tests.service.talk import Talk, row, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONE_CALL: dict[str, Any] = {
    "summariser_window": 32_768,
    "fallback_after": 0,
}  # a chat is one call, and nobody stands in


async def breaker(desk: Desk) -> Any:
    """The one endpoint that was asked."""
    query = "select *, extract(epoch from open_until - changed_at) as pause, open_until > now() as open from endpoints"
    return await row(desk.service.runtime, query)


async def pause_is_over(desk: Desk) -> None:
    """The breaker is half-open, and every chat is due."""
    await run_sql(desk.service.runtime, "update endpoints set open_until = now() - interval '1 second'")
    await desk.due_now()


async def long_chats(
    desk: Desk, count: int, turns: int = 14, prefix: str = "chat", *, pressing: bool = False
) -> list[tuple[Talk, str]]:
    """So many due chats with the same messages; with 14 turns their requests are over `apply_at`, with 9 not yet.

    Unless `pressing`, what their next requests need was made before.
    """
    first = Talk(desk.service.as_filter)
    leaf = first.turns(turns)
    talks = [(Talk(desk.service.as_filter, f"{prefix}-{number}", first.rows), leaf) for number in range(count)]
    for talk, _ in talks:
        assert await talk.hand_over(leaf)
    if not pressing:
        await run_sql(desk.service.runtime, "update chats set pressing = false")
    return talks


# Opening


AWAY: dict[str, Behaviour] = {
    "a lost connection": Disconnect(),
    "no end of thinking": Hang(),
    "500": Fail(500),
    "503": Fail(503),
    "401": Fail(401),
    "404": Fail(404),
    "429": RateLimit(3600),
    "garbage": Garbage(),
    "another shape": OtherShape(),
}


@pytest.mark.parametrize("behaviour", AWAY.values(), ids=AWAY.keys())
async def test_it_opens_after_so_many_calls_in_a_row_that_found_nobody_at_home(
    desk: Desk, behaviour: Behaviour
) -> None:
    await long_chats(desk, 3)
    desk.llm.default = behaviour
    timeout = 0.1 if behaviour == Hang() else 20
    bench = desk.bench(**ONE_CALL, breaker_after=2, breaker_pause=40, summariser_timeout=timeout)

    await desk.compress(bench)
    first = await breaker(desk)
    assert (first.failures, first.open) == (1, None)
    await desk.compress(bench)

    opened = await breaker(desk)
    assert (opened.failures, opened.open, opened.pause) == (2, True, 40)
    (failed,) = await rows(desk.service.runtime, "select distinct last_error from chats where last_error is not null")
    assert opened.last_error == failed.last_error
    asked = len(desk.llm.requests)
    await desk.due_now()
    assert [await compress(bench) for _ in range(3)] == [None] * 3
    assert len(desk.llm.requests) == asked
    assert len(await desk.runs()) == 2


async def test_it_opens_when_nobody_listens(desk: Desk, unused_tcp_port: int) -> None:
    await desk.long_chat()
    bench = desk.bench(**ONE_CALL, breaker_after=1, summariser_url=f"http://127.0.0.1:{unused_tcp_port}/v1")

    await desk.compress(bench)

    assert (await breaker(desk)).open
    assert "Is the server up?" in (await breaker(desk)).last_error


ABOUT_THE_CHAT: dict[str, Behaviour] = {
    "400": Fail(400),
    "413": Fail(413),
    "422": Fail(422),
    "empty": Empty(),
    "cut off": CutOff("## Goal\n- The"),
    "too long": Say("word " * 2000),
}


@pytest.mark.parametrize("behaviour", ABOUT_THE_CHAT.values(), ids=ABOUT_THE_CHAT.keys())
async def test_an_answer_about_one_chats_request_does_not_open_it(desk: Desk, behaviour: Behaviour) -> None:
    await desk.long_chat()
    desk.llm.default = behaviour
    bench = desk.bench(**ONE_CALL, breaker_after=1)

    for _ in range(2):
        await desk.compress(bench)
        await desk.due_now()

    assert (await breaker(desk)).failures == 0
    assert (await breaker(desk)).open_until is None
    assert len(desk.llm.requests) == (2 if isinstance(behaviour, Fail) else 4)  # an unusable answer is repaired once


@pytest.mark.parametrize(
    ("between", "opened"), [(Say("Fine."), None), (Empty(), None), (Fail(400), True)], ids=["good", "rejected", "400"]
)
async def test_any_answer_of_the_model_ends_the_row_of_failures(
    desk: Desk, between: Behaviour, opened: bool | None
) -> None:
    """An answer that the gate rejects is an answer; a refused request says nothing about the next chat's."""
    await long_chats(desk, 3)
    desk.llm.script(Fail(401), between, Fail(401))
    bench = desk.bench(**ONE_CALL, breaker_after=2)

    for _ in range(3):
        await desk.compress(bench)

    assert (await breaker(desk)).open is opened


# Open


async def opened(desk: Desk, **more: Any) -> None:
    """A call has failed, and the breaker is open."""
    await run_sql(desk.service.runtime, "delete from endpoints")
    desk.llm.script(Fail(401))
    await long_chats(desk, 1, prefix="opener")
    await desk.compress(desk.bench(**ONE_CALL, breaker_after=1, **more))
    assert (await breaker(desk)).open
    await run_sql(desk.service.runtime, "delete from chats where external_id like 'opener-%'")
    desk.llm.requests.clear()


async def test_while_it_is_open_a_chat_whose_requests_are_too_large_gets_an_interim_summary_at_once(
    desk: Desk,
) -> None:
    await opened(desk)
    ((large, leaf),) = await long_chats(desk, 1, prefix="large", pressing=True)
    ((small, _),) = await long_chats(desk, 1, turns=9, prefix="small", pressing=True)
    bench = desk.bench(summariser_window=32_768)

    assert [await compress(bench) is not None for _ in range(3)] == [True, False, False]

    (made,) = await desk.interim()
    assert (made.kind, made.summariser) == ("interim", "extractive")
    assert (await large.ask(leaf))["status"] == "ready"
    still = await row(desk.service.runtime, "select * from chats where external_id = :name", name=small.chat)
    assert (still.pressing, still.attempts, still.last_error) == (False, 0, None)
    assert still.due_at
    assert desk.llm.requests == []
    assert (await breaker(desk)).open, "what stands in says nothing about the model"


async def test_a_chat_that_waits_becomes_pressing_when_it_grows(desk: Desk) -> None:
    await opened(desk)
    ((talk, leaf),) = await long_chats(desk, 1, turns=9)
    bench = desk.bench(summariser_window=32_768)
    assert await compress(bench) is None

    leaf = talk.turns(4, leaf=leaf)
    await talk.hand_over(leaf)

    assert await compress(bench)
    assert (await talk.ask(leaf))["status"] == "ready"
    assert len(await desk.interim()) == 1


async def test_an_interim_summary_is_made_once_and_the_chat_waits_on(desk: Desk) -> None:
    await opened(desk)
    ((talk, leaf),) = await long_chats(desk, 1, turns=14, pressing=True)

    assert [await compress(desk.bench(**ONE_CALL)) is not None for _ in range(2)] == [True, False]

    chat = await desk.chat()
    assert (chat.attempts, chat.last_error, chat.lease_token) == (0, None, None)
    assert chat.due_at
    assert (await desk.runs())[-1].outcome == "waits"
    assert (await talk.ask(leaf))["status"] == "ready"
    await run_sql(desk.service.runtime, "delete from endpoints")
    await desk.drain()
    assert {made.kind for made in await desk.made()} == {"llm"}
    assert await desk.interim() == []


async def test_what_is_handed_over_during_an_interim_round_is_looked_at_again(desk: Desk) -> None:
    await opened(desk)
    ((talk, leaf),) = await long_chats(desk, 1, turns=14, pressing=True)
    bench = desk.bench(**ONE_CALL)
    async with bench.engine.begin() as connection:
        lease = await work.claim(connection, "worker", bench.endpoint, bench.settings)
    assert lease
    assert lease.at_once

    await talk.hand_over(talk.turns(2, leaf=leaf))
    async with bench.engine.begin() as connection:
        await work.wait_on(connection, lease)

    assert (await desk.chat()).pressing


async def test_two_endpoints_have_two_breakers(desk: Desk) -> None:
    await opened(desk)
    await long_chats(desk, 1)

    assert await compress(desk.bench(**ONE_CALL)) is None
    assert await compress(desk.bench("ollama", **ONE_CALL))

    assert [request.path for request in desk.llm.requests] == ["/api/chat"]
    found = await rows(desk.service.runtime, "select name, failures from endpoints order by name")
    assert [tuple(one) for one in found] == [
        (f"ollama:scripted {desk.llm.ollama_url}", 0),
        (f"openai:scripted {desk.llm.openai_url}", 1),
    ]


async def test_the_fleet_shares_it(desk: Desk) -> None:
    await opened(desk)
    await long_chats(desk, 1)
    async with connect(desk.service.runtime.urls.database) as another:
        bench = desk.bench(**ONE_CALL)
        elsewhere = replace(bench, engine=another.engine, worker="elsewhere")

        assert await compress(elsewhere) is None
        assert desk.llm.requests == []
        await pause_is_over(desk)
        assert await compress(elsewhere)

    assert (await breaker(desk)).failures == 0


# Half-open


class Gate:
    """Calls wait until they are let go."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, _: Request) -> None:
        await self.open.wait()


async def test_when_the_pause_is_over_exactly_one_chat_probes(desk: Desk) -> None:
    await opened(desk)
    await long_chats(desk, 4)
    await pause_is_over(desk)
    desk.llm.thinking = gate = Gate()
    bench = desk.bench(**ONE_CALL)

    probe = asyncio.create_task(compress(bench))
    await desk.llm.received(1)
    assert await asyncio.gather(*(compress(bench) for _ in range(5))) == [None] * 5
    gate.open.set()
    await probe

    assert len(desk.llm.requests) == 1
    assert (await breaker(desk)).open_until is None


async def test_a_failed_probe_makes_the_pause_twice_as_long_up_to_five_minutes(desk: Desk) -> None:
    await opened(desk, breaker_pause=15)
    await long_chats(desk, 1)
    desk.llm.default = Fail(401)
    bench = desk.bench(**ONE_CALL, breaker_after=1, breaker_pause=15)
    pauses = [(await breaker(desk)).pause]

    for _ in range(6):
        await pause_is_over(desk)
        await desk.compress(bench)
        assert (await breaker(desk)).open
        pauses.append((await breaker(desk)).pause)

    assert pauses == [15, 30, 60, 120, 240, 300, 300]
    assert len(desk.llm.requests) == 6


async def test_a_successful_probe_closes_it_and_all_chats_catch_up(desk: Desk) -> None:
    await opened(desk)
    talks = await long_chats(desk, 4)
    bench = desk.bench(**ONE_CALL)
    assert await compress(bench) is None
    await pause_is_over(desk)

    assert await compress(bench)
    closed = await breaker(desk)
    assert (closed.failures, closed.open_until, closed.last_error) == (0, None, None)
    await asyncio.gather(*(compress(bench) for _ in range(3)))

    assert [(await talk.ask(leaf))["status"] for talk, leaf in talks] == ["ready"] * 4
    assert {made.kind for made in await desk.made()} == {"llm"}


async def test_after_it_closed_it_takes_as_many_failures_as_ever_to_open_it(desk: Desk) -> None:
    await opened(desk)
    await long_chats(desk, 3)
    await pause_is_over(desk)
    desk.llm.script(Say("Fine."), Fail(401))
    bench = desk.bench(**ONE_CALL, breaker_after=2)

    await desk.compress(bench)
    await desk.compress(bench)

    assert ((await breaker(desk)).failures, (await breaker(desk)).open) == (1, None)


async def test_a_probe_that_ends_without_a_verdict_leaves_the_next_chat_to_probe(desk: Desk) -> None:
    await opened(desk)
    await long_chats(desk, 2)
    await pause_is_over(desk)
    desk.llm.script(Fail(400))
    bench = desk.bench(**ONE_CALL)

    await desk.compress(bench)
    assert (await breaker(desk)).open is False  # half-open still
    await desk.compress(bench)

    assert (await breaker(desk)).open_until is None


async def test_calls_that_were_under_way_when_it_opened_do_not_open_it_further(desk: Desk) -> None:
    await long_chats(desk, 4)
    gate = Gate()
    desk.llm.thinking, desk.llm.default = gate, Fail(401)
    bench = desk.bench(**ONE_CALL, breaker_after=2, breaker_pause=40)
    calls = [asyncio.create_task(compress(bench)) for _ in range(4)]
    await desk.llm.received(4)

    gate.open.set()
    await asyncio.gather(*calls)

    after = await breaker(desk)
    assert (after.failures, after.open) == (2, True)
    (since,) = await rows(desk.service.runtime, "select min(ended_at) as ended from runs")
    assert (after.open_until - since.ended).total_seconds() < 60  # 40 s once, not 80


async def test_a_call_that_was_under_way_when_it_opened_and_succeeds_closes_it(desk: Desk) -> None:
    await long_chats(desk, 2)
    desk.llm.thinking = gate = Gate()
    bench = desk.bench(**ONE_CALL, breaker_after=1)
    slow = asyncio.create_task(compress(bench))
    await desk.llm.received(1)
    desk.llm.thinking = None
    desk.llm.script(Fail(401))
    await desk.compress(bench)
    assert (await breaker(desk)).open

    gate.open.set()
    await slow

    assert (await breaker(desk)).open_until is None
