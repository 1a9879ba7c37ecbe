"""Events of any kind, shape and order: what means nothing here changes nothing, and none is an error of the service."""

import random
import string

import pytest

from tests.conftest import Service, drain
from tests.effort import ALL
from tests.service.events import fingerprints, tell
from tests.service.talk import Json, Talk, check_tree, prose, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "chat.created", "chat_id": "chat-1"},
        {"type": "something.of.tomorrow", "chat_id": "chat-1", "data": {"new": [1, 2]}},
        {"type": "chat.deleted"},
        {"type": "chat.deleted_all"},
        {"type": "folder.deleted", "user_id": "user-1"},
        {"type": "message.deleted", "message_id": "u0"},
        {"type": "chat.deleted_all", "user_id": "never seen"},
        {"type": "message.deleted", "chat_id": "chat-1"},
        {"type": "message.deleted", "chat_id": "never seen", "message_id": "u0"},
        {"type": "chat.updated", "chat_id": "never seen", "fingerprints": {"u0": "f"}},
        {"type": "chat.updated", "chat_id": "chat-1", "fingerprints": {}},
    ],
)
async def test_what_means_nothing_here_is_accepted_and_changes_nothing(
    service: Service, talk: Talk, event: Json
) -> None:
    await talk.ingest(talk.turns(2))
    before = await tables(service.runtime)

    assert (await service.as_events.post("/v1/events", json=event)).status_code == 202

    assert await tables(service.runtime) == before


async def test_after_any_order_of_events_and_turns_every_row_is_right(service: Service, talk: Talk) -> None:
    random_ = random.Random(11)
    leaf = talk.turns(3)
    for _ in range(60 if ALL else 25):
        ids = list(talk.rows)
        match random_.choice(["turn", "turn", "branch", "delete", "edit", "page", "work"]):
            case "turn":
                leaf = talk.turns(1, leaf=leaf)
            case "branch":
                leaf = talk.turns(2, leaf=random_.choice([one for one in ids if one[0] == "a"] or [leaf]))
            case "delete":
                gone = random_.choice(ids)
                talk.delete(gone)
                await tell(service, "message.deleted", chat_id="chat-1", message_id=gone)
                leaf = talk.turns(1, leaf=leaf if leaf in talk.rows else next(reversed(talk.rows), None))
            case "edit":
                changed = random_.choice(ids)
                talk.edit(changed, prose(50, random_.choice(string.ascii_letters)))
                await tell(service, "message.updated", chat_id="chat-1", message_id=changed)
            case "page":
                talk.edit(random_.choice(ids), prose(50, random_.choice(string.ascii_letters)))
                await tell(service, "chat.updated", chat_id="chat-1", fingerprints=fingerprints(talk))
            case "work":
                await drain(service.runtime)
        await check_tree(service.runtime)
        await talk.ingest(leaf)
        await check_tree(service.runtime)
    while len(talk.path(leaf)) < 30:
        leaf = talk.turns(1, leaf=leaf)
    await talk.ingest(leaf)
    await drain(service.runtime)
    assert (await talk.ask(leaf))["status"] == "ready"
