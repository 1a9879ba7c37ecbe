"""What a chat may consist of beside plain text, on a chat that has a summary: what reaches the model each time."""

import base64

import pytest

from tests.e2e.model import Call, Reply, plain
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import SUMMARY

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

# What Open WebUI's own tools of this name return, it cites: it builds the system message anew.
CITING = '''
class Tools:
    async def fetch_url(self, url: str) -> str:
        """Reads a page."""
        return "Wind from the west."
'''


async def test_an_attached_file_reaches_the_model_with_its_question(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    file = await tab.upload("recipe.txt", b"The secret ingredient is cardamom.")

    await tab.send(asked := question(), files=[file])

    seen = await rig.compressed()
    assert asked in plain(seen.tail[-1]["content"])
    assert "cardamom" in str(rig.model.received[-1].messages)


async def test_an_image_reaches_the_model_and_the_chat_goes_on_with_its_summary(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    await tab.send(question(), files=[await tab.upload("pixel.png", PIXEL, "image/png")])
    seen = await rig.compressed()
    assert seen.tail[-1]["content"][-1]["type"] == "image_url"
    await rig.settled(tab)

    await tab.send(question())

    seen = await rig.compressed()
    assert "image_url" in str(seen.tail[-3]["content"])


@pytest.mark.since("0.11.2", "the `request` hook came with it")
async def test_system_prompt_and_summary_stand_in_the_calls_after_a_citing_tool(rig: Rig, tab: Tab) -> None:
    form = {"id": "citing", "name": "citing", "content": CITING, "meta": {"description": "", "manifest": {}}}
    await rig.admin.post("/api/v1/tools/create", form)
    tab.choices.system = "You are a lighthouse keeper."
    await rig.long_chat(tab)
    tab.choices.tool_ids = ["citing"]
    before = len(rig.model.received)
    for number in range(2):
        rig.model.script.append(Reply("", (Call(f"cited-{number}", "fetch_url", {"url": "http://wind.example"}),)))

    await tab.send(question())

    await rig.admin.call("DELETE", "/api/v1/tools/id/citing/delete")
    first, *later = rig.model.received[before:]
    assert len(later) == 2
    assert all("<source" in str(one.messages) for one in later), "nothing was cited"
    for received in (first, *later):
        assert "lighthouse keeper" in str(received.messages[0]["content"])
        assert any(SUMMARY.search(str(one["content"])) for one in received.messages[:3])


@pytest.mark.since("0.12.0", "tools that wait for an approval came with it")
async def test_a_tool_that_waited_for_approval_goes_on_with_the_summary(rig: Rig, tab: Tab) -> None:
    config = await rig.admin.get("/api/v1/chats/config")
    await rig.admin.post("/api/v1/chats/config", {**config, "ENABLE_TOOL_PERMISSIONS": True})
    await rig.long_chat(tab)
    tab.choices.tool_ids = ["look_up"]
    rig.model.script.append(Reply("", (Call("c1", "look_up", {"topic": "pumps", "size": 60}),)))
    tab.choices.params = {"tool_approval_mode": "ask"}
    turn = await tab.send(question())

    resolve = f"/api/v1/chats/{tab.chat_id}/messages/{turn.answer}/resolve"
    await rig.admin.post(resolve, {"call_id": "c1", "action": "approve"})
    await tab.finished(turn)

    await rig.compressed()
    assert [one["role"] for one in rig.model.received[-1].messages[-2:]] == ["assistant", "tool"]
    await rig.admin.post("/api/v1/chats/config", config)


async def test_the_window_of_a_chats_own_parameters_goes_before_the_providers(rig: Rig, tab: Tab) -> None:
    tab.choices.params = {"num_ctx": 131_072}
    await rig.open_story(tab, 40)

    await tab.send(question())

    seen = await rig.seen()
    assert (seen.hidden, seen.summary) == ([], "")
