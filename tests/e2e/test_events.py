"""Chats that are deleted in Open WebUI go from Precis too, as told by `precis_events.py`."""

import pytest

from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.tab import tab as open_tab

pytestmark = pytest.mark.since("0.10.0", "functions of type Event came with it")


async def test_the_chats_of_a_deleted_folder_go_and_others_stay(rig: Rig, tab: Tab) -> None:
    """By one event without their ids."""
    folder = await rig.admin.post("/api/v1/folders/", {"name": "Soon gone"})
    await rig.long_chat(tab)
    kept = str(tab.chat_id)
    await rig.long_chat(tab)
    await rig.admin.post(f"/api/v1/chats/{tab.chat_id}/folder", {"folder_id": folder["id"]})

    await rig.admin.call("DELETE", f"/api/v1/folders/{folder['id']}?delete_contents=true")

    await rig.forgotten(str(tab.chat_id))
    assert await rig.checkpoints(kept)


@pytest.mark.parametrize("what", ["one", "all"])
async def test_the_deleted_chats_of_a_user_go_and_nobody_elses(rig: Rig, tab: Tab, what: str) -> None:
    await rig.long_chat(tab)
    user = await rig.server.add_user(rig.admin, f"leaver-{what}")
    async with open_tab(user) as theirs:
        await theirs.send(question())
        await rig.settled(theirs)

        await user.call("DELETE", f"/api/v1/chats/{theirs.chat_id if what == 'one' else ''}")

        await rig.forgotten(str(theirs.chat_id))
    assert await rig.checkpoints(str(tab.chat_id))
