"""How much of requests the process holds: the bytes of all bodies together, and the values in each of them."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from service import app
from service.api import bodies
from service.runtime import Urls
from service.settings import load
from tests.conftest import Service, fresh_database, serving
from tests.service.problems import COMPRESS, LEAF, TURNS, is_problem, three_turns
from tests.service.talk import tables
from tests.service.test_connections import line, upload
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_service(servers: Urls) -> AsyncIterator[Service]:
    """In the place of the service that other tests share: one that holds one large body."""
    async with fresh_database(servers) as urls:
        settings = load(database_url=urls.database, redis_url=urls.redis, window=8192, max_body_bytes=2**20)
        with pytest.MonkeyPatch.context() as constants:
            constants.setattr(app, "BODIES", 1)
            constants.setattr(bodies, "MOST_VALUES", 5000)
            async with serving(settings) as started:
                yield started


def large(service: Service) -> bytes:
    """A hand-over of a little more than half of what is held."""
    talk = three_turns(service)
    talk.edit(LEAF, "A sentence of nine words that says very little. " * 12_000)
    return json.dumps(talk.turn(LEAF)).encode()


async def status(service: Service, body: bytes) -> int:
    return (await service.as_filter.post(TURNS, content=body)).status_code


async def test_a_body_that_does_not_fit_beside_another_is_refused_for_the_moment(service: Service) -> None:
    body = large(service)
    async with line(service) as first:
        await first.send(upload(service, len(body)) + body[:-1])

        async def refused() -> bool:
            response = await service.as_filter.post(TURNS, content=body)
            if response.status_code == 202:
                return False  # the first one has not come that far
            assert is_problem(response, 503)["type"] == "urn:precis:problem:busy"
            assert response.headers["retry-after"] == "1"
            return True

        await until(refused)
        asked = three_turns(service).request(LEAF)
        assert (await service.as_filter.post(COMPRESS, json=asked)).status_code == 200, "small ones are not counted"
        await first.send(body[-1:])
        assert (await first.answer()).status == 202

    assert await status(service, body) == 202


async def test_what_a_client_that_is_gone_has_sent_counts_no_more(service: Service) -> None:
    body = large(service)
    for _ in range(3):
        async with line(service) as gone:
            await gone.send(upload(service, len(body)) + body[:-1])

    async def taken() -> bool:
        return await status(service, body) == 202

    await until(taken)


async def test_a_body_of_many_small_values_is_refused(service: Service) -> None:
    before = await tables(service.runtime)
    messages = f'{{"model": "m", "messages": [{"1," * 6000}1]}}'

    for where in (TURNS, COMPRESS):
        problem = is_problem(await service.as_filter.post(where, content=messages.encode()), 413)
        assert problem["limit"] == 5000
    assert await tables(service.runtime) == before
