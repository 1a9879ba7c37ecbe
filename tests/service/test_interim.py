"""A summary by code serves at once, until a summariser has read what it covers."""

from typing import Any

import pytest

from tests.fakes.scripted_llm import Fail
from tests.service.ageing import removed
from tests.service.desk import Desk, thinking, told
from tests.service.talk import Json, check_tree, rows, run_sql
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

WIDE: dict[str, Any] = {"summariser_window": 32_768}


async def without_text(desk: Desk) -> set[str]:
    found = await rows(desk.service.runtime, "select message_id from messages where body is null")
    return {one.message_id for one in found}


async def test_it_serves_while_the_summariser_thinks(desk: Desk) -> None:
    leaf = await desk.long_chat()
    served: list[Json] = []

    async def ask() -> None:
        served.append(await desk.talk.ask(leaf))

    await desk.compress(thinking(desk, ask, **WIDE))

    (meanwhile,) = served
    assert meanwhile["status"] == "ready"
    assert "Reading" in meanwhile["summary"]
    assert "Narrative" not in meanwhile["summary"]
    assert "Narrative" in (await desk.talk.ask(leaf))["summary"]


async def test_a_chat_that_goes_on_while_the_summariser_thinks_is_served_again(desk: Desk) -> None:
    leaf = await desk.long_chat()
    served: list[Json] = []

    async def go_on() -> None:
        first = await desk.talk.ask(leaf)
        grown = desk.talk.turns(9, leaf=leaf)
        await desk.talk.hand_over(grown)

        async def is_deeper() -> bool:
            served[:] = [await desk.talk.ask(grown)]
            return bool(served[0]["covered_messages"] > first["covered_messages"])

        await until(is_deeper)

    await desk.compress(thinking(desk, go_on, **WIDE))

    assert [one["status"] for one in served] == ["ready"]
    assert served[0]["tokens"]["after"] <= 6250, "the request is not too large with it"
    await check_tree(desk.service.runtime)


async def test_it_retires_when_the_summariser_has_read_the_same(desk: Desk) -> None:
    await desk.long_chat()

    await desk.drain(desk.bench(**WIDE))

    assert await desk.interim() == []
    (made,) = await desk.made()
    assert (made.kind, made.version, made.parent_id) == ("llm", 2, 0)
    await check_tree(desk.service.runtime)


async def test_it_is_made_without_a_call_when_there_is_little_to_read(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await desk.drain(desk.bench(**WIDE))
    calls = len(desk.llm.requests)

    grown = desk.talk.turns(5, leaf=leaf)
    await desk.talk.hand_over(grown)
    await desk.drain(desk.bench(**WIDE))

    assert len(desk.llm.requests) == calls
    (made,), (interim,) = await desk.made(), await desk.interim()
    assert interim.parent_id == made.id
    assert told(interim) == told(made)
    answer = await desk.talk.ask(grown)
    assert answer["checkpoint_id"] == interim.id
    assert answer["covered_messages"] > made.covered_messages


async def test_the_next_one_goes_on_from_it_and_takes_its_place(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await desk.drain(desk.bench(**WIDE))
    for turns in (5, 3):
        leaf = desk.talk.turns(turns, leaf=leaf)
        await desk.talk.hand_over(leaf)
        await desk.drain(desk.bench(**WIDE))

    (made,), (interim,) = await desk.made(), await desk.interim()
    assert interim.parent_id == made.id
    numbers = [str(one) for one in interim.talk]
    assert len(numbers) == len(set(numbers)), "each message was read once"
    await check_tree(desk.service.runtime)


async def test_a_branch_that_needs_it_keeps_it(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await desk.drain(desk.bench(**WIDE))
    trunk = desk.talk.turns(5, leaf=leaf)
    await desk.talk.hand_over(trunk)
    await desk.drain(desk.bench(**WIDE))
    (interim,) = await desk.interim()
    branch = desk.talk.turns(1, leaf=trunk, prefix="branch-")
    await desk.talk.hand_over(branch)
    assert (await desk.talk.ask(branch))["checkpoint_id"] == interim.id

    await desk.talk.hand_over(desk.talk.turns(12, leaf=trunk))
    await desk.drain(desk.bench(**WIDE))

    assert len(await desk.made()) > 1
    assert (await desk.talk.ask(branch))["checkpoint_id"] == interim.id
    await check_tree(desk.service.runtime)


async def test_retention_keeps_the_texts_that_the_summariser_has_not_read(desk: Desk) -> None:
    leaf = await desk.long_chat()
    desk.llm.default = Fail(400)
    await desk.compress(desk.bench(fallback_after=0, **WIDE))
    assert (await desk.talk.ask(leaf))["status"] == "ready"

    await removed(desk, keep_bodies="until_covered")

    assert await without_text(desk) == set()


async def test_one_that_an_operator_wants_stays(desk: Desk) -> None:
    leaf = await desk.long_chat()
    desk.llm.default = Fail(400)
    await desk.compress(desk.bench(fallback_after=0, **WIDE))
    (interim,) = await desk.interim()

    answer = await desk.service.as_operator.post(f"/v1/chats/chat-1/checkpoints/{interim.id}/serve")
    assert answer.is_success, answer.text
    desk.llm.default = Fail(400)
    await desk.talk.hand_over(desk.talk.turns(12, leaf=leaf))
    await run_sql(desk.service.runtime, "update chats set due_at = now()")
    await desk.compress(desk.bench(fallback_after=0, **WIDE))

    newest = (await desk.interim())[-1]
    assert newest.parent_id == interim.id
    assert interim.id in [one.id for one in await desk.interim()]


async def test_an_edit_above_its_boundary_takes_it_out_of_service(desk: Desk) -> None:
    leaf = await desk.long_chat()
    desk.llm.default = Fail(400)
    await desk.compress(desk.bench(fallback_after=0, **WIDE))
    desk.talk.edit("u2", "edited in place")

    await desk.talk.hand_over(leaf)

    assert (await desk.talk.ask(leaf))["status"] == "pending"
    await check_tree(desk.service.runtime)
