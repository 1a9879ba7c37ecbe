"""Who may write in a chat that is stored: who began it, and who goes on from what it has."""

import httpx
import pytest

from tests.conftest import Service
from tests.service.events import tell_edit
from tests.service.grown import by_the_model
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.recalling import recall
from tests.service.talk import Json, Talk, other, row, rows, run_sql, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def authors(service: Service, chat: str = "chat-1") -> list[str]:
    query = "select a.user_id from chat_authors a join chats c on c.id = a.chat_id where external_id = :chat order by 1"
    return [one.user_id for one in await rows(service.runtime, query, chat=chat)]


async def test_a_chat_is_not_taken_over_by_messages_that_it_does_not_have(service: Service, talk: Talk) -> None:
    await talk.ingest(talk.turns(3))
    before = await tables(service.runtime)
    thief = Talk(service.as_filter, talk.chat, user="thief")

    refused = await thief.put(thief.turn(thief.turns(1, prefix="stolen-")))

    assert is_problem(refused, 403)["type"] == "urn:precis:problem:not-theirs"
    assert await tables(service.runtime) == before


async def test_a_chat_is_not_taken_over_by_an_edited_root_either(service: Service, talk: Talk) -> None:
    leaf = talk.turns(3)
    await talk.ingest(leaf)
    thief = other(talk, "thief")
    thief.edit("u0", "Mine.")
    assert (await thief.put(thief.turn(leaf))).status_code == 403
    assert (await row(service.runtime, "select user_id from chats")).user_id == talk.user


@pytest.mark.parametrize("whole", [True, False])
async def test_who_goes_on_from_what_is_stored_writes_in_the_chat_too(
    service: Service, talk: Talk, whole: bool
) -> None:
    leaf = talk.turns(3)
    await talk.ingest(leaf)
    guest = other(talk, "guest")

    await guest.ingest(guest.turns(1, leaf=leaf, prefix="guest-"), after=None if whole else leaf)

    assert (await row(service.runtime, "select user_id from chats")).user_id == talk.user
    assert await authors(service) == ["guest", talk.user]
    theirs = await rows(service.runtime, "select host_id from messages where author_id = 'guest'")
    assert {one.host_id for one in theirs} == {"guest-u6", "guest-a6"}


async def labels(service: Service) -> list[object]:
    (chat,) = (await service.as_operator.get("/v1/chats")).json()["chats"]
    return [chat["title"], chat["user_name"]]


async def test_a_chat_keeps_its_newest_title_and_the_name_of_its_owner_alone(service: Service, talk: Talk) -> None:
    leaf = talk.turns(3)
    await talk.ingest(leaf)
    assert await labels(service) == [None, None]
    await talk.ingest(leaf, title="Pumps", user_name="Ann")
    leaf = talk.turns(1, leaf=leaf)
    await talk.ingest(leaf)
    assert await labels(service) == ["Pumps", "Ann"], "an upload without them takes nothing away"
    guest = other(talk, "guest")
    leaf = guest.turns(1, leaf=leaf, prefix="guest-")
    await guest.ingest(leaf, title="Pumps of hall 3", user_name="Ben")
    assert await labels(service) == ["Pumps of hall 3", "Ann"]


async def test_the_name_of_an_owner_who_is_none_any_more_does_not_stay(service: Service, talk: Talk) -> None:
    await talk.ingest(talk.turns(1), user_name="Ann")
    await run_sql(service.runtime, "delete from messages")
    new = Talk(service.as_filter, talk.chat, user="ben")

    await new.ingest(new.turns(1, prefix="new-"))

    assert (await row(service.runtime, "select user_id from chats")).user_id == "ben"
    assert (await labels(service))[1] is None


async def test_an_emptied_chat_is_whoevers_goes_on(service: Service, talk: Talk) -> None:
    await talk.ingest(talk.turns(1))
    assert (await user_asks(talk, "left-alone", left_alone=True)).status_code == 200
    talk.edit("u0", "Edited.")
    await tell_edit(service, talk)
    guest = Talk(service.as_filter, talk.chat, user="guest")
    await guest.ingest(guest.turns(1, prefix="new-"))
    found = await row(service.runtime, "select user_id, left_alone_at from chats")
    assert (found.user_id, found.left_alone_at) == ("guest", None)


