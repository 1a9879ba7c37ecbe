"""`POST /v1/compress` and `/v1/turns`: what a request is sent as, by content alone."""

import pytest

from tests.conftest import Service, drain
from tests.service.grown import summarised
from tests.service.talk import Talk, check_tree, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_small_chat_is_sent_as_it_is(talk: Talk) -> None:
    leaf = talk.turns(2)
    assert await talk.ingest(leaf) is False

    answer = await talk.ask(leaf)

    assert (answer["status"], answer["messages"], answer["status_text"]) == ("not_needed", None, None)
    assert answer["tokens"]["before"] == answer["tokens"]["after"]


async def test_a_summary_stands_for_exactly_the_messages_that_it_covers(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)

    answer = await talk.ask(leaf)

    assert answer["status"] == "ready"
    system, record, noted, *tail = answer["messages"]
    assert (system, record["role"], noted["role"]) == (0, "user", "assistant")
    whole = len(talk.native(leaf)) + 1
    assert tail == list(range(answer["covered_messages"] + 1, whole))
    assert answer["covered_until"] in talk.rows
    covered = [one["id"] for one in talk.path(answer["covered_until"])]
    assert len(covered) == answer["covered_messages"]
    assert answer["tokens"]["after"] < answer["tokens"]["before"]
    await check_tree(service.runtime)


async def test_requests_alone_are_enough(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20)

    first = await talk.ask(leaf)
    await service.stored()
    await drain(service.runtime)
    second = await talk.ask(talk.turns(1, leaf=leaf))

    assert first["whole"]
    assert (first["status"], second["status"]) == ("pending", "ready")
    await service.stored()
    stored = await rows(service.runtime, "select confirmed, host_id from messages")
    assert any(one.confirmed for one in stored)
    assert all(one.host_id is None for one in stored)


async def test_an_edit_in_place_is_seen_in_the_request_that_shows_it(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)
    assert (await talk.ask(leaf))["status"] == "ready"
    first = talk.path(leaf)[0]["id"]

    talk.edit(first, "Something else altogether.")

    question = talk.add("question", leaf)
    answer = await talk.ask(question)
    await service.stored()
    assert answer["status"] == "pending"
    assert answer["whole"]
    leaf = talk.add("answer", question, "assistant")
    await talk.finish(answer, leaf)
    assert not await rows(service.runtime, "select 1 from checkpoints"), "what has read the old text went with it"
    assert (await talk.ask(leaf))["whole"] is False
    await service.stored()
    hosts = [one.host_id for one in await rows(service.runtime, "select host_id from messages where confirmed")]
    assert set(hosts) == set(talk.rows)
    assert len(await rows(service.runtime, "select 1 from messages")) == len(talk.rows)
    await check_tree(service.runtime)
