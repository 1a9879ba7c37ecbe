"""What goes when it is old, what stays, and what happens when work needs a text that is gone."""

import pytest

from service.errors import ConfigurationError
from service.settings import load
from service.storage import retention, work
from service.usecases.compress.claims import claim_chat
from service.usecases.retain import Removed
from tests.service.ageing import age, removed, sql, without_text
from tests.service.grown import in_one_call
from tests.service.harness import Harness
from tests.service.talk import Talk, check_tree, row, rows
from workers.jobs import remove

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = Removed(bodies=0, checkpoints=0, runs=0, chats=0, audit=0)


async def covered(harness: Harness, leaf: str) -> list[str]:
    """The ids that the newest checkpoint covers."""
    newest = (await harness.made())[-1].covered_messages
    return [message["id"] for message in harness.talk.path(leaf)][:newest]


# What goes


async def test_a_text_goes_when_it_is_older_than_the_setting_and_a_young_one_stays(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAGE", 2)  # and three pages find what one does
    await in_one_call(harness)
    await age(harness, "messages", "created_at", "depth <= 5")

    assert await removed(harness, keep_bodies=41) == NOTHING
    assert (await removed(harness, keep_bodies=39)).bodies == 5

    assert await without_text(harness) == {"u0", "a0", "u2", "a2", "u4"}


@pytest.mark.parametrize("busy", ["due_at = now() + interval '1 hour'", "lease_until = now() + interval '1 minute'"])
async def test_the_texts_of_a_chat_with_work_stay_until_it_is_done(harness: Harness, busy: str) -> None:
    await in_one_call(harness)
    await age(harness, "messages", "created_at")
    await sql(harness, f"update chats set {busy}")

    assert await removed(harness, keep_bodies=30) == NOTHING

    await sql(harness, "update chats set due_at = null, lease_until = now() - interval '1 second'")
    assert (await removed(harness, keep_bodies=30)).bodies == 40


async def test_until_covered_drops_what_a_summary_covers_and_nothing_else(harness: Harness) -> None:
    leaf = await in_one_call(harness)

    dropped = await removed(harness, keep_bodies="until_covered")

    assert await without_text(harness) == set(await covered(harness, leaf))
    assert dropped.bodies == len(await covered(harness, leaf))
    assert await removed(harness, keep_bodies="until_covered") == NOTHING
    grown = harness.talk.turns(12, leaf=leaf)
    await harness.talk.ingest(grown, after=leaf)
    await harness.drain()
    assert len(await harness.made()) > 1, "what was left is all that the next summary needs"
    assert (await removed(harness, keep_bodies="until_covered")).bodies > 0


async def test_until_covered_keeps_what_another_branch_has_not_covered(harness: Harness) -> None:
    leaf = harness.talk.turns(20)
    fork = harness.talk.path(leaf)[5]["id"]
    sibling = harness.talk.turns(1, leaf=fork, prefix="branch-")
    await harness.talk.ingest(sibling)
    await harness.talk.ingest(leaf)
    await harness.drain(harness.worker_context(summariser_window=32_768))

    await removed(harness, keep_bodies="until_covered")

    needed = {message["id"] for message in harness.talk.path(sibling)}
    assert await without_text(harness) == set(await covered(harness, leaf)) - needed
    assert await without_text(harness)

    other = harness.talk.turns(20, leaf=sibling, prefix="branch-")
    await harness.talk.ingest(other, after=sibling)
    await harness.drain()
    await removed(harness, keep_bodies="until_covered")
    assert {message["id"] for message in harness.talk.path(fork)} <= await without_text(harness)


async def test_an_old_checkpoint_goes_when_no_message_leads_to_it(harness: Harness) -> None:
    leaf = harness.talk.turns(12, leaf=await in_one_call(harness))
    await harness.talk.ingest(leaf)
    await harness.drain()
    before = await harness.made()
    assert len(before) > 1
    await age(harness, "checkpoints", "created_at")
    assert await removed(harness, keep_checkpoints=30) == NOTHING, "all of them are led to"

    where = f"/v1/chats/chat-1/checkpoints/{before[0].id}"
    corrected = (await harness.service.as_operator.patch(where, json={"state": "Corrected."})).json()["checkpoint"]
    await age(harness, "checkpoints", "retired_at", f"id = {before[0].id}")
    assert await removed(harness, keep_checkpoints=30) == NOTHING, (
        "a young one grew from it, and is stored as what it adds to that"
    )

    await age(harness, "checkpoints", "created_at")
    await age(harness, "checkpoints", "retired_at")
    stored = len(await rows(harness.runtime, "select 1 from checkpoints"))
    assert (await removed(harness, keep_checkpoints=30)).checkpoints == stored - 1
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

    counts = await removed(harness, **{f"keep_{kind}": 30})

    assert getattr(counts, kind) == 2
    left = await rows(harness.runtime, f"select id from {kind} order by id")
    assert [one.id - first for one in left] == [1, 3]
    assert len(await rows(harness.runtime, "select 1 from messages")) == (4 if kind == "chats" else 8)


@pytest.mark.parametrize("keep", [{"keep_chats": 30}, {"keep_bodies": "until_covered"}])
async def test_what_somebody_has_locked_is_left_for_the_next_time(harness: Harness, keep: dict[str, int | str]) -> None:
    await in_one_call(harness)
    await age(harness, "messages", "created_at")
    await age(harness, "chats", "updated_at")

    async with harness.runtime.database.engine.begin() as connection:
        await connection.exec_driver_sql("select 1 from chats for update")
        assert await removed(harness, **keep) == NOTHING  # and does not wait

    assert await removed(harness, **keep) != NOTHING


# The hourly job and its settings


async def test_the_hourly_job_does_what_the_settings_say(harness: Harness) -> None:
    await in_one_call(harness)
    await age(harness, "messages", "created_at")

    await remove({"context": harness.worker_context()})
    assert await without_text(harness) == harness.talk.rows.keys()


@pytest.mark.parametrize("value", ["0", "for ever"])
async def test_a_time_to_keep_that_means_nothing_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PRECIS_KEEP_CHATS: .*forever"):
        load(keep_chats=value)


# Work that needs what is gone


async def waiting(harness: Harness) -> str:
    """A chat whose work waits for texts; returns its leaf."""
    leaf = await harness.long_chat()
    await sql(harness, "update messages set body = null, created_at = now() - interval '40 days' where depth < 6")
    await harness.compress()
    return leaf


async def test_work_that_needs_texts_that_are_gone_waits_and_is_no_failure(harness: Harness) -> None:
    await waiting(harness)

    chat, (run,) = await harness.chat(), await harness.runs(by_code=False)
    assert (chat.due_at, chat.dead_at, chat.lease_token, chat.attempts) == (None, None, None, 0)
    assert run.outcome == "waits"
    assert "messages is not kept any more, the first is u0;" in run.reason
    shown = (await harness.service.as_operator.get("/v1/chats/chat-1")).json()["chat"]
    assert (shown["wants_bodies"], shown["last_error"]) == (True, run.reason)
    assert harness.llm.requests == []


async def test_the_next_request_brings_the_texts_and_the_work_is_done(harness: Harness) -> None:
    leaf = await waiting(harness)
    grown = harness.talk.turns(1, leaf=leaf)
    question = harness.talk.rows[grown]["parentId"]

    assert (await harness.talk.ask(question))["status"] == "pending"
    await harness.service.stored()

    assert await without_text(harness) == set()
    assert (await harness.chat()).wants_bodies is False
    old = "select 1 from messages where created_at < now() - interval '1 day'"
    assert await rows(harness.runtime, old) == [], "a text that came again is young"
    await harness.drain()
    assert (await harness.chat()).last_error is None
    assert (await harness.talk.ask(question))["status"] == "ready"
    assert "Reading u0-0" in harness.llm.requests[0].text


async def test_texts_that_came_while_the_work_missed_them_are_looked_for_again(harness: Harness) -> None:
    leaf = await harness.long_chat(24)
    half = harness.talk.path(leaf)[15]["id"]

    await sql(harness, "update messages set body = null where depth > 3")
    worker_context = harness.worker_context()
    await harness.by_code(worker_context)
    claimed = await claim_chat(worker_context)
    assert claimed
    await harness.talk.ingest(half)
    await harness.talk.ingest(leaf, after=half)
    await sql(harness, "update messages set body = null where host_id = 'u8'")
    async with worker_context.engine.begin() as connection:
        again = await work.wait_for_bodies(connection, claimed.lease, "a text is missing")

    assert again == 0
    assert (await harness.chat()).wants_bodies is False
    await harness.compress()
    assert (await harness.chat()).wants_bodies is True
