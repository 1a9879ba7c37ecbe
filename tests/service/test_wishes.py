"""A user looks at what stands for the earlier part of their chat, leaves it alone, and says what summaries keep."""

import httpx
import pytest

from tests.fakes.scripted_llm import Fail, Say
from tests.service.harness import Harness
from tests.service.talk import Json, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENTENCE = "Keep every figure about pump P-7."
CONSTRAINT = f"## Constraints and preferences\n- {SENTENCE}"


async def post(harness: Harness, route: str, /, **body: object) -> httpx.Response:
    return await harness.talk.client.post(f"/v1/chats/chat-1/{route}", json={"user_id": "user-1"} | body)


async def wished(harness: Harness, **body: object) -> Json:
    response = await post(harness, "wishes", **body)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def view(harness: Harness, leaf: str, pairs: int = 16) -> Json:
    chain = harness.talk.chain(leaf)
    path = [(identity, digest) for identity, _, digest in chain][::-1][:pairs]
    response = await post(harness, "view", path=path, depth=len(chain))
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def summarised(harness: Harness) -> str:
    """A chat whose requests carry a summary; its leaf."""
    harness.talk.window = 8192
    leaf = await harness.long_chat()
    await harness.drain()
    return leaf


async def audit(harness: Harness) -> list[tuple[str, str, Json]]:
    found = await rows(harness.runtime, "select actor, action, details from audit order by id")
    return [(one.actor, one.action, one.details) for one in found]


# What a user sees


async def test_a_user_sees_the_summary_that_the_model_is_sent(harness: Harness) -> None:
    leaf = await summarised(harness)
    sent = await harness.talk.ask(leaf)

    seen = await view(harness, leaf)

    assert seen["status"] == sent["status"] == "ready"
    assert seen["summary"] == sent["summary"]
    assert (seen["covered_messages"], seen["covered_until"]) == (sent["covered_messages"], sent["covered_until"])
    assert (seen["before"], seen["after"]) == (sent["tokens"]["before"], sent["tokens"]["after"])
    assert (seen["left_alone"], seen["wishes"], seen["working"]) == (False, [], False)


async def test_a_user_sees_the_summary_of_their_branch_and_not_of_another_one(harness: Harness) -> None:
    leaf = await summarised(harness)
    first = list(harness.talk.rows)[1]
    other = harness.talk.turns(14, leaf=first, prefix="other-")
    await harness.talk.ingest(other)
    await harness.drain()

    here, there = await view(harness, leaf), await view(harness, other)

    assert here["summary"] != there["summary"]
    assert here["covered_until"] in [one["id"] for one in harness.talk.path(leaf)]
    assert there["covered_until"] in [one["id"] for one in harness.talk.path(other)]


async def test_it_says_that_a_summary_is_being_written_and_that_none_is_ready(harness: Harness) -> None:
    harness.talk.window = 8192
    leaf = await harness.long_chat()

    seen = await view(harness, leaf)

    assert (seen["status"], seen["summary"], seen["covered_until"], seen["working"]) == ("pending", "", None, True)


@pytest.mark.parametrize("route", ["view", "wishes"])
async def test_the_chat_of_another_user_is_as_if_it_were_not_there(harness: Harness, route: str) -> None:
    await summarised(harness)
    bodies: dict[str, Json] = {"view": {"path": [("m", "d")], "depth": 1}, "wishes": {"left_alone": True}}
    body = bodies[route]

    theirs = await post(harness, route, user_id="somebody else", **body)
    missing = await harness.talk.client.post(f"/v1/chats/none/{route}", json={"user_id": "user-1"} | body)

    assert theirs.status_code == missing.status_code == 404
    assert theirs.json()["detail"].replace("chat-1", "none") == missing.json()["detail"]
    assert (await harness.chat()).left_alone_at is None


# Left alone


async def test_a_chat_that_is_left_alone_is_served_nothing_and_no_work_is_due(harness: Harness) -> None:
    leaf = await summarised(harness)
    assert (await harness.talk.ask(leaf))["status"] == "ready"

    assert (await wished(harness, left_alone=True))["left_alone"]

    for pairs in (64, 1):
        answer = await harness.talk.ask(leaf, pairs)
        assert answer["status"] == "not_needed"
        assert "summary" not in answer
    leaf = harness.talk.turns(14, leaf=leaf)
    assert await harness.talk.ingest(leaf) is False
    assert (await harness.chat()).due_at is None
    assert (await view(harness, leaf))["left_alone"]
    assert (await audit(harness))[-1] == ("user user-1", "chat.leave", {})


