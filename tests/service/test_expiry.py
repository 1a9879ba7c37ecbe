"""A chat that was handed over for a limited time goes then, with all that is its own, and is never served after it."""

import pytest

from service.storage import work
from tests.service.grown import by_the_model
from tests.service.harness import Harness
from tests.service.talk import UNKNOWN, run_sql

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


async def test_an_expired_chat_is_unknown_before_any_sweep_comes_by(harness: Harness) -> None:
    leaf = await summarised(harness)
    branch = harness.talk.path(leaf)[24]["id"]
    assert (await harness.talk.ask(branch))["known"] == branch

    await expire(harness)

    assert await harness.talk.ask(leaf, user_id=harness.talk.user) == UNKNOWN
    assert await harness.talk.ask(branch, user_id=harness.talk.user) == UNKNOWN


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
