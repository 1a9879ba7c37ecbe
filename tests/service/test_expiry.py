"""A chat that was handed over for a limited time goes then, with all that is its own, and is never served after it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.storage import work
from service.storage.tables import metadata
from tests.service.desk import Desk
from tests.service.talk import Json, rows, run_sql
from workers.jobs import sweep

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = 3600
OWN = [table.name for table in metadata.sorted_tables if "chat_id" in table.c]


async def summarised(desk: Desk, **more: Any) -> str:
    leaf = desk.talk.turns(14)
    await desk.talk.hand_over(leaf, **more)
    await desk.drain()
    assert (await desk.talk.ask(leaf))["status"] == "ready"
    return leaf


async def expire(desk: Desk) -> None:
    """The hour is over."""
    await run_sql(desk.service.runtime, "update chats set expires_at = now() where expires_at is not null")


async def shown(desk: Desk) -> Json:
    chat: Json = (await desk.service.as_operator.get("/v1/chats/chat-1")).json()["chat"]
    return chat


async def swept(desk: Desk, **settings: Any) -> None:
    await sweep({"bench": desk.bench(**settings), "doorbell": desk.service.runtime.doorbell})


async def own_rows(desk: Desk) -> dict[str, int]:
    return {name: len(await rows(desk.service.runtime, f"select 1 from {name}")) for name in ("chats", *OWN)}


async def test_each_hand_over_sets_when_the_chat_goes_and_one_without_a_time_keeps_it(desk: Desk) -> None:
    leaf = desk.talk.turns(2)
    await desk.talk.hand_over(leaf, expires_in=HOUR)
    first = datetime.fromisoformat((await shown(desk))["expires_at"])
    assert timedelta(minutes=50) < first - datetime.now(UTC) < timedelta(minutes=70)

    grown = desk.talk.turns(1, leaf=leaf)
    await desk.talk.hand_over(grown, after=leaf, expires_in=10 * HOUR)
    later = datetime.fromisoformat((await shown(desk))["expires_at"])
    assert later - first > timedelta(hours=8)

    await desk.talk.hand_over(grown)
    assert (await shown(desk))["expires_at"] is None


async def test_an_expired_chat_is_unknown_before_any_sweep_comes_by(desk: Desk) -> None:
    leaf = await summarised(desk, expires_in=HOUR)
    branch = desk.talk.path(leaf)[24]["id"]
    assert (await desk.talk.ask(branch))["known"] == branch

    await expire(desk)

    assert await desk.talk.ask(leaf, user_id=desk.talk.user) == {"status": "unknown"}
    assert await desk.talk.ask(branch, user_id=desk.talk.user) == {"status": "unknown"}


async def test_a_sweep_removes_expired_chats_with_all_that_is_their_own_also_without_retention(desk: Desk) -> None:
    leaf = await summarised(desk, expires_in=HOUR)
    await run_sql(
        desk.service.runtime,
        "insert into drafts (tenant_id, chat_id, base_id, message_id, digest, step, piece, pieces, ledger)"
        " select tenant_id, id, 0, 'u0', 'd', 0, 1, 2, '[]' from chats",
    )
    await swept(desk, retention=False)
    assert all((await own_rows(desk)).values()), "it has not expired yet, and has rows in every table"

    await expire(desk)
    await swept(desk, retention=False)

    assert not any((await own_rows(desk)).values())
    assert await desk.talk.ask(leaf) == {"status": "unknown"}


async def test_a_sweep_removes_more_expired_chats_than_a_page_and_no_other(desk: Desk) -> None:
    leaf = desk.talk.turns(1)
    for chat, life in (("keeps", None), ("later", HOUR)):
        await desk.talk.put(desk.talk.transcript(leaf, expires_in=life), chat=chat)
    await run_sql(
        desk.service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, expires_at)"
        " select tenant_id, 'gone-' || number, 'user', 'model', 8192, now() - interval '1 second'"
        " from chats, generate_series(1, 120) number where external_id = 'keeps'",
    )

    await swept(desk)

    left = await rows(desk.service.runtime, "select external_id from chats order by 1")
    assert [one.external_id for one in left] == ["keeps", "later"]


async def test_a_chat_that_is_handed_over_after_it_expired_begins_anew(desk: Desk) -> None:
    leaf = await summarised(desk, expires_in=HOUR)
    old = await desk.chat()
    await expire(desk)
    grown = desk.talk.turns(1, leaf=leaf)

    refused = await desk.talk.put(desk.talk.transcript(grown, after=leaf, expires_in=HOUR))
    assert refused.status_code == 409, "nothing of it is stored any more, as far as anybody can see"
    await desk.talk.hand_over(grown, expires_in=HOUR)

    assert (await desk.chat()).id != old.id
    assert await desk.made() == []
    assert await desk.runs() == []
    assert (await desk.talk.ask(grown))["status"] == "pending"


async def test_no_model_reads_a_chat_that_has_expired(desk: Desk) -> None:
    await desk.talk.hand_over(desk.talk.turns(14), expires_in=HOUR)
    await expire(desk)

    bench = desk.bench()
    async with bench.engine.begin() as connection:
        assert await work.claim(connection, "worker", bench.endpoint, bench.settings) is None
    assert desk.llm.requests == []


async def test_a_chat_that_expires_while_a_worker_works_on_it_leaves_no_row(desk: Desk) -> None:
    await desk.talk.hand_over(desk.talk.turns(14), expires_in=HOUR)

    async def over(_: object) -> None:
        await expire(desk)
        await swept(desk)

    desk.llm.thinking = over
    again = await desk.compress()

    assert not any((await own_rows(desk)).values())
    assert again in (None, 0)
