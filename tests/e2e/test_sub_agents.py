"""Sub-agents: the model hands a task to another run of itself, which works in a chat of its own.

Open WebUI makes that chat with one question, the task, and one answer, however many tools that takes (`delegate` in its
`utils/subagents.py`). The page lists it nowhere, and opens it by its address like any other, so it can go on.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from service.transcript import count_stored_tokens
from tests.e2e.look_up_tool import result
from tests.e2e.model import Call, Received, Reply
from tests.e2e.rig import WINDOW, Rig, filler, question
from tests.e2e.tab import Tab
from tests.e2e.view import facts

pytestmark = pytest.mark.since("0.11.2", "sub-agents came with 0.11.0, the `request` hook with 0.11.2")
CONFIG = "/api/v1/configs/subagents"
TASK = "Find out about the pumps."
STEPS, SIZE = 14, 900


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def sub_agents(rig: Rig, tab: Tab) -> AsyncIterator[None]:
    """An admin has switched them on; they have a tool, and work with it for long."""
    before = await rig.admin.get(CONFIG)
    await rig.admin.post(CONFIG, before | {"ENABLE_SUBAGENTS": True, "SUBAGENTS_BACKGROUND_ENABLED": True})
    tab.choices.tool_ids = ["look_up"]
    rig.model.answer = working
    yield
    await rig.admin.post(CONFIG, before)


def working(received: Received) -> Reply:
    """A sub-agent looks up one thing after the other, then answers; anybody else answers at once."""
    done = sum(one["role"] == "tool" for one in received.messages)
    if of_a_sub_agent(received) and done < STEPS:
        return Reply("", (Call(f"step-{done}", "look_up", {"topic": f"t{done}", "size": SIZE}),))
    return Reply(filler(received.question.splitlines()[-1][:80], 300))


def of_a_sub_agent(received: Received) -> bool:
    return received.question.startswith(TASK)


async def delegate(rig: Rig, tab: Tab) -> str:
    """A turn whose model delegates a task with a fact in it; returns the task."""
    task = f"{TASK} {question()}"
    rig.model.script.append(Reply("", (Call("delegated", "delegate_task", {"task": task}),)))
    await tab.send(question())
    return task


def work(rig: Rig) -> list[Received]:
    return [one for one in rig.model.received if of_a_sub_agent(one)]


def chat_of(received: Received) -> str:
    assert received.built
    return str(received.built.metadata["chat_id"])


async def test_a_sub_agents_long_work_is_inside_the_window_and_ingested_and_goes_on_with_a_summary(
    rig: Rig, tab: Tab
) -> None:
    task = await delegate(rig, tab)

    calls = work(rig)
    assert len(calls) == STEPS + 1
    loop = STEPS * count_stored_tokens({"role": "tool", "content": result("t1", SIZE)})
    assert loop + calls[-1].tool_tokens > WINDOW
    (chat,) = {chat_of(one) for one in calls}
    assert chat != tab.chat_id
    for received in calls:
        seen = await rig.seen(received)
        assert [one["content"] for one in seen.tail] == [task]
        called = [call["id"] for one in seen.added for call in one.get("tool_calls") or ()]
        assert [one["tool_call_id"] for one in seen.added if one["role"] == "tool"] == called
        assert rig.size(received) < WINDOW
    (answer,) = [one for one, message in (await rig.saved(chat)).items() if message["role"] == "assistant"]
    await rig.precis.settled(chat, answer)
    shown = await rig.precis.show(chat)
    assert shown
    assert shown["chat"]["path_tokens"] > loop, "not all of its work was handed over"

    await tab.open(chat)
    await tab.send(question())
    await rig.settled(tab)
    await tab.send(asked := question())
    seen = await rig.compressed()
    assert [one["content"] for one in seen.hidden if one["role"] == "user"] == [task]
    assert facts(task) <= facts(seen.summary)
    assert seen.tail[-1]["content"] == asked
