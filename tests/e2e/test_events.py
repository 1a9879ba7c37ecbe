"""What is deleted or edited in Open WebUI goes from Precis too, told by `precis_events.py`."""

import pytest

from tests.e2e.rig import Rig
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


async def test_an_edit_takes_the_summaries_that_have_read_the_message(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)

    await tab.edit(path[2]["id"], "Edited.")

    await until_without_summaries(rig, str(tab.chat_id))


async def test_a_deleted_message_takes_the_summaries_that_have_read_it(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)

    await tab.delete(path[2]["id"])

    await until_without_summaries(rig, str(tab.chat_id))
