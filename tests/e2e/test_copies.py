"""Forks, clones and imports: the same messages under another chat's id, and nothing is summarised twice."""

import pytest

from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.tab import tab as open_tab
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


async def test_another_users_copy_does_not_get_the_summary(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    lent = {one.summary for one in await rig.checkpoints(str(tab.chat_id))}
    exported = await rig.admin.get(f"/api/v1/chats/{tab.chat_id}")
    other = await rig.server.add_user(rig.admin, "other")
    async with open_tab(other) as theirs:
        (imported,) = await other.post("/api/v1/chats/import", {"chats": [{"chat": exported["chat"]}]})
        await theirs.open(imported["id"])

        await theirs.send(question())
        own = {one.summary for one in await rig.checkpoints(str(imported["id"]))}

    assert set(summaries(rig)) <= own - lent


def summaries(rig: Rig) -> list[str]:
    """Our summary in the newest request, if there is one; the chat's own have no part in it."""
    found = view(rig.model.received[-1]).summary
    return [found] if found else []
