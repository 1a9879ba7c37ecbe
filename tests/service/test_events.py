"""What Open WebUI says it has deleted or edited goes, with every summary that has read it; everything else stays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import Service, drain
from tests.fakes.scripted_llm import Say
from tests.service.events import fingerprints, tell
from tests.service.grown import summarised
from tests.service.harness import Harness
from tests.service.talk import Talk, check_tree, row, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "the secret word is mandragora"


async def stored(service: Service, chat: str = "chat-1") -> set[str]:
    """Ids of the messages of a chat."""
    query = "select message_id from messages m join chats c on c.id = m.chat_id where c.external_id = :chat"
    return {one.message_id for one in await rows(service.runtime, query, chat=chat)}


async def boundaries(service: Service) -> list[str]:
    return [one.covered_until for one in await rows(service.runtime, "select * from checkpoints order by id")]


async def audited(service: Service) -> list[Any]:
    return list(await rows(service.runtime, "select action, chat, actor, details from audit order by id"))


# Chats


@pytest.mark.parametrize("kind", ["chat.deleted_all", "user.deleted"])
async def test_all_chats_of_a_user_go_and_nobody_elses(service: Service, kind: str) -> None:
    for number, user in enumerate(["user-1", "user-1", "user-2"]):
        mine = Talk(service.as_filter, f"chat-{number}", user=user)
        await mine.ingest(mine.turns(2))
    unsaved = Talk(service.as_filter, "content:4711")
    await unsaved.ingest(unsaved.turns(2))

    await tell(service, kind, user_id="user-1")

    assert [one.external_id for one in await rows(service.runtime, "select * from chats")] == ["chat-2"]
    (said,) = await audited(service)
    assert (said.action, said.details["chats"]) == ("chats.delete", 3)
    assert (said.details["user"] == "user-1") == (kind == "chat.deleted_all"), "who is gone is a hash"


async def test_with_a_chat_go_those_of_its_sub_agents(service: Service) -> None:
    """Open WebUI deletes them along, and tells of the chat alone: by what its user still has."""
    for chat in ("deleted", "of-its-sub-agent", "elsewhere", "content:4711"):
        talk = Talk(service.as_filter, chat)
        await talk.ingest(talk.turns(1))

    await tell(service, "chat.deleted", chat_id="deleted", user_id="user-1", left=["elsewhere"])

    assert {one.external_id for one in await rows(service.runtime, "select * from chats")} == {
        "elsewhere",
        "content:4711",
    }


# Messages


@pytest.mark.parametrize("kind", ["message.deleted", "message.updated"])
async def test_a_message_takes_what_is_below_it_and_every_summary_that_has_read_it(
    service: Service, talk: Talk, kind: str
) -> None:
    talk.add("secret", talk.turns(1), content=SECRET)
    leaf = talk.turns(20, leaf="secret")
    await talk.ingest(leaf)
    await drain(service.runtime)
    assert len(await boundaries(service)) == 1

    await tell(service, kind, chat_id="chat-1", message_id="secret")

    assert await stored(service) == {"u0", "a0"}
    assert await boundaries(service) == []
    assert "mandragora" not in str(await tables(service.runtime))
    await check_tree(service.runtime)
    chat = await row(service.runtime, "select * from chats")
    assert (chat.leaf_id, chat.leaf_line) == ("a0", None)
    (said,) = await audited(service)
    assert (said.action, said.chat) == ("chat.cut", "chat-1")
    assert said.details == {"why": f"Open WebUI: {kind}", "messages": 41, "checkpoints": 1}


async def test_other_branches_keep_their_messages_and_summaries(service: Service, talk: Talk) -> None:
    fork = talk.turns(1)
    left, right = talk.turns(20, leaf=fork, prefix="l-"), talk.turns(20, leaf=fork, prefix="r-")
    for leaf in (left, right):
        await talk.ingest(leaf)
        await drain(service.runtime)
    served = await talk.ask(right)
    first = next(one["id"] for one in talk.path(left) if one["id"].startswith("l-"))

    await tell(service, "message.deleted", chat_id="chat-1", message_id=first)

    assert await stored(service) == {one["id"] for one in talk.path(right)}
    assert await talk.ask(right) == served
    assert served["status"] == "ready"
    assert (await row(service.runtime, "select * from chats")).leaf_id == right
    await check_tree(service.runtime)


async def test_a_summary_of_a_path_that_was_edited_before_goes_too(service: Service, talk: Talk) -> None:
    """Nothing tells any more which messages it has read."""
    leaf = await summarised(service, talk)
    talk.edit("u4", "Edited.")
    await talk.ingest(leaf)
    assert len(await boundaries(service)) == 1

    await tell(service, "message.deleted", chat_id="chat-1", message_id=leaf)

    assert await boundaries(service) == []


async def test_the_same_message_in_a_chat_of_its_own_stays(service: Service, talk: Talk) -> None:
    """A fork, a clone and an import carry the same message ids."""
    leaf = await summarised(service, talk)
    fork = Talk(service.as_filter, "fork", rows=dict(talk.rows))
    await fork.ingest(leaf)
    await drain(service.runtime)
    served = await fork.ask(leaf)
    assert served["status"] == "ready"

    await tell(service, "message.deleted", chat_id="chat-1", message_id="u0")
    assert await fork.ask(leaf) == served
    await tell(service, "chat.deleted", chat_id="chat-1")

    assert await fork.ask(leaf) == served
    assert await stored(service, "fork") == set(fork.rows)
    await check_tree(service.runtime)


# Edits on the page: only the chat is named


async def test_an_edited_chat_loses_what_differs_and_what_is_below(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    talk.edit("a8", "Edited on the page.")

    await tell(service, "chat.updated", chat_id="chat-1", fingerprints=fingerprints(talk))

    above = [one["id"] for one in talk.path("u8")]
    assert await stored(service) == set(above)
    assert await boundaries(service) == []
    assert (await talk.ask(leaf))["known"] == "u8"
    await check_tree(service.runtime)
    (said,) = await audited(service)
    assert (said.action, said.chat) == ("chat.cut", "chat-1")


async def test_a_chat_that_only_got_another_title_keeps_everything(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    talk.turns(1, leaf=leaf)  # not handed over yet
    before = await tables(service.runtime)

    await tell(service, "chat.updated", chat_id="chat-1", fingerprints=fingerprints(talk))
    await tell(service, "chat.updated", chat_id="chat-1")

    assert await tables(service.runtime) == before


# Work under way


@contextlib.asynccontextmanager
async def working(harness: Harness) -> AsyncIterator[None]:
    """The model has read the chat, and answers when the block ends; then the work comes to its end."""
    answering = asyncio.Event()
    harness.llm.thinking = lambda _: answering.wait()
    work = asyncio.create_task(harness.compress())
    await harness.llm.received(1)
    yield
    answering.set()
    await work


async def test_a_worker_that_has_read_a_message_publishes_nothing_after_its_deletion(harness: Harness) -> None:
    await harness.long_chat()
    harness.llm.default = Say(f"## State\n- {SECRET}")
    async with working(harness):
        await tell(harness.service, "message.deleted", chat_id="chat-1", message_id="u2")

    assert [run.outcome for run in await harness.runs()] == ["refused"]
    assert await harness.made() == []
    assert "mandragora" not in str(await tables(harness.runtime))
    await harness.drain()
    await check_tree(harness.runtime)
