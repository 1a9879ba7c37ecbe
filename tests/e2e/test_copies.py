"""Forks, clones and imports: the same messages under another chat's id, and nothing is summarised twice."""

from collections.abc import Awaitable, Callable

import pytest

from tests.builders import Json
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import view


async def clone(tab: Tab, _: list[Json]) -> str:
    return await tab.clone()


async def fork(tab: Tab, path: list[Json]) -> str:
    return await tab.fork(path[-1]["id"])


async def export_and_import(tab: Tab, _: list[Json]) -> str:
    return await tab.export_and_import()


@pytest.mark.parametrize(
    "copy", [clone, export_and_import, pytest.param(fork, marks=pytest.mark.since("0.11.0", "forks came with it"))]
)
async def test_a_copy_gets_the_summary_of_its_source(
    rig: Rig, tab: Tab, copy: Callable[[Tab, list[Json]], Awaitable[str]]
) -> None:
    path = await rig.long_chat(tab)
    made = [one.summary for one in await rig.checkpoints(str(tab.chat_id))]
    asked = len(rig.summariser.requests)
    await tab.open(await copy(tab, path))

    await tab.send(question())

    assert view(rig.model.received[-1]).summary in made
    await rig.settled(tab)
    assert len(rig.summariser.requests) == asked, "the same messages were summarised twice"
    await tab.send(question())
    await rig.compressed()
