"""What the deletion of a chat takes with it, and that a chat for a limited time is never served after it."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from service.request.fit import LEFT_OUT
from service.storage import prompts
from service.storage.prompts import Basis, NewPrompt
from service.storage.tables import ChatKey, metadata
from service.usecases.compress import compress
from tests.service.grown import by_the_model, in_one_call
from tests.service.harness import Harness, thinking
from tests.service.talk import Talk, rows, run_sql
from workers.jobs import sweep

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = [table.name for table in metadata.sorted_tables if "chat_id" in table.c]


async def own_rows(harness: Harness, chat: int) -> dict[str, int]:
    runtime = harness.runtime
    return {name: len(await rows(runtime, f"select 1 from {name} where chat_id = :chat", chat=chat)) for name in OWN}


async def full_chat(harness: Harness) -> int:
    """A chat with rows in every table of its own, and due work; returns its id."""
    await harness.talk.ingest(harness.talk.turns(12, leaf=await in_one_call(harness)))
    identity: int = (await harness.chat()).id
    key = ChatKey((await harness.chat()).tenant_id, identity)
    basis = Basis("leaf", "model-1", "model-1", 8192, 1.0, 0)
    async with harness.runtime.database.engine.begin() as connection:
        await prompts.store_prompt(connection, key, NewPrompt("digest", "model-1", basis, b"\x01form"))
    assert all((await own_rows(harness, identity)).values()), "a new table needs a row here"
    return identity


async def delete(client: httpx.AsyncClient) -> None:
    assert (await client.delete("/v1/chats/chat-1")).status_code == 204


async def over(harness: Harness) -> None:
    await run_sql(harness.runtime, "update chats set expires_at = now() where external_id = 'chat-1'")


async def expire(harness: Harness) -> None:
    await over(harness)
    await sweep({"context": harness.worker_context(), "queue": harness.runtime.queue})


@pytest.mark.parametrize("way", [lambda harness: delete(harness.service.as_operator), expire], ids=["asked", "expired"])
async def test_a_deletion_leaves_no_row_in_any_table_that_has_rows_of_chats(
    harness: Harness, way: Callable[[Harness], Awaitable[None]]
) -> None:
    chat = await full_chat(harness)
    other = Talk(harness.service.as_filter, "other")
    await other.ingest(other.turns(2))

    await way(harness)

    assert not any((await own_rows(harness, chat)).values())
    assert [one.external_id for one in await rows(harness.runtime, "select * from chats")] == ["other"]


async def test_what_a_worker_does_with_a_chat_that_is_deleted_meanwhile_leaves_no_row(harness: Harness) -> None:
    chat = await full_chat(harness)

    again = await harness.compress(thinking(harness, lambda: delete(harness.service.as_operator)))

    assert not any((await own_rows(harness, chat)).values())
    assert await rows(harness.runtime, "select 1 from chats") == []
    assert again in (None, 0)


async def summarised(harness: Harness) -> str:
    """A chat with summaries that goes in an hour; returns its leaf."""
    leaf = await by_the_model(harness)
    await harness.talk.ingest(leaf, expires_in=3600)
    return leaf


async def test_an_expired_chat_serves_nothing_before_any_sweep_comes_by(harness: Harness) -> None:
    leaf = await summarised(harness)
    branch = harness.talk.path(leaf)[24]["id"]
    for asked in (leaf, branch):
        assert (await harness.talk.ask(asked, keep_hours=1))["status"] == "ready"

    await over(harness)

    for asked in (leaf, branch):
        assert (await harness.talk.ask(asked, keep_hours=1))["status"] == "pending"
    await harness.service.stored()
    assert await harness.made() == []


async def test_a_chat_that_is_handed_over_after_it_expired_begins_anew(harness: Harness) -> None:
    leaf = await summarised(harness)
    old = await harness.chat()
    await over(harness)
    grown = harness.talk.turns(1, leaf=leaf)

    refused = await harness.talk.put(harness.talk.turn(grown, after=leaf, expires_in=3600))
    assert refused.status_code == 409, "nothing of it is stored any more, as far as anybody can see"
    await harness.talk.ingest(grown, expires_in=3600)

    assert (await harness.chat()).id != old.id
    assert await harness.made() == []
    assert await harness.runs() == []
    assert (await harness.talk.ask(grown))["status"] == "pending"


async def test_no_model_reads_a_chat_that_has_expired(harness: Harness) -> None:
    await harness.talk.ingest(harness.talk.turns(20), expires_in=3600)
    await over(harness)

    assert await compress(harness.worker_context()) is None
    assert harness.llm.requests == []
    assert await harness.runs() == []


@pytest.mark.parametrize("chat", ["", "temporary:1"])
async def test_an_unsaved_chat_is_not_kept_for_ever_after_its_host_has_cut_it(harness: Harness, chat: str) -> None:
    talk = harness.talk
    question = talk.add("q", None, content="And then?")
    messages = [{"role": "system", "content": LEFT_OUT}, *talk.native(question)[1:]]

    asked = await talk.ask(question, chat=chat, messages=messages)
    await talk.finish(asked, talk.add("a", question, "assistant"))

    assert (await rows(harness.runtime, "select expires_at from chats"))[0].expires_at
