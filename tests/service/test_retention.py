"""What goes when it is old, what stays, and what happens when work needs a text that is gone."""

from typing import Any

import pytest

from service.errors import ConfigurationError
from service.processes.intake import TokenCountedMessage
from service.settings import load
from service.storage import maintenance
from service.usecases import ingest, read_messages
from service.usecases.retain import RemovedRows
from tests.service.ageing import age, removed, sql, without_text
from tests.service.grown import in_one_call
from tests.service.harness import Harness
from tests.service.talk import Talk, check_tree, row, rows
from workers.jobs import remove

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What goes


async def idle_chat(harness: Harness) -> str:
    """A chat without new messages for 40 days; returns its leaf."""
    leaf = await in_one_call(harness)
    await age(harness, "messages", "created_at")
    await age(harness, "chats", "updated_at")
    return leaf


async def test_all_texts_of_a_chat_go_when_it_is_idle_for_longer_than_the_setting(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_CHATS_PAGE", 1)  # and two pages find what one does
    await idle_chat(harness)
    another = Talk(harness.service.as_filter, "chat-3")
    await another.ingest(another.turns(1))
    await age(harness, "chats", "updated_at", "external_id = 'chat-3'")
    other = Talk(harness.service.as_filter, "chat-2")
    await other.ingest(other.turns(3))
    await age(harness, "messages", "created_at")

    assert await removed(harness, keep_bodies=41) == RemovedRows()
    assert await removed(harness, keep_bodies=39) == RemovedRows(bodies=42)

    left = await rows(harness.runtime, "select chat_id from messages where body is not null")
    assert len(left) == 6, "a chat that goes on has its texts"
    assert await removed(harness, keep_bodies=39) == RemovedRows()


async def test_a_retired_checkpoint_goes_when_none_that_grew_from_it_is_left(harness: Harness) -> None:
    leaf = harness.talk.turns(12, leaf=await in_one_call(harness))
    await harness.talk.ingest(leaf)
    await harness.drain()
    first, *deeper = await harness.made()
    assert deeper
    where = f"/v1/chats/chat-1/checkpoints/{first.id}"
    corrected = (await harness.service.as_operator.patch(where, json={"state": "Corrected."})).json()["checkpoint"]

    await age(harness, "checkpoints", "created_at", f"id < {corrected['id']}")
    assert await removed(harness, keep_bodies=30) == RemovedRows(), "it is kept from when it was put out of service"
    await age(harness, "checkpoints", "retired_at", f"id = {first.id}")
    assert await removed(harness, keep_bodies=30) == RemovedRows(), "a young one is stored as what it adds to that"

    await age(harness, "checkpoints", "retired_at")
    await age(harness, "checkpoints", "created_at", f"id = {corrected['id']}")
    stored = len(await rows(harness.runtime, "select 1 from checkpoints"))
    assert (await removed(harness, keep_bodies=30)).checkpoints == stored - 1
    assert [one.id for one in await harness.made()] == [corrected["id"]]
    await check_tree(harness.runtime)


@pytest.mark.parametrize(("kind", "column"), [("runs", "started_at"), ("audit", "at"), ("chats", "updated_at")])
async def test_old_rows_go_and_young_ones_stay(harness: Harness, kind: str, column: str) -> None:
    for number in range(4):
        talk = Talk(harness.service.as_filter, f"chat-{number}")
        await talk.ingest(talk.turns(1))
        await harness.service.as_operator.post(f"/v1/chats/chat-{number}/reset")
    await sql(harness, "insert into runs (tenant_id, chat_id, seq) select tenant_id, id, 1 from chats")
    first = (await row(harness.runtime, f"select min(id) as id from {kind}")).id
    await age(harness, kind, column, f"id in ({first}, {first + 2})")

    counts = await removed(harness, **{"keep_chats" if kind == "chats" else "keep_history": 30})

    assert getattr(counts, kind) == 2
    left = await rows(harness.runtime, f"select id from {kind} order by id")
    assert [one.id - first for one in left] == [1, 3]
    assert len(await rows(harness.runtime, "select 1 from messages")) == (4 if kind == "chats" else 8)


@pytest.mark.parametrize("setting", ["keep_chats", "keep_bodies"])
async def test_what_somebody_has_locked_is_left_for_the_next_time(harness: Harness, setting: str) -> None:
    await idle_chat(harness)

    async with harness.runtime.database.engine.begin() as connection:
        await connection.exec_driver_sql("select 1 from chats for update")
        assert await removed(harness, **{setting: 30}) == RemovedRows()  # and does not wait

    assert await removed(harness, **{setting: 30}) != RemovedRows()


# The hourly job and its settings


async def test_the_hourly_job_does_what_the_settings_say(harness: Harness) -> None:
    await idle_chat(harness)

    await remove({"context": harness.worker_context()})
    assert await without_text(harness) == harness.talk.rows.keys()


@pytest.mark.parametrize("value", ["0", "for ever"])
async def test_a_time_to_keep_that_means_nothing_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PRECIS_KEEP_BODIES: .*forever"):
        load(keep_bodies=value)


# The texts come with every request


async def test_work_that_misses_texts_is_no_failure_and_is_done_when_the_next_request_brings_them(
    harness: Harness,
) -> None:
    leaf = await harness.long_chat()
    await age(harness, "messages", "created_at")
    await age(harness, "chats", "updated_at")
    assert (await removed(harness, keep_bodies=30)).bodies == 40

    await harness.drain()

    chat, (run,) = await harness.chat(), await harness.runs(by_code=False)
    assert (chat.due_at, chat.code_at, chat.dead_at, chat.lease_token, chat.attempts) == (None, None, None, None, 0)
    assert run.outcome == "waits"
    assert run.reason.startswith("the text of ")
    assert "messages is not kept any more, the first is u0;" in run.reason
    assert harness.llm.requests == []

    grown = harness.talk.turns(1, leaf=leaf)
    question = harness.talk.rows[grown]["parentId"]

    assert (await harness.talk.ask(question))["status"] == "pending"
    await harness.service.stored()

    assert await without_text(harness) == set()
    assert await removed(harness, keep_bodies=30) == RemovedRows(), "a chat that goes on is young"
    await harness.drain()
    assert (await harness.talk.ask(question))["status"] == "ready"
    assert "Reading u0-0" in harness.llm.requests[0].text


async def test_a_branch_gets_its_texts_with_its_own_next_request(harness: Harness) -> None:
    leaf = harness.talk.turns(6)
    fork = harness.talk.path(leaf)[5]["id"]
    sibling = harness.talk.turns(3, leaf=fork, prefix="branch-")
    await harness.talk.ingest(leaf)
    await harness.talk.ingest(sibling)
    await sql(harness, "update messages set body = null")

    await harness.talk.ask(leaf)
    await harness.service.stored()
    lacking = await without_text(harness)
    assert lacking == {one["id"] for one in harness.talk.path(sibling)[6:]}

    await harness.talk.ask(sibling)
    await harness.service.stored()
    assert await without_text(harness) == set()


async def test_a_turn_below_a_deleted_text_is_refused_until_a_request_has_brought_it(harness: Harness) -> None:
    leaf = harness.talk.turns(3)
    await harness.talk.ingest(leaf)
    state = (await harness.talk.ask(leaf))["state"]
    await harness.service.stored()
    await sql(harness, "update messages set body = null")
    grown = harness.talk.turns(1, leaf=leaf)
    turn = harness.talk.turn(grown, after=leaf, above=state["above"])

    assert (await harness.talk.put(turn)).status_code == 409
    await harness.talk.ask(leaf)
    await harness.service.stored()
    assert (await harness.talk.put(turn)).status_code == 202
    assert await without_text(harness) == set()


async def test_a_turn_is_refused_if_the_texts_above_it_go_while_it_is_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = harness.talk.turns(3)
    await harness.talk.ingest(leaf)
    await age(harness, "messages", "created_at")
    await age(harness, "chats", "updated_at")

    async def removing(*given: Any) -> list[TokenCountedMessage]:
        await removed(harness, keep_bodies=30)
        return await read_messages.read_messages(*given)

    monkeypatch.setattr(ingest, "read_messages", removing)
    grown = harness.talk.turns(1, leaf=leaf)

    assert (await harness.talk.put(harness.talk.turn(grown, after=leaf))).status_code == 409
    assert len(await without_text(harness)) == 6
