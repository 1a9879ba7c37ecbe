"""A long tool loop in one turn, which the `request` hook keeps inside the window."""

import json

import pytest

from service.transcript import count_stored_tokens
from tests.builders import Json
from tests.e2e.look_up_tool import result
from tests.e2e.model import Call, Received, Reply
from tests.e2e.rig import WINDOW, Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import SUMMARY, well_formed

pytestmark = pytest.mark.since("0.11.2", "the `request` hook came with it")
STEPS, SIZE = 14, 900

# What Open WebUI's own tools return whose results it cites; after one it builds the system message anew.
FILE = {"id": "f1", "filename": "wind.txt", "content": "Wind from the west."}
CHUNKS = [{"source": "wind.txt", "file_id": "f1", "content": "Wind from the west."}]
CITED = {
    "fetch_url": "Wind from the west.",
    "view_file": json.dumps(FILE),
    "view_knowledge_file": json.dumps(FILE),
    "query_knowledge_files": json.dumps(CHUNKS),
    "query_chat_files": json.dumps(CHUNKS),
}
CITING = "class Tools:\n" + "".join(
    f'    async def {name}(self, url: str) -> str:\n        """Reads."""\n        return {told!r}\n'
    for name, told in CITED.items()
)


def look_up_on(received: Received) -> Reply:
    """One look-up after the other, then an answer."""
    done = len(results(received.messages))
    if done == STEPS:
        return Reply("That was all.")
    return Reply("", (Call(f"step-{done}", "look_up", {"topic": f"t{done}", "size": SIZE}),))


def results(messages: list[Json]) -> list[str]:
    return [one["content"] for one in messages if one["role"] == "tool"]


async def run(rig: Rig, tab: Tab) -> str:
    """A turn with a loop of tool calls that are larger than the window together; returns the answer's id."""
    rig.model.answer = look_up_on
    tab.choices.tool_ids = ["look_up"]
    return (await tab.send(question())).answer


async def test_every_call_of_a_long_tool_loop_is_inside_the_window_and_what_is_saved_is_whole(
    rig: Rig, tab: Tab
) -> None:
    answer = await run(rig, tab)

    assert len(rig.model.received) == STEPS + 1
    loop = STEPS * count_stored_tokens({"role": "tool", "content": result("t1", SIZE)})
    assert loop + rig.model.received[-1].tool_tokens > WINDOW
    for number, received in enumerate(rig.model.received):
        well_formed(received.messages)
        assert rig.size(received) < WINDOW
        assert len(results(received.messages)) == number
    output = (await rig.saved(str(tab.chat_id)))[answer]["output"]
    kept = ["".join(part["text"] for part in one["output"]) for one in output if one["type"] == "function_call_output"]
    assert kept == [result(f"t{number}", SIZE) for number in range(STEPS)]
    await rig.settled(tab)

    await tab.send(question())

    await rig.seen()
    assert rig.size(rig.model.received[-1]) < WINDOW


@pytest.mark.parametrize("name", CITED)
async def test_system_prompt_and_summary_stand_in_the_calls_after_a_citing_tool(rig: Rig, tab: Tab, name: str) -> None:
    form = {"id": "citing", "name": "citing", "content": CITING, "meta": {"description": "", "manifest": {}}}
    await rig.admin.post("/api/v1/tools/create", form)
    tab.choices.system = "You are a lighthouse keeper."
    await rig.long_chat(tab)
    tab.choices.tool_ids = ["citing"]
    before = len(rig.model.received)
    for number in range(2):
        rig.model.script.append(Reply("", (Call(f"cited-{number}", name, {"url": "http://wind.example"}),)))

    await tab.send(question())

    await rig.admin.call("DELETE", "/api/v1/tools/id/citing/delete")
    first, *later = rig.model.received[before:]
    assert len(later) == 2
    assert all("<source" in str(one.messages) for one in later), "nothing was cited"
    for received in (first, *later):
        assert "lighthouse keeper" in str(received.messages[0]["content"])
        assert any(SUMMARY.search(str(one["content"])) for one in received.messages[:3])
