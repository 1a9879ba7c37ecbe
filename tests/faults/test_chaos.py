"""Twenty kills of real processes under the traffic of fifty chats. `./scripts/chaos` does it as often as it is told."""

import httpx
import pytest

from tests.faults.chaos import CHATS, play
from tests.faults.fleet import Fleet
from tests.faults.traffic import Traffic

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_kill_9_of_anything_loses_nothing_doubles_nothing_and_all_chats_converge(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    figures = await play(made, Traffic(client, CHATS, seed=1), kills=20, seed=1)

    assert figures.faults == []
    assert figures.good
    assert figures.kills == 20
    assert figures.served
    assert figures.llm_calls_wasted < figures.llm_calls
