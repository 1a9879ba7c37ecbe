"""PostgreSQL is restarted: clients are told to come back, and everybody recovers by himself.

`test_chaos.py` kills it.
"""

import httpx
import pytest

from tests.faults.conftest import at_rest, is_served
from tests.faults.fleet import Fleet
from tests.service.talk import long_chat

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_while_postgres_is_away_requests_are_told_to_come_back_and_then_they_are_answered(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    talk, leaf = await long_chat(client, "restarted")
    await at_rest(made, "restarted")
    grown = talk.turns(8, leaf=leaf)
    before = [member.starts for member in made.of("api") + made.of("worker")]

    async with made.postgres.away():
        for _ in made.ports:  # of each process in turn
            asked = await client.post("/v1/chats/restarted/context", json=talk.question(leaf))
            handed = await talk.put(talk.transcript(grown, leaf))
            for answer in (asked, handed):
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert answer.json()["type"] == "urn:precis:problem:unavailable"
        state = await client.get("/readyz")
        assert (state.status_code, state.json()["queue"]) == (503, "ok")
        assert (await client.get("/livez")).status_code == 200

    for _ in made.ports:
        assert await is_served(talk, leaf)
    await talk.ingest(grown, leaf)
    await at_rest(made, "restarted")
    assert (await talk.ask(grown))["covered_messages"] > 28
    assert [member.starts for member in made.of("api") + made.of("worker")] == before, "nobody had to start again"
