"""What Open WebUI says it has deleted or edited goes, with every summary that has read it; everything else stays."""

from typing import Any

import pytest

from service.transcript import normalise_id
from tests.conftest import Service, drain
from tests.service.events import fingerprints, tell, tell_edit
from tests.service.grown import summarised
from tests.service.talk import Json, Talk, check_tree, row, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def stored(service: Service, chat: str = "chat-1") -> set[str]:
    query = "select host_id from messages m join chats c on c.id = m.chat_id where c.external_id = :chat"
    return {one.host_id for one in await rows(service.runtime, query, chat=chat)}


async def audited(service: Service) -> list[Any]:
    return list(await rows(service.runtime, "select action, chat, actor, details from audit order by id"))


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


async def test_the_same_message_in_a_chat_of_its_own_stays(service: Service, talk: Talk) -> None:
    """A fork, a clone and an import carry the same message ids."""
    leaf = await summarised(service, talk)
    fork = Talk(service.as_filter, "fork", rows={name: dict(one) for name, one in talk.rows.items()})
    await fork.ingest(leaf)
    await drain(service.runtime)
    served = await fork.ask(leaf)
    assert served["status"] == "ready"

    talk.delete("u0")
    await tell_edit(service, talk)
    assert await fork.ask(leaf) == served
    await tell(service, "chat.deleted", chat_id="chat-1")

    assert await fork.ask(leaf) == served
    assert await stored(service, "fork") == set(fork.rows)
    await check_tree(service.runtime)


async def test_an_edited_chat_loses_what_differs_and_what_is_below(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    for branch in (talk.add("sibling", "u4", "assistant"), leaf):
        await talk.ingest(branch)
    talk.edit("a8", "Edited on the page.")
    talk.edit("sibling", "Edited too.")

    await tell_edit(service, talk)

    above = [one["id"] for one in talk.path("u8")]
    assert await stored(service) == set(above)
    assert await rows(service.runtime, "select 1 from checkpoints") == []
    newest = "select host_id from messages join chats on leaf_id = message_id and chats.id = chat_id"
    assert (await row(service.runtime, newest)).host_id == "u8"
    assert (await talk.ask(leaf))["status"] == "pending"
    await service.stored()
    await check_tree(service.runtime)
    (said,) = await audited(service)
    assert (said.action, said.chat) == ("chat.cut", "chat-1")
    assert said.details == {
        "why": "Open WebUI: chat.updated",
        "messages": len(talk.path(leaf)) - len(above) + 1,
        "checkpoints": 1,
    }


@pytest.mark.parametrize("odd", ["odd\nid", "i" * 201])
async def test_an_odd_id_is_told_as_open_webui_has_it(service: Service, talk: Talk, odd: str) -> None:
    assert len(normalise_id(odd)) == 32, "it is stored by its hash"
    leaf = talk.add(normalise_id(odd), talk.turns(2))
    await talk.ingest(leaf)
    told = {odd if name == leaf else name: one for name, one in fingerprints(talk).items()}

    await tell(service, "chat.updated", chat_id="chat-1", fingerprints=told)
    assert leaf in await stored(service)
    await tell(service, "chat.updated", chat_id="chat-1", fingerprints=told | {odd: "edited"})
    assert leaf not in await stored(service)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "chat.created", "chat_id": "chat-1"},
        {"type": "something.of.tomorrow", "chat_id": "chat-1", "data": {"new": [1, 2]}},
        {"type": "chat.deleted"},
        {"type": "folder.deleted", "user_id": "user-1"},
        {"type": "chat.deleted_all", "user_id": "never seen"},
        {"type": "chat.updated", "chat_id": "never seen", "fingerprints": {"u0": "f"}},
        {"type": "chat.updated", "chat_id": "chat-1"},
        {"type": "chat.updated", "chat_id": "chat-1", "fingerprints": {}},
    ],
)
async def test_what_means_nothing_here_is_accepted_and_changes_nothing(
    service: Service, talk: Talk, event: Json
) -> None:
    leaf = talk.turns(2)
    await talk.ingest(leaf)
    talk.turns(1, leaf=leaf)  # not handed over yet
    before = await tables(service.runtime)

    assert (await service.as_events.post("/v1/events", json=event)).status_code == 202
    await tell_edit(service, talk)

    assert await tables(service.runtime) == before
