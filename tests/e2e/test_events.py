"""What is deleted or edited in Open WebUI goes in Precis too: its events, told by a function of their own."""

import pytest

from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.tab import tab as open_tab
from tests.waiting import until

pytestmark = pytest.mark.since("0.10.0", "functions of type Event")


async def is_gone(rig: Rig, chat_id: str) -> None:
    """Waits until Precis does not know the chat."""

    async def gone() -> bool:
        return await rig.precis.show(chat_id) is None

    await until(gone)


async def lost_its_summary(rig: Rig, chat_id: str) -> None:
    """Waits until no summary of the chat is stored."""

    async def lost() -> bool:
        return not await rig.checkpoints(chat_id)

    await until(lost)


async def test_a_deleted_chat_is_gone(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)

    await rig.delete_chat(str(tab.chat_id))

    await is_gone(rig, str(tab.chat_id))


async def test_a_message_edited_on_the_page_takes_its_summary_with_it(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    asked, answered = path[2], path[3]

    await tab.edit(asked["id"], "Something else, which nobody knew.")
    await lost_its_summary(rig, str(tab.chat_id))
    await tab.send(question())
    await rig.settled(tab)
    assert await rig.checkpoints(str(tab.chat_id))
    await tab.edit(answered["id"], "Another answer.")

    await lost_its_summary(rig, str(tab.chat_id))


async def test_a_chat_with_a_new_title_keeps_its_summary(rig: Rig, tab: Tab) -> None:
    """Open WebUI tells of it by the same event as of an edited message."""
    await rig.long_chat(tab)
    before = await rig.checkpoints(str(tab.chat_id))

    await rig.admin.post(f"/api/v1/chats/{tab.chat_id}", {"chat": {"title": "Another title"}})
    await tab.send(question())
    await rig.settled(tab)

    assert (await rig.checkpoints(str(tab.chat_id)))[: len(before)] == before
    assert (await rig.compressed()).summary == before[-1].summary


async def test_a_deleted_message_takes_its_summary_with_it(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)

    await tab.delete(path[2]["id"])
    await lost_its_summary(rig, str(tab.chat_id))
    await tab.send(question())
    await rig.settled(tab)

    (made,) = await rig.checkpoints(str(tab.chat_id))
    assert path[2]["id"] not in made.covers
    assert path[0]["id"] in made.covers


async def test_a_fork_stays_when_its_source_is_deleted(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    source = str(tab.chat_id)
    await tab.open(await tab.fork(path[-1]["id"]))
    await tab.send(question())
    await rig.settled(tab)
    made = await rig.checkpoints(str(tab.chat_id))

    await rig.delete_chat(source)
    await is_gone(rig, source)

    assert await rig.checkpoints(str(tab.chat_id)) == made
    await tab.send(question())
    await rig.compressed()


async def test_the_chats_of_a_deleted_folder_are_gone_and_others_stay(rig: Rig, tab: Tab) -> None:
    folder = await rig.admin.post("/api/v1/folders/", {"name": "Soon gone"})
    await rig.long_chat(tab)
    kept = str(tab.chat_id)
    await rig.long_chat(tab)
    await rig.admin.post(f"/api/v1/chats/{tab.chat_id}/folder", {"folder_id": folder["id"]})

    await rig.admin.call("DELETE", f"/api/v1/folders/{folder['id']}?delete_contents=true")

    await is_gone(rig, str(tab.chat_id))
    assert await rig.checkpoints(kept)


async def test_all_chats_of_a_user_are_gone_and_nobody_elses(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    user = await rig.server.add_user(rig.admin, "leaver")
    async with open_tab(user) as theirs:
        await theirs.send(question())
        await rig.settled(theirs)

        await user.call("DELETE", "/api/v1/chats/")

        await is_gone(rig, str(theirs.chat_id))
    assert await rig.checkpoints(str(tab.chat_id))
