"""After an erasure no column of any table has the user's id, the ids of their chats, or a word of theirs."""

import pytest

from service.runtime import Urls
from tests.fakes.scripted_llm import Say
from tests.service.encrypted import FIRST, MARK, columns, lived, service_with
from tests.service.events import tell
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.talk import Talk

CAROL, BEN = "carol-4711", "ben-0815"
LEFT = [CAROL, MARK, "chat-1", "carols-"]
NAMING = {  # where her id stands before
    "chats.user_id",
    "chat_authors.user_id",
    "messages.author_id",
    "sums.user_id",
    "audit.actor",
    "audit.details",
}


async def leave_alone(talk: Talk, alone: bool) -> None:
    body = {"user_id": talk.user, "left_alone": alone}
    response = await talk.client.post(f"/v1/chats/{talk.chat}/left-alone", json=body)
    assert response.status_code == 200, response.text


async def did_everything(harness: Harness) -> None:
    """All that a user can do: in her own chats, in a fork, in unsaved ones, and in a chat of Ben's."""
    talk, client = harness.talk, harness.service.as_filter
    old = Talk(client, "carols-old", user=CAROL)
    await old.ingest(old.turns(1))
    await leave_alone(old, True)
    await tell(harness.service, "chat.deleted_all", user_id=CAROL)
    talk.user = CAROL
    leaf = await lived(harness)
    harness.llm.default = Say("## State\n- The pump is watched.")  # the mark is her own from here on
    await leave_alone(talk, True)
    await leave_alone(talk, False)
    path = talk.question(leaf)["path"]
    who = {"user_id": CAROL, "path": path}
    for route, more in (("view", {"depth": len(path)}), ("recall", {"query": MARK}), ("recall", {"ref": "M1"})):
        assert (await client.post(f"/v1/chats/chat-1/{route}", json=who | more)).status_code == 200
    await talk.ask(leaf, user_id=CAROL)
    again = talk.add("reported", leaf, content=f"The {MARK} pump.")
    await talk.ingest(again)

    fork = Talk(client, "carols-fork", dict(talk.rows), user=CAROL)
    await fork.ask(leaf, user_id=CAROL)
    await fork.ingest(leaf)
    unsaved = Talk(client, "content:carols-4711", user=CAROL)
    await unsaved.ingest(unsaved.add("m", None, content=f"The {MARK} pump."), expires_in=3600)
    bens = Talk(client, "bens", user=BEN)
    begun = bens.turns(2)
    await bens.ingest(begun)
    guest = Talk(client, "bens", dict(bens.rows), user=CAROL)
    said = guest.turns(12, leaf=guest.add("marked", begun, content=f"Ben, never sell the {MARK} pump."))
    await guest.ingest(said)
    clone = Talk(client, "bens-clone", dict(talk.rows), user=BEN)
    await clone.ingest(clone.turns(1, leaf=leaf))
    await harness.work_off()
    await harness.service.as_operator.get(f"/v1/users/{CAROL}")
    await harness.runtime.counting.store()


@pytest.mark.parametrize("keys", ["", FIRST], ids=["plain", "encrypted"])
async def test_after_an_erasure_no_column_of_any_table_tells_of_a_user_who_did_everything(
    urls: Urls, keys: str
) -> None:
    async with service_with(urls, keys) as harness:
        await did_everything(harness)
        assert await columns(urls, CAROL) >= NAMING, "the search finds what is there"
        operator = harness.service.as_operator
        assert (await operator.get(f"/v1/users/{CAROL}")).json()["stored"]["audit"] > 0

        erased = await operator.delete(f"/v1/users/{CAROL}")

        assert erased.status_code == 204, erased.text
        await harness.runtime.counting.store()
        await harness.work_off()
        assert await columns(urls, *LEFT) == set()
        is_problem(await operator.get(f"/v1/users/{CAROL}"), 404)
