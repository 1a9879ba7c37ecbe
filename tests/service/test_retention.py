"""What goes when it is old, what stays, and what happens when work needs a text that is gone."""

from typing import Any

import pytest

from service.errors import ConfigurationError
from service.settings import load
from service.storage import retention
from service.usecases.retain import Removed
from tests.service.ageing import FOREVER, age, removed, sql, summarised
from tests.service.desk import Desk, thinking
from tests.service.talk import Talk, check_tree, row, rows, tables
from workers.jobs import remove

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = Removed(bodies=0, checkpoints=0, runs=0, chats=0, audit=0)


async def without_text(desk: Desk) -> set[str]:
    """The messages of which the text is gone."""
    found = await rows(desk.service.runtime, "select message_id from messages where body is null")
    return {one.message_id for one in found}


async def covered(desk: Desk, leaf: str) -> list[str]:
    """The ids that the newest checkpoint covers."""
    newest = (await desk.made())[-1].covered_messages
    return [message["id"] for message in desk.talk.path(leaf)][:newest]


# What goes


async def test_a_text_goes_when_it_is_older_than_the_setting_and_a_young_one_stays(desk: Desk) -> None:
    await summarised(desk)
    await age(desk, "messages", "created_at", "depth <= 5")

    assert await removed(desk, keep_bodies=41) == NOTHING
    assert (await removed(desk, keep_bodies=39)).bodies == 5

    assert await without_text(desk) == {"u0", "a0", "u2", "a2", "u4"}


@pytest.mark.parametrize("busy", ["due_at = now() + interval '1 hour'", "lease_until = now() + interval '1 minute'"])
async def test_the_texts_of_a_chat_with_work_stay_until_it_is_done(desk: Desk, busy: str) -> None:
    await summarised(desk)
    await age(desk, "messages", "created_at")
    await sql(desk, f"update chats set {busy}")

    assert await removed(desk, keep_bodies=30) == NOTHING

    await sql(desk, "update chats set due_at = null, lease_until = now() - interval '1 second'")
    assert (await removed(desk, keep_bodies=30)).bodies == 28


async def test_an_edited_text_is_as_old_as_its_edit(desk: Desk) -> None:
    leaf = await summarised(desk)
    await age(desk, "messages", "created_at")
    desk.talk.edit(leaf, "edited today")
    await desk.talk.hand_over(leaf, after=desk.talk.rows[leaf]["parentId"])
    await sql(desk, "update chats set due_at = null")

    await removed(desk, keep_bodies=30)

    assert await without_text(desk) == desk.talk.rows.keys() - {leaf}


async def test_until_covered_drops_what_a_summary_covers_and_nothing_else(desk: Desk) -> None:
    leaf = await summarised(desk)

    dropped = await removed(desk, keep_bodies="until_covered")

    assert await without_text(desk) == set(await covered(desk, leaf))
    assert dropped.bodies == len(await covered(desk, leaf))
    assert await removed(desk, keep_bodies="until_covered") == NOTHING
    grown = desk.talk.turns(12, leaf=leaf)
    await desk.talk.hand_over(grown, after=leaf)
    await desk.drain()
    assert len(await desk.made()) > 1, "what was left is all that the next summary needs"
    assert (await removed(desk, keep_bodies="until_covered")).bodies > 0


async def test_until_covered_keeps_what_another_branch_has_not_covered(desk: Desk) -> None:
    leaf = desk.talk.turns(14)
    fork = desk.talk.path(leaf)[5]["id"]
    sibling = desk.talk.turns(1, leaf=fork, prefix="branch-")
    await desk.talk.hand_over(sibling)
    await desk.talk.hand_over(leaf)
    await desk.drain(desk.bench(summariser_window=32_768))

    await removed(desk, keep_bodies="until_covered")

    needed = {message["id"] for message in desk.talk.path(sibling)}
    assert await without_text(desk) == set(await covered(desk, leaf)) - needed
    assert await without_text(desk)

    other = desk.talk.turns(14, leaf=sibling, prefix="branch-")
    await desk.talk.hand_over(other, after=sibling)
    await desk.drain()
    await removed(desk, keep_bodies="until_covered")
    assert {message["id"] for message in desk.talk.path(fork)} <= await without_text(desk)


async def test_an_old_checkpoint_goes_when_no_message_leads_to_it(desk: Desk) -> None:
    leaf = desk.talk.turns(12, leaf=await summarised(desk))
    await desk.talk.hand_over(leaf)
    await desk.drain()
    before = await desk.made()
    assert len(before) > 1
    await age(desk, "checkpoints", "created_at")
    assert await removed(desk, keep_checkpoints=30) == NOTHING, "all of them are led to"

    desk.talk.edit(before[0].covered_until, "edited")  # only the first one's ancestors still fit
    await desk.talk.hand_over(leaf)
    await age(desk, "checkpoints", "created_at", f"id = {before[0].id}")
    await sql(desk, f"update checkpoints set created_at = now() where id = {before[-1].id}")
    assert await removed(desk, keep_checkpoints=30) == NOTHING, "a young one grew from them: an undone edit needs both"

    await desk.drain(desk.bench(summariser_window=32_768))
    anew = (await desk.made())[len(before) :]
    await age(desk, "checkpoints", "created_at")
    await age(desk, "checkpoints", "retired_at")
    stored = len(await rows(desk.service.runtime, "select 1 from checkpoints"))
    assert (await removed(desk, keep_checkpoints=30)).checkpoints == stored - len(anew)
    assert [one.id for one in await desk.made()] == [one.id for one in anew] != []
    await check_tree(desk.service.runtime)