async def test_a_chat_that_is_left_alone_on_any_path_and_as_a_fork_is_served_nothing(harness: Harness) -> None:
    leaf = await summarised(harness)
    newest = harness.talk.turns(2, leaf=leaf)  # not ingested, so that the second statement answers
    assert (await harness.talk.ask(newest))["status"] == "ready"
    harness.talk.chat = "fork"
    await harness.talk.ingest(list(harness.talk.rows)[1])
    # Of a fork that is stored under its first messages only, and whose newest ones are asked about.
    body = harness.talk.question(leaf) | {"user_id": "user-1"}
    body["path"] = [one for one in body["path"] if one[0] not in list(harness.talk.rows)[:2]]
    body["sizes"] = body["sizes"][: len(body["path"])]

    async def asked() -> Json:
        answer: Json = (await harness.talk.client.post("/v1/chats/fork/context", json=body)).json()
        return answer

    assert (await asked())["status"] == "ready", "what its user's other chat has"
    await harness.talk.client.post("/v1/chats/fork/wishes", json={"user_id": "user-1", "left_alone": True})
    assert (await asked())["status"] == "unknown"
    harness.talk.chat = "chat-1"
    assert (await harness.talk.ask(newest))["status"] == "ready", "the other chat is not left alone"
    await wished(harness, left_alone=True)
    assert (await harness.talk.ask(newest))["status"] == "not_needed"


async def test_work_that_was_due_is_not_done_on_a_chat_that_is_left_alone(harness: Harness) -> None:
    await harness.long_chat()
    await wished(harness, left_alone=True)
    assert (await harness.chat()).due_at is None

    await harness.service.as_operator.post("/v1/jobs/chat-1/retry")
    await harness.drain()

    assert await harness.made() == []
    assert "left alone" in (await harness.runs())[-1].reason


async def test_it_is_undone_and_then_it_is_summarised_at_once(harness: Harness) -> None:
    harness.talk.window = 8192
    leaf = await harness.long_chat()
    await wished(harness, left_alone=True)

    assert not (await wished(harness, left_alone=False))["left_alone"]
    await harness.drain()

    assert (await harness.talk.ask(leaf))["status"] == "ready"
    assert [one[1] for one in await audit(harness)] == ["chat.leave", "chat.resume"]


# Focus


async def test_a_sentence_is_in_the_summary_although_there_is_nothing_new_to_read(harness: Harness) -> None:
    leaf = await summarised(harness)
    assert SENTENCE not in (await harness.talk.ask(leaf))["summary"]
    calls = len(harness.llm.requests)
    before = await harness.made()

    assert (await wished(harness, focus="  Keep every figure\nabout\u200b pump P-7. "))["wishes"] == [SENTENCE]
    await harness.drain()

    answer = await harness.talk.ask(leaf)
    assert CONSTRAINT in answer["summary"]
    assert len(harness.llm.requests) == calls, "no call was needed"
    after = await harness.made()
    assert len(after) == len(before) + 1
    assert (after[-1].covered_digest, after[-1].kind) == (before[-1].covered_digest, before[-1].kind)
    assert after[-1].ancestors == [], "none without the sentence serves"
    assert (await audit(harness))[-1] == ("user user-1", "wish.add", {"place": 1})


async def test_a_summary_by_code_that_serves_until_the_summarisers_is_there_has_it_too(harness: Harness) -> None:
    harness.talk.window = 8192
    leaf = await harness.long_chat()
    harness.llm.default = Fail(500)
    await harness.compress()
    assert await harness.interim()
    await wished(harness, focus=SENTENCE)

    await harness.compress()

    (served,) = await harness.interim()
    assert CONSTRAINT in served.summary
    assert (await harness.talk.ask(leaf))["checkpoint_id"] == served.id
    harness.llm.default = Say("## Current state\n- Fine.")
    await run_sql(harness.runtime, "delete from endpoints")
    await harness.due_now()
    await harness.drain()
    assert CONSTRAINT in (await harness.talk.ask(leaf))["summary"]


async def test_it_is_a_users_own_constraint_where_those_alone_are_a_system_message(harness: Harness) -> None:
    leaf = await summarised(harness)
    await wished(harness, focus=SENTENCE)
    await harness.drain()

    answer = await harness.talk.ask(leaf, summary_role="record")

    assert SENTENCE in answer["summary"]
    assert SENTENCE not in answer["record"]


async def test_the_first_summary_has_it_and_all_later_ones(harness: Harness) -> None:
    harness.talk.window = 8192
    leaf = await harness.long_chat()
    await wished(harness, focus=SENTENCE)
    await harness.drain()
    assert CONSTRAINT in (await harness.talk.ask(leaf))["summary"]

    leaf = harness.talk.turns(10, leaf=leaf)
    await harness.talk.ingest(leaf)
    await harness.drain()

    assert CONSTRAINT in (await harness.talk.ask(leaf))["summary"]
    assert all(SENTENCE in one.summary for one in await harness.made())