# What somebody else's messages in a chat may not do, and what they may


async def user_asks(talk: Talk, route: str, **body: object) -> httpx.Response:
    """One of the user's routes, in the name of the writer of `talk`."""
    return await talk.client.post(f"/v1/chats/{talk.chat}/{route}", json={"user_id": talk.user} | body)


async def looked_up(talk: Talk, leaf: str, served: Json, ref: str) -> str:
    """Whether a model finds something in what a summary hides, when it answers below `leaf`."""
    state = served["state"] | {"user": talk.user, "chat": talk.chat, "above": talk.ids(leaf)[-1]}
    return str((await recall(talk, state, ref=ref))["status"])


async def test_who_goes_on_from_one_known_message_plants_nothing_and_locks_nobody_out(harness: Harness) -> None:
    leaf = await by_the_model(harness)
    owner = harness.talk
    thief = Talk(owner.client, owner.chat, {"u0": dict(owner.rows["u0"])}, user="thief")
    await thief.ingest(thief.turns(1, leaf="u0", prefix="thief-"))

    assert (await user_asks(thief, "left-alone", left_alone=True)).status_code == 404
    assert (await user_asks(other(owner, "thief"), "view", message_id=leaf)).status_code == 404
    served = await owner.ask(leaf)
    for branch in (leaf, list(thief.rows)[-1]):
        both = Talk(owner.client, owner.chat, owner.rows | thief.rows, user="thief")
        assert await looked_up(both, branch, served, "M2") == "not_covered"
    fork = other(owner, "thief", "a fork")
    assert (await fork.ask(leaf))["status"] == "pending", "nothing is lent to them"

    seen = await user_asks(owner, "view", message_id=leaf)
    assert "This summary stands for" in seen.json()["text"]
    assert await looked_up(owner, leaf, served, "M2") == "found"
    await owner.ingest(leaf)
    await harness.work_off()
    summary = (await owner.ask(leaf))["summary"]
    assert "thief" not in summary


async def test_two_who_write_in_one_chat_both_see_the_branches_that_they_wrote_in(harness: Harness) -> None:
    leaf = await by_the_model(harness)
    owner = harness.talk
    guest = other(owner, "guest")
    mixed = guest.turns(1, leaf=leaf, prefix="guest-")
    await guest.ingest(mixed, after=leaf)
    owner.rows |= guest.rows
    alone = owner.turns(1, leaf=leaf, prefix="owner-")
    await owner.ingest(alone, after=leaf)
    guest.rows |= owner.rows

    served = await owner.ask(mixed)
    for writer in (owner, guest):
        seen = await user_asks(writer, "view", message_id=mixed)
        assert "This summary stands for" in seen.json()["text"]
        assert await looked_up(writer, mixed, served, "M2") == "found"
    assert (await user_asks(owner, "view", message_id=alone)).status_code == 200
    assert (await user_asks(guest, "view", message_id=alone)).status_code == 404, "there the guest wrote nothing"
    assert await looked_up(guest, alone, served, "M2") == "not_covered"
    assert (await user_asks(guest, "left-alone", left_alone=True)).status_code == 404
    shown = (await harness.service.as_operator.get("/v1/chats?user=" + owner.user)).json()["chats"]
    assert [one["user_id"] for one in shown] == [owner.user]


async def test_whose_messages_came_with_a_clone_looks_nothing_up_in_it(harness: Harness) -> None:
    owner = harness.talk
    await owner.ingest(owner.turns(1))
    clone = other(owner, "guest", "clone")
    leaf = clone.turns(20, leaf="a0", prefix="guest-")
    await clone.ingest(leaf)
    while await harness.compress() is not None:
        pass

    assert await authors(harness.service, "clone") == ["guest", owner.user], "the owner's can be found and erased"
    served = await clone.ask(leaf)
    assert await looked_up(other(clone, owner.user), leaf, served, "M4") == "not_covered"
    assert await looked_up(clone, leaf, served, "M4") == "found"
