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
from tests.service.talk import Talk, check_tree, row, rows, run_sql, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "the secret word is mandragora"
MANY = 33_000  # one statement has 32,767 parameters at most


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


async def test_after_a_folder_was_deleted_the_users_chats_that_open_webui_still_has_stay(service: Service) -> None:
    for chat in ("in-the-folder", "elsewhere", "content:4711"):
        talk = Talk(service.as_filter, chat)
        await talk.ingest(talk.turns(1))

    await tell(service, "folder.deleted", user_id="user-1", left=["elsewhere", "never handed over"])

    assert {one.external_id for one in await rows(service.runtime, "select * from chats")} == {
        "elsewhere",
        "content:4711",
    }


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


async def test_a_folder_is_deleted_however_many_chats_are_left(service: Service) -> None:
    for chat in ("in-the-folder", "elsewhere"):
        talk = Talk(service.as_filter, chat)
        await talk.ingest(talk.turns(1))
    left = ["elsewhere", *(f"{number:032}" for number in range(MANY))]

    await tell(service, "folder.deleted", user_id="user-1", left=left)

    assert [one.external_id for one in await rows(service.runtime, "select * from chats")] == ["elsewhere"]


async def test_an_edited_chat_may_have_any_number_of_messages(service: Service, talk: Talk) -> None:
    """Rows as an import makes them: all of them roots, and Open WebUI has none of them any more."""
    leaf = talk.turns(1)
    await talk.ingest(leaf)
    await run_sql(
        service.runtime,
        "insert into messages (tenant_id, chat_id, message_id, role, depth, fingerprint, digest, content_hash, tokens,"
        " path_tokens, step_tokens, step_calls)"
        " select tenant_id, id, 'm' || n, 'user', 1, 'f', 'd' || n, '', 1, 1, '{}', '{}'"
        f" from chats, generate_series(1, {MANY}) n",
    )

    await tell(service, "chat.updated", chat_id="chat-1", fingerprints=fingerprints(talk))

    assert await stored(service) == set(talk.rows)


async def test_a_folder_without_the_list_of_what_is_left_deletes_nothing(service: Service, talk: Talk) -> None:
    await talk.ingest(talk.turns(1))

    await tell(service, "folder.deleted", user_id="user-1")

    assert await stored(service)


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


async def test_a_summary_that_ends_above_the_message_stays_and_is_served(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    served = await talk.ask(leaf)
    newest = talk.path(leaf)[-2]["id"]

    await tell(service, "message.updated", chat_id="chat-1", message_id=newest)

    await check_tree(service.runtime)
    assert await boundaries(service) == [served["covered_until"]]
    assert (await talk.ask(talk.rows[newest]["parentId"]))["checkpoint_id"] == served["checkpoint_id"]


async def test_with_its_first_message_a_chat_keeps_nothing_and_goes_on(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)

    await tell(service, "message.deleted", chat_id="chat-1", message_id=talk.path(leaf)[0]["id"])

    assert await stored(service) == set()
    chat = await row(service.runtime, "select * from chats")
    assert (chat.leaf_id, chat.leaf_digest, chat.leaf_tokens, chat.leaf_line, chat.leaf_savings) == (None,) * 5
    shown = (await service.as_operator.get("/v1/chats/chat-1")).json()
    assert shown["branches"] == []
    await drain(service.runtime)
    await talk.ingest(leaf)
    await drain(service.runtime)
    assert (await talk.ask(leaf))["status"] == "ready"


async def test_the_next_hand_over_is_asked_for_the_whole_path_and_makes_work_due(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    talk.edit("u4", "Edited.")
    await tell(service, "message.updated", chat_id="chat-1", message_id="u4")
    below = talk.turns(1, leaf=leaf)

    assert (await talk.ask(below))["known"] == "a2"
    assert (await talk.put(talk.transcript(below, after=leaf))).status_code == 409
    assert await talk.ingest(below)
    await drain(service.runtime)

    assert (await talk.ask(below))["status"] == "ready"
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


async def test_a_message_that_an_edited_chat_has_no_more_goes(service: Service, talk: Talk) -> None:
    await summarised(service, talk)
    talk.delete("u4")

    await tell(service, "chat.updated", chat_id="chat-1", fingerprints=fingerprints(talk))

    assert await stored(service) == {"u0", "a0", "u2", "a2"}
    await check_tree(service.runtime)


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