async def test_a_round_after_it_changes_nothing_more(harness: Harness) -> None:
    await summarised(harness)
    await wished(harness, focus=SENTENCE)
    await harness.drain()
    before = await harness.made()

    await harness.service.as_operator.post("/v1/jobs/chat-1/retry")
    await harness.drain()

    assert await harness.made() == before


async def test_a_sentence_that_was_withdrawn_is_in_no_later_summary(harness: Harness) -> None:
    leaf = await summarised(harness)
    await wished(harness, focus=SENTENCE)
    await wished(harness, focus="And the dates.")
    await harness.drain()

    assert (await wished(harness, withdraw=1))["wishes"] == ["And the dates."]
    await harness.drain()

    summary = (await harness.talk.ask(leaf))["summary"]
    assert SENTENCE not in summary
    assert "- And the dates." in summary
    assert (await harness.chat()).wishes == ["And the dates."]


async def test_a_secret_in_it_is_masked(harness: Harness) -> None:
    await summarised(harness)

    answer = await wished(harness, focus="The key is AKIAIOSFODNN7EXAMPLE, keep it.")

    assert "AKIA" not in str(answer["wishes"])


async def test_the_same_sentence_again_is_there_once_and_there_are_ten_at_most(harness: Harness) -> None:
    await summarised(harness)
    for number in range(10):
        await wished(harness, focus=f"Sentence {number}.")
    assert len((await wished(harness, focus="Sentence 3."))["wishes"]) == 10

    refused = await post(harness, "wishes", focus="One more.")

    assert refused.status_code == 422
    assert "withdraw one" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"focus": "x", "left_alone": True}, 422),
        ({"focus": " \u200b\n"}, 422),
        ({"focus": "x" * 301}, 422),
        ({"withdraw": 1}, 404),
        ({"withdraw": 0}, 422),
        ({"more": 1}, 422),
    ],
    ids=str,
)
async def test_what_is_no_wish_is_refused_and_changes_nothing(harness: Harness, body: Json, status: int) -> None:
    await summarised(harness)

    assert (await post(harness, "wishes", **body)).status_code == status
    assert (await harness.chat()).wishes == []
    assert await audit(harness) == []


# Operators


async def test_operators_see_what_users_want_and_undo_it(harness: Harness) -> None:
    await summarised(harness)
    await wished(harness, focus=SENTENCE)
    await wished(harness, left_alone=True)
    operator = harness.service.as_operator
    shown = await operator.get("/v1/chats/chat-1")
    assert shown.json()["wish_count"] == 1
    assert shown.json()["chat"]["left_alone_at"]
    assert SENTENCE not in shown.text + (await operator.get("/v1/chats")).text
    assert "wish.read" not in [action for _, action, _ in await audit(harness)]
    read = await operator.get("/v1/chats/chat-1/wishes")
    assert read.json() == {"left_alone": True, "wishes": [SENTENCE]}
    assert (await audit(harness))[-1][1:] == ("wish.read", {})

    withdrawn = await operator.delete("/v1/chats/chat-1/wishes/1")
    resumed = await operator.post("/v1/chats/chat-1/resume")

    assert withdrawn.json() == {"left_alone": True, "wish_count": 0}
    assert resumed.json() == {"left_alone": False, "wish_count": 0}
    assert (await operator.delete("/v1/chats/chat-1/wishes/1")).status_code == 404
    assert (await operator.post("/v1/chats/none/resume")).status_code == 404
    actors = [actor for actor, _, _ in await audit(harness)]
    assert actors[:2] == ["user user-1"] * 2
    assert not any(actor.startswith("user ") for actor in actors[2:])
    assert SENTENCE not in (await operator.get("/v1/audit")).text


async def test_a_users_routes_do_not_open_to_operators_nor_the_other_way_round(harness: Harness) -> None:
    await summarised(harness)
    body = {"user_id": "user-1", "left_alone": True}

    assert (await harness.service.as_operator.post("/v1/chats/chat-1/wishes", json=body)).status_code == 403
    assert (await harness.talk.client.post("/v1/chats/chat-1/resume")).status_code == 403
    assert (await harness.talk.client.get("/v1/chats/chat-1/wishes")).status_code == 403


async def test_with_the_chat_its_wishes_are_deleted(harness: Harness) -> None:
    await summarised(harness)
    await wished(harness, focus=SENTENCE)

    await harness.service.as_operator.delete("/v1/chats/chat-1")
    await harness.long_chat()

    assert (await harness.chat()).wishes == []
