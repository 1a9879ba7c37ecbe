"""What breaks around a chat: Precis is killed, or a second Open WebUI is there. The chat stays inside the window."""

import asyncio

import pytest

from tests.e2e.conftest import SETTINGS
from tests.e2e.openwebui import User, open_webui
from tests.e2e.rig import WINDOW, Rig, question
from tests.e2e.tab import Tab
from tests.e2e.tab import tab as open_tab
from tests.e2e.view import facts


async def test_precis_killed_and_started_again_in_the_middle_of_a_chat(rig: Rig, tab: Tab) -> None:
    tab.choices.system = "You are a lighthouse keeper."
    path = await rig.long_chat(tab)
    stored = await rig.checkpoints(str(tab.chat_id))
    async with rig.precis.away():
        for _ in range(2):
            turn = await tab.send(asked := question())
            seen = await rig.seen(stored=stored)
            assert seen.tail[-1]["content"] == asked
            assert rig.size(rig.model.received[-1]) < WINDOW
            assert "lighthouse keeper" in seen.head
            assert [line for line in tab.statuses(turn.answer) if line.startswith("Left out ")]
            assert seen.note, "the oldest messages are left out, and the model is told so"
            assert (await rig.saved(str(tab.chat_id)))[turn.answer]["content"]
    await rig.reach()

    for _ in range(2):
        await tab.send(question())
        await rig.settled(tab)
        await rig.compressed()
        assert facts(path) <= facts(rig.model.received[-1].messages)


async def test_two_workers_on_one_database_serve_the_same_chat_in_turn(
    rig: Rig, tab: Tab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await rig.long_chat(tab)
    other = {**SETTINGS, "DATA_DIR": str(rig.server.folder / "data")}
    folder = tmp_path_factory.mktemp("second")
    async with open_webui(rig.version, folder, rig.model.url, environment=other) as second:
        account = {"id": rig.admin.id, "name": rig.admin.name, "email": rig.admin.email, "token": rig.admin.token}
        async with open_tab(User(second, account)) as there:
            for page in (there, tab, there, tab):
                await page.open(str(tab.chat_id))
                await page.send(question())
                await rig.compressed()
                await rig.settled(page)

            await rig.long_chat(there)
            await asyncio.gather(tab.send(question()), there.send(question()))
    for received in rig.model.received[-2:]:
        assert (await rig.seen(received)).summary
