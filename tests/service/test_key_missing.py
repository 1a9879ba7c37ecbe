"""A process without the newest encryption key says so: 503 in its own words, and the chats go on uncompressed."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from service.runtime import Urls
from service.usecases import rotate
from service.usecases.compress import compress
from tests.conftest import fresh_database
from tests.service.encrypted import FIRST, SECOND, lived, service_with
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.talk import row, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["has opened texts", "has just started"])
async def behind(servers: Urls, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Harness, str]]:
    """A process with the first key alone, and the leaf of a chat that others have brought to the second since."""
    async with fresh_database(servers) as urls, service_with(urls, FIRST) as old:
        leaf = await lived(old)
        async with service_with(urls, f"{SECOND},{FIRST}") as new:
            await rotate.rotate_keys(new.runtime.database, lambda _: None)
        if request.param == "has just started":
            old.runtime.database.keyring._ciphers.clear()
        yield old, leaf


async def test_requests_go_on_uncompressed_and_the_host_is_not_made_to_send_the_whole_branch(
    behind: tuple[Harness, str],
) -> None:
    harness, leaf = behind
    question = harness.talk.add("next", leaf)
    before = await rows(harness.runtime, "select * from messages order by chat_id, depth, message_id")

    for chat in ("chat-1", ""):
        answer = await harness.talk.ask(question, chat=chat)
        await harness.service.stored()

        assert (answer["status"], answer["summary"], answer["whole"]) == ("pending", "", False)
        assert answer["tokens"]["after"] <= 8192
        assert answer["state"]["above"] == harness.talk.ids(leaf)[-1], "the turn is handed over below its question"
        assert (await harness.talk.ask(question, chat=chat, state=answer["state"]))["status"] == "pending"
    assert await rows(harness.runtime, "select * from messages order by chat_id, depth, message_id") == before


async def test_a_worker_leaves_the_work_to_those_that_have_the_key(behind: tuple[Harness, str]) -> None:
    harness, _ = behind
    await run_sql(harness.runtime, "update chats set due_at = now(), attempts = 0, last_error = null")
    before = await rows(harness.runtime, "select * from runs")

    for _ in range(15):
        assert await compress(harness.worker_context(max_attempts=3)) is None

    chat = await harness.chat()
    assert (chat.attempts, chat.dead_at, chat.lease_until) == (0, None, None)
    assert chat.due_at is not None
    assert await rows(harness.runtime, "select * from runs") == before


async def test_status_and_readiness_name_the_key(behind: tuple[Harness, str]) -> None:
    harness, _ = behind
    warnings = (await harness.service.as_operator.get("/v1/status")).json()["warnings"]
    assert any("key 2" in warning and "PRECIS_ENCRYPTION_KEYS" in warning for warning in warnings)
    ready = await harness.service.as_operator.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ok"), "a balancer must not take all old ones at once"
    assert "key 2" in ready.json()["encryption"]


async def test_every_route_that_needs_the_key_answers_503_and_says_which_setting(behind: tuple[Harness, str]) -> None:
    harness, leaf = behind
    talk, reader, operator = harness.talk, harness.service.as_filter, harness.service.as_operator
    served = await row(harness.runtime, "select max(id) as id from checkpoints where retired_at is null")
    this = f"/v1/chats/chat-1/checkpoints/{served.id}"
    grown = talk.turns(1, leaf=leaf)
    opened = bool(harness.runtime.database.keyring._ciphers)  # then it may write below what it cannot read
    uploads = [talk.turn(grown, leaf), talk.turn(grown)]
    state = uploads[0]["state"] | {"served": served.id, "cut": "left out"}
    correction = {"state": "Other words.", "rules": []}
    needing: list[tuple[httpx.AsyncClient, str, str, Any]] = [
        *((reader, "POST", "/v1/turns", one) for one in uploads if not opened),
        (reader, "POST", "/v1/chats/chat-1/view", {"user_id": talk.user, "message_id": leaf}),
        (reader, "POST", "/v1/recall", {"state": state, "ref": "M1"}),
        (operator, "GET", this, None),
        (operator, "GET", "/v1/chats/chat-1/find?ref=M1", None),
        (operator, "PATCH", this, correction),
    ]
    for client, method, where, body in needing:
        said = is_problem(await client.request(method, where, json=body), 503)
        assert said["type"] == "urn:precis:problem:key-missing", (method, where, said)
        assert "PRECIS_ENCRYPTION_KEYS" in said["detail"]
        assert "2:" not in str(said), "never the key itself"
    event = {"type": "chat.updated", "chat_id": "chat-1", "fingerprints": {"answer": "edited"}}
    others: list[tuple[httpx.AsyncClient, str, str, Any]] = [
        (operator, "POST", "/v1/chats/chat-1/reset", {}),
        (harness.service.as_events, "POST", "/v1/events", event),
        (operator, "DELETE", "/v1/chats/chat-1", None),
    ]
    for client, method, where, body in others:
        assert (await client.request(method, where, json=body)).status_code != 500, where
