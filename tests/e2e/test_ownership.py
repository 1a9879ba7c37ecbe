"""Any signed-in user may name any chat up to 0.10: Precis neither stores nor shows it to them."""

import contextlib

from tests.e2e.openwebui import RefusedError
from tests.e2e.rig import Rig, filler
from tests.e2e.tab import Tab


async def test_a_chat_is_not_taken_over_by_another_user(rig: Rig, tab: Tab) -> None:
    await rig.open_story(tab, 22)  # which Precis does not know, so the first who sends it would own it
    thief = await rig.server.add_user(rig.admin, "thief")
    mine = [
        {"id": "x1", "role": "user", "content": filler("Take it over.", 4000)},
        {"id": "x2", "role": "assistant", "content": filler("Done.", 4000)},
    ]
    body = {"model": tab.models[0], "chat_id": tab.chat_id, "id": "x2", "session_id": "s", "messages": mine}

    with contextlib.suppress(RefusedError):  # since 0.11 Open WebUI says no itself
        await thief.post("/api/chat/completed", body)
    await tab.send("And now?")
    await rig.settled(tab)

    shown = await rig.precis.show(str(tab.chat_id))
    assert shown
    assert shown["chat"]["user_id"] == rig.admin.id
    assert [branch["leaf_id"] for branch in shown["branches"]] == [tab.current]
