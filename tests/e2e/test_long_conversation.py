"""A conversation of 80 turns with native tools, twice over the window, checked at every turn."""

from collections.abc import Sequence
from itertools import pairwise

from service.transcript import count_stored_tokens
from tests.builders import Json
from tests.e2e.look_up_tool import result
from tests.e2e.model import Call, Received, Reply
from tests.e2e.rig import Rig, filler, question
from tests.e2e.tab import Tab
from tests.e2e.view import View, facts

TURNS = 80
WINDOW = 32_768  # of which Open WebUI's own tool specifications take a quarter
TOOL_EVERY, TOOL_SIZES = 3, (900, 600)
RESULTS = {result("pumps", size) for size in TOOL_SIZES}


def answer(received: Received) -> Reply:
    """Every third question is looked up first, in two steps; the answers have some 500 tokens."""
    asked = received.question
    number = int(asked.split("number ")[1].split(".")[0])
    looked = sum(one["role"] == "tool" for one in received.messages[_newest_question(received.messages) :])
    if number % TOOL_EVERY == 0 and looked < 2:
        call = Call(f"call-{number}-{looked}", "look_up", {"topic": "pumps", "size": TOOL_SIZES[looked]})
        return Reply("Let me see.", (call,))
    return Reply(filler(f"Answer to number {number}", 500))


def whole(message: Json) -> bool:
    """Whether a tool result, if it is one, is as the tool gave it."""
    return message["role"] != "tool" or message["content"] in RESULTS


def _newest_question(messages: Sequence[Json]) -> int:
    return max(index for index, one in enumerate(messages) if one["role"] == "user")


async def test_eighty_turns_with_native_tools_twice_over_the_window(rig: Rig, tab: Tab) -> None:
    await rig.window(WINDOW)
    rig.model.answer = answer
    tab.choices.tool_ids = ["look_up"]
    asked, views = list[str](), list[View]()
    for _ in range(TURNS):
        before = len(rig.model.received)
        asked.append(question())
        await tab.send(asked[-1])
        calls = rig.model.received[before:]
        views.append(await rig.seen(calls[0]))
        for call in calls:
            assert rig.size(call) < WINDOW
            seen = await rig.seen(call)
            assert (seen.head, seen.tail) == (views[-1].head, views[-1].tail), "the prefix changed inside a turn"
            assert facts(call.messages) == facts(" ".join(asked)), "a fact is nowhere in the request"
            assert all(map(whole, seen.added)), "a result of this turn was cut, though there was room"
        await rig.settled(tab)

    shown = await rig.precis.show(str(tab.chat_id))
    assert shown
    assert shown["chat"]["title"] == "A scripted chat", "operators see the title that Open WebUI's own task has made"
    path = await rig.path(tab)
    built = rig.model.received[-1].built
    assert built
    assert sum(map(count_stored_tokens, built.messages)) > 2 * WINDOW
    assert len(path) == 2 * TURNS
    assert len(await rig.checkpoints(str(tab.chat_id))) >= 3
    assert_stable(views)


def assert_stable(views: Sequence[View]) -> None:
    """From turn to turn a request begins with the same bytes, except where a new summary came.

    That is in one turn of five at most, so that providers' caches hold in the others.
    """
    for before, after in pairwise(views):
        if before.summary == after.summary:
            assert before.head == after.head
            assert before.tail == after.tail[: len(before.tail)]
    changes = sum(before.summary != after.summary for before, after in pairwise(views))
    assert 0 < changes <= TURNS // 5, f"the prefix changed {changes} times in {len(views)} turns"
