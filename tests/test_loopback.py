"""The guard of all tests bites: whoever tries to reach another machine gets an error, and the test fails."""

import asyncio
import socket

import asyncpg
import httpx
import pytest

from tests.loopback import BeyondLoopback

ELSEWHERE = "192.0.2.1"  # an address for documentation, which nobody has


def test_a_socket_gets_no_further(tried_beyond: list[str]) -> None:
    with socket.socket() as one, pytest.raises(BeyondLoopback):
        one.connect((ELSEWHERE, 80))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, pytest.raises(BeyondLoopback):
        one.connect_ex((ELSEWHERE, 53))

    assert tried_beyond == [ELSEWHERE] * 2
    tried_beyond.clear()


def test_a_name_is_not_looked_up(tried_beyond: list[str]) -> None:
    with pytest.raises(BeyondLoopback):
        socket.create_connection(("elsewhere.test", 80))

    assert tried_beyond == ["elsewhere.test"]
    tried_beyond.clear()


async def test_what_the_service_connects_with_gets_no_further(tried_beyond: list[str]) -> None:
    with pytest.raises(BeyondLoopback):
        await asyncio.open_connection(ELSEWHERE, 80)
    with pytest.raises(BeyondLoopback):
        await asyncpg.connect(f"postgresql://u@{ELSEWHERE}/d")
    async with httpx.AsyncClient() as http:
        with pytest.raises(httpx.ConnectError):  # it can be swallowed, so the guard notes it too
            await http.get(f"http://{ELSEWHERE}/")

    assert set(tried_beyond) == {ELSEWHERE}
    tried_beyond.clear()
