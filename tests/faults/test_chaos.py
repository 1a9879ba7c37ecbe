"""Twenty kills of real processes under the traffic of fifty chats. `./scripts/chaos` does it as often as it is told."""

import shutil

import pytest

from tests.faults import chaos
from tests.faults.fleet import reachable_folder


@pytest.mark.slow
async def test_kill_9_of_anything_loses_nothing_doubles_nothing_and_all_chats_converge() -> None:
    folder = reachable_folder("precis-faults-")
    try:
        figures = await chaos.run(folder, kills=20, seed=1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    assert figures.faults == []
    assert figures.good
    assert figures.kills == 20
    assert figures.served
    assert figures.llm_calls_wasted < figures.llm_calls
