"""Everything of one user is found, counted and erased, and what is another's stays."""

import pytest

from service.runtime import Urls
from service.storage.codec import unpack
from service.storage.tables import metadata
from tests.conftest import Service, execute
from tests.fakes.scripted_llm import Say
from tests.service.encrypted import FIRST, MARK, columns, lived, service_with
from tests.service.events import tell
from tests.service.grown import by_the_model
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.recalling import recall
from tests.service.talk import Json, Talk, check_tree, other, row, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BEN = "ann-4711", "ben-0815"


async def everything(service: Service) -> str:
    """All that is stored, as one text, with bodies unpacked."""
    found: list[str] = []
    for table in metadata.sorted_tables:
        for one in await rows(service.runtime, f"select * from {table.name}"):
            found += [
                str(unpack(value)) if name == "body" and value else str(value) for name, value in one._asdict().items()
            ]
    return "\n".join(found)


async def get(service: Service, path: str = "") -> Json:
    answer = await service.as_operator.get(f"/v1/users{path}")
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def erase(service: Service, user: str) -> None:
    answer = await service.as_operator.delete(f"/v1/users/{user}")
    assert answer.status_code == 204, answer.text


def secret_words(talk: Talk, prefix: str = "") -> list[str]:
    """A line of each message that begins so."""
    return [row["content"].splitlines()[0] for name, row in talk.rows.items() if name.startswith(prefix)]


async def shared(harness: Harness) -> tuple[Talk, str]:
    """Ann's chat with summaries, in which Ben wrote too, and Ben's clone of it, grown and with summaries of his own."""
    harness.talk.user = ANN
    leaf = await by_the_model(harness, 30)
    guest = other(harness.talk, BEN)
    mixed = guest.turns(2, leaf=leaf, prefix="ben-")
    await guest.ingest(mixed, after=leaf)
    clone = other(harness.talk, BEN, "clone")
    grown = clone.turns(20, leaf=leaf, prefix="clone-")
    await clone.ingest(grown)
    await harness.work_off()
    await harness.talk.ask(leaf)
    await harness.runtime.counting.store()
    return clone, grown


async def test_an_erasure_leaves_what_others_said_and_they_go_on(harness: Harness) -> None:
    clone, grown = await shared(harness)
    await run_sql(
        harness.runtime,
        "insert into audit (tenant_id, actor, action, chat, details)"
        " select id, 'cli', 'chats.delete', 'chat-1', jsonb_build_object('user', cast(:user as text)) from tenants",
        user=ANN,
    )

    await erase(harness.service, ANN)

    left = await everything(harness.service)
    assert all(one in left for one in secret_words(clone, "clone-")), "what Ben said stays"
    await check_tree(harness.runtime)
    audited = await row(harness.runtime, "select * from audit where action = 'user.erase'")
    assert (audited.details["chats"], audited.details["messages"]) == (1, 60)
    assert (await get(harness.service))["users"][0]["user_id"] == BEN

    await harness.work_off()
    assert (await clone.ask(grown))["status"] == "ready", "the rest is summarised again"


async def test_erased_texts_do_not_come_back_when_the_others_chat_goes_on(harness: Harness) -> None:
    clone, grown = await shared(harness)
    await erase(harness.service, ANN)
    words = secret_words(harness.talk, "u")
    await run_sql(harness.runtime, "update messages set body = null")

    await clone.ingest(clone.turns(1, leaf=grown, prefix="later-"))
    clone.edit("u0", "Edited by Ben.")
    await clone.ingest(grown)

    left = await everything(harness.service)
    assert [one for one in words if one in left] == []
    await check_tree(harness.runtime)


async def test_notes_come_again_with_the_texts_of_the_others(harness: Harness) -> None:
    talk = harness.talk
    talk.user = BEN
    leaf = talk.turns(2)
    await talk.ingest(leaf)
    guest = other(talk, ANN)
    mixed = guest.turns(1, leaf=leaf, prefix="ann-")
    guest.edit("ann-u4", talk.rows["u0"]["content"])  # the same words as Ben's
    await guest.ingest(mixed, after=leaf)
    talk.rows |= guest.rows
    await run_sql(harness.runtime, "update messages set body = null")
    # As if it had come with a fork.
    await run_sql(harness.runtime, "update messages set author_id = :ann where host_id = 'ann-u4'", ann=ANN)

    await erase(harness.service, ANN)
    await check_tree(harness.runtime)
    await talk.ask(mixed)
    await harness.service.stored()

    stored = await rows(harness.runtime, "select host_id, body from messages")
    notes = {one.host_id for one in stored if unpack(one.body)["content"] == "[This message was erased]"}
    assert notes == {"ann-u4", "ann-a4"}


# Everything that a user can do


CAROL = "carol-4711"
LEFT = [CAROL, MARK, "chat-1", "carols-"]
NAMING = {  # where her id stands before
    "chats.user_id",
    "chat_authors.user_id",
    "messages.author_id",
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
    asked = await talk.ask(leaf)
    seen = await client.post("/v1/chats/chat-1/view", json={"user_id": CAROL, "message_id": leaf})
    assert seen.status_code == 200
    for question in ({"query": MARK}, {"ref": "M1"}):
        await recall(talk, asked, **question)
    again = talk.add("reported", leaf, content=f"The {MARK} pump.")
    await talk.ingest(again)

    fork = Talk(client, "carols-fork", dict(talk.rows), user=CAROL)
    await fork.ask(leaf)
    await harness.service.stored()
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
        # An error may quote what a summariser answered.
        quoted = f"update runs set reason = '{MARK}'", f"update chats set last_error = '{MARK}'"
        await execute(urls.database, *quoted)
        assert await columns(urls, CAROL) >= NAMING, "the search finds what is there"
        operator = harness.service.as_operator
        assert (await operator.get(f"/v1/users/{CAROL}")).json()["stored"]["audit"] > 0

        erased = await operator.delete(f"/v1/users/{CAROL}")

        assert erased.status_code == 204, erased.text
        assert await columns(urls, MARK) == set(), "at once, before any work"
        await harness.runtime.counting.store()
        await harness.work_off()
        assert await columns(urls, *LEFT) == set()
        is_problem(await operator.get(f"/v1/users/{CAROL}"), 404)
