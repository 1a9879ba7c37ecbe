"""Windows of any size beside the page's own tools, whatever the provider says it counted."""

from collections.abc import Callable

import pytest

from tests.builders import Json
from tests.e2e.model import MODELS, Call, Received, Reply
from tests.e2e.precis import fact
from tests.e2e.rig import Rig, filler, question
from tests.e2e.tab import Tab
from tests.e2e.test_recall import TOOL
from tests.e2e.test_status import lines
from tests.e2e.view import facts, view

TURNS = 14
SMALL, LONG = 8192, 20  # a window, and turns in it
TOLD = 9  # facts, one in each of the first of these turns
UNUSED = ("channels", "calendar", "automations", "subagents", "notes", "skills")  # with these, tools take 7,000 tokens
ANSWER = 150  # tokens
CROWDED = 2048  # tokens
LEGACY = {"function_calling": "legacy"}  # without the page's own tools


def honest(_: Received) -> Json | None:
    """Everything is counted."""
    return None


def without_tools(received: Received) -> Json:
    """Messages alone are counted."""
    return {"prompt_tokens": received.tokens, "completion_tokens": ANSWER}


def without_cached(_: Received) -> Json:
    """What the provider has cached is left out of its count."""
    return {"prompt_tokens": 93, "completion_tokens": ANSWER}


def absent(_: Received) -> Json:
    """Nothing is told."""
    return {}


Usage = Callable[[Received], Json | None]
USAGES = (honest, without_tools, without_cached, absent)


@pytest.mark.since("0.12.0", "its page adds tools that take three quarters of a window of 8k")
@pytest.mark.parametrize("usage", USAGES, ids=lambda usage: usage.__name__)
@pytest.mark.parametrize(
    ("window", "params"),
    [(4096, LEGACY), (16_384, None), (32_768, None)],
    ids=["4k without tools", "16k", "32k"],
)
async def test_no_request_is_too_large_and_none_misses_what_is_stored(
    rig: Rig, tab: Tab, window: int, params: Json | None, usage: object
) -> None:
    assert callable(usage)
    rig.model.answer = lambda received: Reply(filler(received.question[:60], ANSWER), usage=usage(received))
    await rig.window(window)
    tab.choices.params = params
    served = False
    for _ in range(TURNS):
        known = await rig.checkpoints(str(tab.chat_id)) if tab.chat_id else []

        await tab.send(question())

        received = rig.model.received[-1]
        assert rig.size(received) <= window
        # Where tools leave 1,300 tokens, a summary cannot tell everything that it covers.
        crowded = window - received.tool_tokens < CROWDED
        seen = view(received) if crowded else await rig.seen(received)
        deepest = max((one.messages for one in known), default=0)
        shown = next((one.messages for one in known if one.summary == seen.summary), 0)
        if seen.note:
            assert shown == deepest, "messages were cut that a stored summary covers"
        if served and not crowded:
            assert facts(seen.summary), "what was laid down is in every request after the first summary"
        served = served or bool(seen.summary)
        await rig.settled(tab)


@pytest.mark.since("0.12.0", "its page adds tools that take three quarters of a window of 8k")
@pytest.mark.parametrize("usage", [honest, without_tools, absent], ids=lambda usage: usage.__name__)
@pytest.mark.parametrize("unused", [(), UNUSED], ids=["all tools", "fewer tools"])
async def test_a_page_of_8k_loses_no_fact_and_says_what_is_summarised(
    rig: Rig, tab: Tab, unused: tuple[str, ...], usage: Usage
) -> None:
    rig.model.answer = lambda received: Reply(filler(f"As for {received.question[:7]}", ANSWER), usage=usage(received))
    model: Json = {"id": MODELS[0], "base_model_id": None, "name": MODELS[0], "params": {}}
    meta = {"builtinTools": dict.fromkeys(unused, False)}
    await rig.admin.post("/api/v1/models/create", model | {"meta": meta})
    await rig.window(SMALL)  # after which Open WebUI knows the model, too
    told = [fact(f"{usage.__name__[:6]}{len(unused)}x{number}") for number in range(TOLD)]
    try:
        await converse(rig, tab, told, unused)
        found = facts(rig.model.received[-1].messages)
        if not unused:
            found |= await looked_up(rig, tab, [one for one in told if one not in found])
    finally:
        await rig.admin.post("/api/v1/models/model/delete", {"id": MODELS[0]})
    assert found >= set(told)


async def converse(rig: Rig, tab: Tab, told: list[str], unused: tuple[str, ...]) -> None:
    """Plays all turns: no request is above the window, and each with a summary has a line that says so."""
    summarised = 0
    for number in range(LONG):
        news = f"Please note: {told[number]}" if number < len(told) else "And what do you make of that?"

        turn = await tab.send(f"Turn {number}. {news}")

        received = rig.model.received[-1]
        assert rig.size(received) <= SMALL
        assert (received.tool_tokens < SMALL // 2) == bool(unused)
        if view(received).summary:
            summarised += 1
            said = await lines(rig, tab, turn.answer)
            assert any(line.startswith("Summarised ") for line in said), f"no line in turn {number}: {said}"
        await rig.settled(tab)
    assert summarised > 1


async def looked_up(rig: Rig, tab: Tab, missing: list[str]) -> set[str]:
    """The facts that a model sees which looks up these, one after the other."""
    for number, one in enumerate(missing):
        gate = one.partition(" is ")[0]
        rig.model.script.append(Reply("", (Call(f"recall-{number}", TOOL, {"query": gate}),)))
    await tab.send("Which codes do you know?")
    assert rig.size(rig.model.received[-1]) <= SMALL
    return facts(rig.model.received[-1].messages)
