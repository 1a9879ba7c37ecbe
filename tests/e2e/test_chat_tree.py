"""What users do to the tree of a chat that has a summary, as Open WebUI builds the requests of it.

`rig.seen` checks what must hold of every request: well-formed, nothing hidden that the summary does not cover, nothing
covered sent again, no summary of another branch, the rest as Open WebUI built it. Any order of it: `test_fuzz.py`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest

from tests.builders import Json
from tests.e2e.model import Reply
from tests.e2e.precis import fact
from tests.e2e.rig import WINDOW, Rig, question
from tests.e2e.tab import Tab
from tests.e2e.versions import since
from tests.e2e.view import facts
from tests.waiting import until


async def test_a_turn_that_is_regenerated_as_told_and_continued_has_the_summary(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    rig.model.script.append(Reply("The first half"))

    turn = await tab.send(asked := question())

    seen = await rig.compressed()
    first = rig.model.received[-1]
    stored = await rig.checkpoints(str(tab.chat_id))
    (made,) = [one for one in stored if one.summary == seen.summary]
    assert facts(seen.hidden) == facts(path[: made.messages])
    assert seen.tail[-1]["content"] == asked
    assert rig.size(first) < WINDOW
    lines = [line for one in await rig.path(tab) for line in await rig.lines(tab, one["id"])]
    assert lines.count(made.summary) == 1, "one line opens to what stands for the chat: where it began to"
    assert re.fullmatch(r"Summarised \d+ earlier messages: \d+k → \d+k tokens", lines[-1])
    await rig.settled(tab)

    await tab.regenerate(turn.answer)
    await rig.compressed()
    assert rig.model.received[-1].messages == first.messages

    await tab.regenerate(turn.answer, "Make it shorter.")
    seen = await rig.compressed()
    assert seen.tail[-1]["content"] == "Make it shorter."
    assert asked in [one["content"] for one in seen.tail[-3:-1]]

    await tab.go_on(turn.answer)
    seen = await rig.compressed()
    assert (seen.tail[-1]["role"], seen.tail[-1]["content"]) == ("assistant", "The first half")


async def edit_a_question(tab: Tab, path: list[Json]) -> None:
    await tab.edit(path[2]["id"], f"Edited. {fact(path[2]['id'][:4] + 'e')}")


async def edit_an_answer(tab: Tab, path: list[Json]) -> None:
    await tab.edit(path[3]["id"], f"I was wrong. {fact(path[3]['id'][:4] + 'e')}")


async def delete_a_turn(tab: Tab, path: list[Json]) -> None:
    await tab.delete(path[4]["id"])


@pytest.mark.parametrize("change", [edit_a_question, edit_an_answer, delete_a_turn])
async def test_after_a_change_above_the_boundary_nothing_is_missing_and_nothing_old_is_there(
    rig: Rig, tab: Tab, change: Callable[[Tab, list[Json]], Awaitable[None]]
) -> None:
    async def is_forgotten() -> bool:
        return not await rig.checkpoints(str(tab.chat_id))

    path = await rig.long_chat(tab)
    await change(tab, path)
    if since(rig.version, "0.10"):  # functions of type Event came with it
        await until(is_forgotten)
    for _ in range(2):
        await tab.send(question())

        await rig.compressed()
        assert facts(rig.model.received[-1].messages) == facts(await rig.path(tab))
        await rig.settled(tab)


async def test_after_answers_that_broke_off_or_were_stopped_the_chat_goes_on(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    rig.model.script.append(Reply("This breaks off in the middle of the sentence.", breaks=True))
    await tab.send(question())
    rig.model.script.append(Reply("Half of this was said before the stop.", hold=asyncio.Event()))
    turn = await tab.send(question(), wait=False)
    await until(lambda: "Half of" in str(tab.events))
    await tab.stop(turn)

    await tab.send(question())

    seen = await rig.compressed()
    assert [one["role"] for one in seen.tail[-3:]] == ["user", "assistant", "user"]
