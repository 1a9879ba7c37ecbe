"""Bodies that are too large, too long for their length, or cut off: refused, and nothing is stored."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.conftest import Service
from tests.service.problems import CONTEXT, LEAF, TRANSCRIPT, is_problem, three_turns
from tests.service.talk import Talk, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def talk(service: Service) -> Talk:
    return three_turns(service)


async def test_a_path_of_40000_messages_is_too_large(service: Service) -> None:
    path = [(f"id-{number}", "d" * 32) for number in range(40_000)]
    question = three_turns(service).question(LEAF)
    question |= {"depth": 40_000, "path": path, "sizes": [1] * 40_000}
    messages = [{"id": i, "fingerprint": "f", "digest": d, "role": "user", "content": ""} for i, d in path]

    problem = is_problem(await service.as_filter.post(CONTEXT, json=question), 413)
    assert "40000" in problem["detail"]
    is_problem(await service.as_filter.put(TRANSCRIPT, json={"model": "m", "user_id": "u", "messages": messages}), 413)
    assert (await tables(service.runtime))["chats"] == []


async def in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 2**18):
        yield content[start : start + 2**18]


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_a_message_of_20_mb_is_too_large(talk: Talk, service: Service, chunked: bool) -> None:
    talk.rows[LEAF]["content"] = "x" * 20 * 2**20
    body = json.dumps(talk.transcript(LEAF)).encode()

    response = await service.as_filter.put(TRANSCRIPT, content=in_pieces(body) if chunked else body)

    problem = is_problem(response, 413)
    assert problem["limit"] == 8 * 2**20
    assert (await tables(service.runtime))["chats"] == []
