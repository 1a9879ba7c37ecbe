"""Forks, clones and imports: the same messages under another chat's id, and nothing is summarised twice."""

import pytest

from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import facts, view


async def test_a_clone_gets_the_summary_of_its_source(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    source, asked = str(tab.chat_id), len(rig.summariser.requests)
    await tab.open(await tab.clone())

    await tab.send(question())

    assert summaries(rig) == [(await rig.checkpoints(source))[-1].summary]
    await rig.settled(tab)
    assert len(rig.summariser.requests) == asked, "the same messages were summarised twice"
    await tab.send(question())
    await rig.compressed()
    assert facts(path) <= facts(rig.model.received[-1].messages)


@pytest.mark.since("0.11.0", "forks came with it")
async def test_a_fork_after_the_boundary_gets_the_summary_of_its_source(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    source = str(tab.chat_id)
    await tab.open(await tab.fork(path[-1]["id"]))

    await tab.send(question())

    assert summaries(rig) == [(await rig.checkpoints(source))[-1].summary]


async def test_an_import_of_an_exported_chat_gets_the_summary_of_its_source(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    source = str(tab.chat_id)
    await tab.open(await tab.export_and_import())

    await tab.send(question())

    assert summaries(rig) == [(await rig.checkpoints(source))[-1].summary]


def summaries(rig: Rig) -> list[str]:
    """Our summary in the newest request, if there is one; the chat's own have no part in it."""
    found = view(rig.model.received[-1]).summary
    return [found] if found else []
