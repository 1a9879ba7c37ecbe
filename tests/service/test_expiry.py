"""A chat that was handed over for a limited time goes then, with all that is its own, and is never served after it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.storage import work
from tests.service.grown import by_the_model
from tests.service.harness import Harness
from tests.service.talk import UNKNOWN, Json, rows, run_sql
from workers.jobs import sweep

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = 3600


async def summarised(harness: Harness) -> str:
    """A chat with summaries that goes in an hour; returns its leaf."""
    leaf = await by_the_model(harness)
    await harness.talk.ingest(leaf, expires_in=HOUR)
    return leaf


async def expire(harness: Harness) -> None:
    """The hour is over."""
    await run_sql(harness.runtime, "update chats set expires_at = now() where expires_at is not null")


async def shown(harness: Harness) -> Json:
    chat: Json = (await harness.service.as_operator.get("/v1/chats/chat-1")).json()["chat"]
    return chat


async def swept(harness: Harness, **settings: Any) -> None:
    await sweep({"context": harness.worker_context(**settings), "queue": harness.runtime.queue})


async def test_each_hand_over_sets_when_the_chat_goes_and_one_without_a_time_keeps_it(harness: Harness) -> None:
    leaf = harness.talk.turns(2)
    await harness.talk.ingest(leaf, expires_in=HOUR)
    first = datetime.fromisoformat((await shown(harness))["expires_at"])
    assert timedelta(minutes=50) < first - datetime.now(UTC) < timedelta(minutes=70)

    grown = harness.talk.turns(1, leaf=leaf)
    await harness.talk.ingest(grown, after=leaf, expires_in=10 * HOUR)
    later = datetime.fromisoformat((await shown(harness))["expires_at"])
    assert later - first > timedelta(hours=8)

    await harness.talk.ingest(grown)
    assert (await shown(harness))["expires_at"] is None


async def test_an_expired_chat_is_unknown_before_any_sweep_comes_by(harness: Harness) -> None:
    leaf = await summarised(harness)
    branch = harness.talk.path(leaf)[24]["id"]
    assert (await harness.talk.ask(branch))["known"] == branch

    await expire(harness)

    assert await harness.talk.ask(leaf, user_id=harness.talk.user) == UNKNOWN
    assert await harness.talk.ask(branch, user_id=harness.talk.user) == UNKNOWN


async def test_a_sweep_removes_more_expired_chats_than_a_page_and_no_other(harness: Harness) -> None:
    leaf = harness.talk.turns(1)
    for chat, life in (("keeps", None), ("later", HOUR)):
        await harness.talk.put(harness.talk.transcript(leaf, expires_in=life), chat=chat)
    await run_sql(
        harness.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, expires_at)"
        " select tenant_id, 'gone-' || number, 'user', 'model', 8192, now() - interval '1 second'"
        " from chats, generate_series(1, 120) number where external_id = 'keeps'",
    )

    await swept(harness)

    left = await rows(harness.runtime, "select external_id from chats order by 1")
    assert [one.external_id for one in left] == ["keeps", "later"]


async def test_a_chat_that_is_handed_over_after_it_expired_begins_anew(harness: Harness) -> None:
    leaf = await summarised(harness)
    old = await harness.chat()
    await expire(harness)
    grown = harness.talk.turns(1, leaf=leaf)

    refused = await harness.talk.put(harness.talk.transcript(grown, after=leaf, expires_in=HOUR))
    assert refused.status_code == 409, "nothing of it is stored any more, as far as anybody can see"
    await harness.talk.ingest(grown, expires_in=HOUR)

    assert (await harness.chat()).id != old.id
    assert await harness.made() == []
    assert await harness.runs() == []
    assert (await harness.talk.ask(grown))["status"] == "pending"


async def test_no_model_reads_a_chat_that_has_expired(harness: Harness) -> None:
    await harness.talk.ingest(harness.talk.turns(20), expires_in=HOUR)
    await expire(harness)

    worker_context = harness.worker_context()
    async with worker_context.engine.begin() as connection:
        assert (
            await work.claim(connection, "worker", worker_context.endpoint, worker_context.settings.summariser_calls)
            is None
        )
    assert harness.llm.requests == []
