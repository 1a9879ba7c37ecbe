"""What is deleted or edited in Open WebUI goes from Precis too, told by `precis_events.py`."""

import pytest

from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.waiting import until

pytestmark = pytest.mark.since("0.10.0", "functions of type Event came with it")


async def until_without_summaries(rig: Rig, chat_id: str) -> None:
    async def gone() -> bool:
        return not await rig.checkpoints(chat_id)

    await until(gone)


async def test_a_deleted_chat_goes_with_its_summaries(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)

    await rig.delete_chat(str(tab.chat_id))

    await rig.forgotten(str(tab.chat_id))


async def test_a_deleted_chat_leaves_its_clone_alone(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    source = str(tab.chat_id)
    await tab.open(await tab.clone())
    await tab.send(question())
    await rig.settled(tab)

    await rig.delete_chat(source)

    await rig.forgotten(source)
    await tab.send(question())
    await rig.compressed()


async def test_an_edit_takes_the_summaries_that_have_read_the_message(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)

    await tab.edit(path[2]["id"], "Edited.")

    await until_without_summaries(rig, str(tab.chat_id))


async def test_a_deleted_message_takes_the_summaries_that_have_read_it(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)

    await tab.delete(path[2]["id"])

    await until_without_summaries(rig, str(tab.chat_id))


async def test_an_edit_below_the_boundary_leaves_the_summaries(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    before = await rig.checkpoints(str(tab.chat_id))

    await tab.edit(path[-2]["id"], "Edited.")
    await tab.send(question())
    await rig.settled(tab)

    assert (await rig.checkpoints(str(tab.chat_id)))[: len(before)] == before


async def test_the_chat_goes_on_after_an_edit(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    await tab.edit(path[2]["id"], "Edited.")
    await until_without_summaries(rig, str(tab.chat_id))

    await tab.send(question())
    await rig.settled(tab)
    await tab.send(question())

    await rig.compressed()
