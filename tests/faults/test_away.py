"""A server is away: clients are told, everybody recovers by himself, and the database knows what is due.

`test_chaos.py` kills them.
"""

import asyncio

import httpx
import pytest

from tests.faults.fleet import Fleet
from tests.service.talk import Talk, long_chat
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _is_served(talk: Talk, leaf: str) -> bool:
    """Whether a request on this path gets a summary of it."""
    answer = await talk.ask(leaf)
    if answer["status"] != "ready":
        return False
    return bool(talk.path(leaf)[answer["covered_messages"] - 1]["id"] == answer["covered_until"])


def _starts(made: Fleet) -> list[int]:
    return [member.starts for member in made.of("api") + made.of("worker")]


async def test_while_postgres_is_away_requests_are_told_to_come_back_and_then_they_are_answered(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    talk, leaf = await long_chat(client, "restarted")
    await until(lambda: made.converged("restarted"), every=0.1)
    grown = talk.turns(8, leaf=leaf)
    before = _starts(made)

    async with made.away("postgres"):
        for _ in made.ports:  # of each process in turn
            asked = await client.post("/v1/compress", json=talk.request(leaf))
            handed = await talk.put(talk.turn(grown, leaf))
            for answer in (asked, handed):
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert answer.json()["type"] == "urn:precis:problem:unavailable"
        state = await client.get("/readyz")
        assert (state.status_code, state.json()["queue"]) == (503, "ok")
        assert (await client.get("/livez")).status_code == 200

    for _ in made.ports:
        assert await _is_served(talk, leaf)
    await talk.ingest(grown, leaf)
    await until(lambda: made.converged("restarted"), every=0.1)
    assert (await talk.ask(grown))["covered_messages"] > 28
    assert _starts(made) == before, "nobody had to start again"


async def test_while_redis_is_away_hand_overs_are_acknowledged_and_worked_on_later(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    before = _starts(made)
    async with made.away("redis"):
        state = await client.get("/readyz")
        assert (state.status_code, state.json()["status"]) == (200, "ok"), "requests are answered"
        assert state.json()["queue"].startswith("no answer")
        talks = await asyncio.gather(*(long_chat(client, f"without-redis-{number}") for number in range(4)))
        assert [(await talk.ask(leaf))["whole"] for talk, leaf in talks] == [False] * 4, "all is stored"

    await until(lambda: made.converged("without-redis-%"), every=0.1)

    assert all([await _is_served(*talk) for talk in talks])
    assert _starts(made) == before, "nobody had to start again"