async def test_a_checkpoint_on_a_branch_that_is_left_stays_while_the_branch_is_there(desk: Desk) -> None:
    leaf = await summarised(desk)
    elsewhere = desk.talk.turns(1, leaf="a0", prefix="branch-")
    await desk.talk.hand_over(elsewhere, after="a0")
    await age(desk, "checkpoints", "created_at")

    assert await removed(desk, keep_checkpoints=30) == NOTHING

    assert (await desk.talk.ask(leaf))["status"] == "ready"


@pytest.mark.parametrize(("kind", "column"), [("runs", "started_at"), ("audit", "at"), ("chats", "updated_at")])
async def test_old_rows_go_and_young_ones_stay(desk: Desk, kind: str, column: str) -> None:
    for number in range(4):
        talk = Talk(desk.service.as_filter, f"chat-{number}")
        await talk.hand_over(talk.turns(1))
        await desk.service.as_operator.post(f"/v1/chats/chat-{number}/reset")
    await sql(desk, "insert into runs (tenant_id, chat_id, seq) select tenant_id, id, 1 from chats")
    first = (await row(desk.service.runtime, f"select min(id) as id from {kind}")).id
    await age(desk, kind, column, f"id in ({first}, {first + 2})")

    keep: dict[str, Any] = {f"keep_{kind}": 30}
    counts = await removed(desk, **keep)

    assert getattr(counts, kind) == 2
    left = await rows(desk.service.runtime, f"select id from {kind} order by id")
    assert [one.id - first for one in left] == [1, 3]
    assert len(await rows(desk.service.runtime, "select 1 from messages")) == (4 if kind == "chats" else 8)


async def test_a_dry_run_counts_the_same_and_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAGE", 2)  # and many pages find what one does
    leaf = await summarised(desk)
    for where in ("/recompute", "/reset"):
        await desk.service.as_operator.post(f"/v1/chats/chat-1{where}")
        await desk.drain()
    desk.talk.edit("u0", "edited")
    await desk.talk.hand_over(leaf)
    await desk.drain()
    desk.talk.edit("u0", "edited again")
    await desk.talk.hand_over(leaf)
    await sql(desk, "update chats set due_at = null")
    times = {"messages": "created_at", "checkpoints": "created_at", "runs": "started_at", "audit": "at"}
    for table, column in (times | {"chats": "updated_at"}).items():
        await age(desk, table, column)
    keep: dict[str, Any] = dict.fromkeys(FOREVER, 30)
    before = await tables(desk.service.runtime)

    counted = await removed(desk, dry=True, **keep)

    assert await tables(desk.service.runtime) == before
    assert min(counted.bodies, counted.checkpoints, counted.runs, counted.chats, counted.audit) >= 1
    covered_too = await removed(desk, dry=True, keep_bodies="until_covered")
    assert covered_too.bodies == 0, "no checkpoint fits any more"
    assert await removed(desk, **keep) == counted
    assert await removed(desk, **keep) == NOTHING


async def test_forever_keeps_everything(desk: Desk) -> None:
    await summarised(desk)
    for table, column in [("messages", "created_at"), ("runs", "started_at"), ("chats", "updated_at")]:
        await age(desk, table, column)

    assert await removed(desk) == NOTHING


@pytest.mark.parametrize("keep", [{"keep_bodies": 30}, {"keep_chats": 30}, {"keep_bodies": "until_covered"}])
async def test_what_somebody_has_locked_is_left_for_the_next_time(desk: Desk, keep: dict[str, Any]) -> None:
    await summarised(desk)
    await age(desk, "messages", "created_at")
    await age(desk, "chats", "updated_at")

    async with desk.service.runtime.database.engine.begin() as connection:
        await connection.exec_driver_sql("select 1 from chats for update")
        assert await removed(desk, **keep) == NOTHING  # and does not wait

    assert await removed(desk, **keep) != NOTHING


# The hourly job and its settings


async def test_the_hourly_job_does_what_the_settings_say_and_nothing_when_it_is_off(desk: Desk) -> None:
    await summarised(desk)
    await age(desk, "messages", "created_at")

    await remove({"bench": desk.bench(retention=False)})
    assert await without_text(desk) == set()

    await remove({"bench": desk.bench()})
    assert await without_text(desk) == desk.talk.rows.keys()


