"""Twenty kills of real processes under the traffic of fifty chats. `./scripts/chaos` does it as often as it is told."""

import pytest

from tests.faults import chaos
from tests.folders import temporary_folder


@pytest.mark.slow
async def test_kill_9_of_anything_loses_nothing_doubles_nothing_and_all_chats_converge() -> None:
    with temporary_folder() as folder:
        figures = await chaos.run(folder, kills=20, seed=1)

    assert figures.faults == []
    assert figures.good
    assert figures.kills == 20
    assert figures.served
    assert figures.llm_calls_wasted < figures.llm_calls
