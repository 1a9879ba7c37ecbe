"""The status line under an answer."""

import re

from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab


async def lines(rig: Rig, tab: Tab, answer: str) -> list[str]:
    """The status lines that are saved with an answer."""
    saved = (await rig.saved(str(tab.chat_id)))[answer]
    return [one["description"] for one in saved.get("statusHistory") or []]


async def test_the_status_of_a_compressed_turn_is_saved_with_the_answer(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)

    turn = await tab.send(question())

    (line,) = await lines(rig, tab, turn.answer)
    assert re.fullmatch(r"Summarised \d+ earlier messages: \d+k → \d+k tokens", line)
    assert tab.statuses(turn.answer) == [line]