@pytest.mark.parametrize("value", ["0", "-1", "for ever", "1.5", "", "36501", "until_covered"])
async def test_a_time_to_keep_that_means_nothing_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PRECIS_KEEP_CHATS: .*neither"):
        load(keep_chats=value)


# Work that needs what is gone


async def waiting(desk: Desk) -> str:
    """A chat whose work waits for texts; returns its leaf."""
    leaf = await desk.long_chat()
    await sql(desk, "update messages set body = null, created_at = now() - interval '40 days' where depth < 6")
    await desk.compress()
    return leaf


async def test_work_that_needs_texts_that_are_gone_waits_and_is_no_failure(desk: Desk) -> None:
    await waiting(desk)

    chat, (run,) = await desk.chat(), await desk.runs()
    assert (chat.due_at, chat.dead_at, chat.lease_token, chat.attempts) == (None, None, None, 0)
    assert run.outcome == "waits"
    assert "4 messages is not kept any more, the first is u0" in run.reason  # what the first call reads
    shown = (await desk.service.as_operator.get("/v1/chats/chat-1")).json()["chat"]
    assert shown["wants_bodies"] is True
    assert shown["last_error"] == run.reason
    assert desk.llm.requests == []


async def test_the_next_turn_brings_the_whole_path_and_the_work_is_done(desk: Desk) -> None:
    leaf = await waiting(desk)
    grown = desk.talk.turns(1, leaf=leaf)

    refused = await desk.talk.put(desk.talk.transcript(grown, after=leaf))
    assert refused.status_code == 409
    assert "send the whole path" in refused.json()["detail"]
    assert await desk.talk.hand_over(grown) is True

    assert await without_text(desk) == set()
    assert (await desk.chat()).wants_bodies is False
    old = "select 1 from messages where created_at < now() - interval '1 day'"
    assert await rows(desk.service.runtime, old) == [], "a text that came again is young"
    await desk.drain()
    assert (await desk.chat()).last_error is None
    assert (await desk.talk.ask(grown))["status"] == "ready"
    assert "Reading u0-0" in desk.llm.requests[0].text
    assert await desk.talk.hand_over(desk.talk.turns(1, leaf=grown), after=grown) is not None


async def test_a_whole_path_in_slices_brings_all_texts_again(desk: Desk) -> None:
    leaf = await waiting(desk)
    await sql(desk, "update messages set body = null")
    slices = [desk.talk.path(leaf)[place]["id"] for place in (3, 15)]

    assert await desk.talk.hand_over(slices[0]) is True, "due, however small the first slice"
    await desk.talk.hand_over(slices[1], after=slices[0])
    await desk.talk.hand_over(leaf, after=slices[1])

    assert await without_text(desk) == set()
    await desk.drain()
    assert (await desk.talk.ask(leaf))["status"] == "ready"


async def test_texts_that_came_while_the_work_missed_them_are_looked_for_again(desk: Desk) -> None:
    leaf = await desk.long_chat(24)
    half = desk.talk.path(leaf)[15]["id"]

    async def away_and_back() -> None:
        await sql(desk, "update messages set body = null where depth > 3")
        await desk.talk.hand_over(half)
        await desk.talk.hand_over(leaf, after=half)
        await sql(desk, "update messages set body = null where message_id = 'u8'")

    again = await desk.compress(thinking(desk, away_and_back))

    assert again == 0
    assert (await desk.chat()).wants_bodies is False
    await desk.compress()
    assert (await desk.chat()).wants_bodies is True


@pytest.mark.parametrize(("what", "answer"), [("reset", {"dropped": 2}), ("recompute", {"due": False})])
async def test_reset_and_recompute_of_a_chat_without_its_texts_wait_for_its_next_turn(
    desk: Desk, what: str, answer: dict[str, object]
) -> None:
    leaf = await summarised(desk)
    await removed(desk, keep_bodies="until_covered")

    response = await desk.service.as_operator.post(f"/v1/chats/chat-1/{what}")

    assert response.json() == answer | {"waits": True}
    assert (await desk.chat()).due_at is None
    grown = desk.talk.turns(1, leaf=leaf)
    assert (await desk.talk.put(desk.talk.transcript(grown, after=leaf))).status_code == 409
    assert await desk.talk.hand_over(grown) is True
    await desk.drain()
    assert (await desk.talk.ask(grown))["status"] == "ready"


async def test_a_reset_that_needs_no_text_that_is_gone_does_not_wait(desk: Desk) -> None:
    leaf = await summarised(desk)
    await removed(desk, keep_bodies="until_covered")
    kept = (await desk.made())[-1].id

    response = await desk.service.as_operator.post("/v1/chats/chat-1/reset", json={"keep": kept})

    assert response.json() == {"dropped": 1, "waits": False}  # the interim one of its first moments
    await desk.talk.hand_over(desk.talk.turns(1, leaf=leaf), after=leaf)
