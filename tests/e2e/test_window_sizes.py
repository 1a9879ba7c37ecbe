"""A window of 8,192 tokens, of which the page's own tools take three quarters, whatever the provider counts."""

import pytest

from tests.builders import Json
from tests.e2e.model import MODELS, Call, Received, Reply
from tests.e2e.precis import fact
from tests.e2e.rig import Rig, filler, question
from tests.e2e.tab import Tab
from tests.e2e.test_recall import TOOL
from tests.e2e.view import facts, view

WINDOW, TURNS = 8192, 20
TOLD = 9  # facts, one in each of the first of these turns
UNUSED = ("channels", "calendar", "automations", "subagents", "notes", "skills")  # with these, tools take 7,000 tokens
ANSWER = 150  # tokens
LOOK_UPS = 12
FIRST = 1000  # of the first one, after which a request is long enough to be sent to Precis

pytestmark = pytest.mark.since("0.12.0", "its page adds tools that take three quarters of a window of 8k")


def counted(usage: str, received: Received) -> Json | None:
    """What the provider tells; None: what was counted."""
    match usage:
        case "without tools":
            return {"prompt_tokens": received.tokens, "completion_tokens": ANSWER}
        case "absent":
            return {}
    return None


@pytest.mark.parametrize("usage", ["honest", "without tools", "absent"])
@pytest.mark.parametrize("unused", [(), UNUSED], ids=["all tools", "fewer tools"])
async def test_no_fact_is_lost_and_a_line_says_what_is_summarised(
    rig: Rig, tab: Tab, unused: tuple[str, ...], usage: str
) -> None:
    def answer(received: Received) -> Reply:
        tokens = FIRST if "Turn 0." in received.question else ANSWER
        return Reply(filler(f"As for {received.question[:7]}", tokens), usage=counted(usage, received))

    rig.model.answer = answer
    model: Json = {"id": MODELS[0], "base_model_id": None, "name": MODELS[0], "params": {}}
    meta = {"builtinTools": dict.fromkeys(unused, False)}
    await rig.admin.post("/api/v1/models/create", model | {"meta": meta})
    await rig.window(WINDOW)  # after which Open WebUI knows the model, too
    await rig.valves(skip_below_chars=24_000)  # as it is installed: the first turn is too short to be sent
    told = [fact(f"{usage[:6]}{len(unused)}x{number}".replace(" ", "")) for number in range(TOLD)]
    try:
        await converse(rig, tab, told, unused)
        found = facts(rig.model.received[-1].messages)
        if not unused:
            found |= await looked_up(rig, tab, [one for one in told if one not in found])
    finally:
        await rig.admin.post("/api/v1/models/model/delete", {"id": MODELS[0]})
    assert found >= set(told)


async def test_an_edit_another_model_and_a_long_tool_loop_leave_a_summary_and_a_true_line(rig: Rig, tab: Tab) -> None:
    model: Json = {"id": MODELS[0], "base_model_id": None, "name": MODELS[0], "params": {}}
    meta = {"builtinTools": dict.fromkeys(UNUSED, False)}
    await rig.admin.post("/api/v1/models/create", model | {"meta": meta})
    await rig.window(WINDOW)
    try:
        path = await rig.long_chat(tab)
        assert await summarised(rig, tab)

        await tab.edit(path[2]["id"], edited := f"Edited. {fact('edited')}")
        assert await summarised(rig, tab)
        sent = rig.model.received[-1].messages
        assert facts(edited) <= facts(sent)
        assert not facts([path[2]]) & facts(sent)

        tab.models, tab.choices.params = [MODELS[1]], {"num_ctx": 4 * WINDOW}
        assert await summarised(rig, tab) == 0
        tab.models, tab.choices.params = [MODELS[0]], {}
        assert await summarised(rig, tab)

        rig.model.received.clear()
        rig.model.answer = lambda _: looks_up(len(rig.model.received))
        tab.choices.tool_ids = ["look_up"]
        assert await summarised(rig, tab)
        assert len(rig.model.received) > LOOK_UPS
        for received in rig.model.received:
            assert rig.size(received) <= WINDOW
            assert view(received).summary
    finally:
        await rig.admin.post("/api/v1/models/model/delete", {"id": MODELS[0]})


def looks_up(calls: int) -> Reply:
    """Results that are larger than the window together, then an answer."""
    if calls > LOOK_UPS:
        return Reply("That was all.")
    return Reply("", (Call(f"step-{calls}", "look_up", {"topic": f"t{calls}", "size": 900}),))


async def summarised(rig: Rig, tab: Tab) -> int:
    """Sends a question; returns how many messages the line says are summarised, which is true."""
    turn = await tab.send(question())
    await rig.settled(tab)
    seen = view(rig.model.received[-1])
    line = "".join((await rig.lines(tab, turn.answer))[-1:])
    assert ("left out" in line) == bool(seen.note), line
    if not seen.summary:
        assert not line.startswith("Summarised")
        return 0
    said = int(line.removeprefix("Summarised ").split()[0])
    assert seen.note or len(seen.hidden) == said
    return said


async def converse(rig: Rig, tab: Tab, told: list[str], unused: tuple[str, ...]) -> None:
    """Plays all turns: no request is above the window, and each with a summary has a line that says so."""
    without: list[int] = []  # turns in which nothing was summarised
    for number in range(TURNS):
        news = f"Please note: {told[number]}" if number < len(told) else "And what do you make of that?"

        turn = await tab.send(f"Turn {number}. {news}")

        received = rig.model.received[-1]
        assert rig.size(received) <= WINDOW
        assert (received.tool_tokens < WINDOW // 2) == bool(unused)
        if not view(received).summary:
            without.append(number)
        else:
            said = await rig.lines(tab, turn.answer)
            assert any(line.startswith("Summarised ") for line in said), f"no line in turn {number}: {said}"
        if number > 0:
            await rig.settled(tab)
    assert without == list(range(len(without)))
    assert len(without) < (TURNS - 1 if unused else 8)


async def looked_up(rig: Rig, tab: Tab, missing: list[str]) -> set[str]:
    """The facts that a model sees which looks up these, one after the other."""
    for number, one in enumerate(missing):
        gate = one.partition(" is ")[0]
        rig.model.script.append(Reply("", (Call(f"recall-{number}", TOOL, {"query": gate}),)))
    await tab.send("Which codes do you know?")
    assert rig.size(rig.model.received[-1]) <= WINDOW
    return facts(rig.model.received[-1].messages)
