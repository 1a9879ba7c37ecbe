"""Everything of one user is found and erased, and what is another's stays."""

import pytest

from service.runtime import Urls
from tests.conftest import Service, execute
from tests.fakes.scripted_llm import Say
from tests.service.encrypted import FIRST, MARK, columns, lived, service_with
from tests.service.events import tell
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.recalling import recall
from tests.service.talk import Json, Talk, other, row, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BEN = "ann-4711", "ben-0815"


async def get(service: Service, path: str = "") -> Json:
    answer = await service.as_operator.get(f"/v1/users{path}")
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def erase(service: Service, user: str) -> None:
    answer = await service.as_operator.delete(f"/v1/users/{user}")
    assert answer.status_code == 204, answer.text


async def chats(service: Service) -> list[str]:
    return [one.external_id for one in await rows(service.runtime, "select external_id from chats order by 1")]


async def test_an_erasure_takes_the_chats_of_others_that_have_words_of_the_user(harness: Harness) -> None:
    talk, service = harness.talk, harness.service
    talk.user = ANN
    leaf = talk.turns(3)
    await talk.ingest(leaf)
    clone, kept = other(talk, BEN, "clone"), Talk(talk.client, "bens-own", user=BEN)
    await clone.ingest(clone.turns(1, leaf=leaf, prefix="clone-"))
    shared = Talk(talk.client, "bens-shared", user=BEN)
    begun = shared.turns(2, prefix="bens-")
    await shared.ingest(begun)
    guest = other(shared, ANN)
    await guest.ingest(guest.turns(1, leaf=begun, prefix="ann-"), after=begun)
    await kept.ingest(kept.turns(2, prefix="own-"))
    shown = await get(service, f"/{ANN}")
    assert (shown["chats"], shown["shared_chats"]) == (["chat-1"], ["clone", "bens-shared"])

    await erase(service, ANN)

    assert await chats(service) == ["bens-own"]
    assert (await row(service.runtime, "select details from audit where action = 'user.erase'")).details["chats"] == 3
    await clone.ingest(clone.turns(1, leaf=leaf, prefix="again-"))
    assert await chats(service) == ["bens-own", "clone"], "who began a chat goes on with it"


async def test_a_clone_is_found_for_its_authors_also_without_the_chat_that_it_was_made_from(harness: Harness) -> None:
    talk, service = harness.talk, harness.service
    talk.user = ANN
    leaf = talk.turns(3)
    await talk.ingest(leaf)
    clone = other(talk, BEN, "clone")
    await clone.ingest(clone.turns(1, leaf=leaf, prefix="clone-"))
    assert (await service.as_operator.delete("/v1/chats/chat-1")).status_code == 204
    again = other(clone, "third", "clone of the clone")
    await again.ingest(again.turns(1, leaf=leaf, prefix="third-"))

    await erase(service, ANN)

    assert await chats(service) == []


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


async def test_a_user_who_stands_in_the_audit_log_alone_is_found(harness: Harness) -> None:
    talk, service = harness.talk, harness.service
    talk.user = ANN
    await talk.ingest(talk.turns(1))
    await leave_alone(talk, True)
    assert (await service.as_operator.delete("/v1/chats/chat-1")).status_code == 204

    shown = await get(service, f"/{ANN}")

    assert (shown["chats"], shown["shared_chats"], shown["audited"]) == ([], [], True)


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
        assert (await operator.get(f"/v1/users/{CAROL}")).json()["audited"]

        erased = await operator.delete(f"/v1/users/{CAROL}")

        assert erased.status_code == 204, erased.text
        assert await columns(urls, MARK) == set(), "at once, before any work"
        await harness.runtime.counting.store()
        await harness.work_off()
        assert await columns(urls, *LEFT) == set()
        is_problem(await operator.get(f"/v1/users/{CAROL}"), 404)
