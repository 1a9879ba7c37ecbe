"""The cap: no request above the model's window, whatever there is no summary for; unless the operator wants it so."""

from tests.e2e.model import Received
from tests.e2e.rig import WINDOW, Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import SUMMARY, well_formed


def assert_inside_the_window(rig: Rig, received: Received) -> None:
    well_formed(received.messages)
    assert rig.size(received) < WINDOW


async def test_a_chat_that_precis_has_no_time_to_read_is_truncated_to_the_window(rig: Rig, tab: Tab) -> None:
    tab.choices.system = "You are a lighthouse keeper."
    await rig.open_story(tab, 40)
    await rig.valves(timeout=0.05)

    turn = await tab.send(asked := question())

    seen = await rig.seen()
    assert seen.hidden
    assert seen.note
    assert "lighthouse keeper" in seen.head
    assert seen.tail[-1]["content"] == asked
    assert_inside_the_window(rig, rig.model.received[-1])
    assert [one for one in tab.statuses(turn.answer) if "eft out" in one]


async def test_the_window_of_a_chats_own_parameters_goes_before_the_providers(rig: Rig, tab: Tab) -> None:
    tab.choices.params = {"num_ctx": 131_072}
    await rig.open_story(tab, 40)

    await tab.send(question())

    seen = await rig.seen()
    assert seen.hidden == []
    assert not SUMMARY.search(seen.head)
