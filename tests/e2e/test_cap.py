"""The cap: no request above the model's window, whatever there is no summary for; unless the operator wants it so."""

import asyncio

from tests.e2e.model import Received
from tests.e2e.rig import WINDOW, Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import SUMMARY, well_formed
from tests.fakes.scripted_llm import Request
from tests.waiting import until


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


async def test_with_precis_away_a_long_chat_is_truncated_to_the_window(rig: Rig, tab: Tab) -> None:
    await rig.open_story(tab, 40)
    async with rig.precis.away():
        turn = await tab.send(question())

        assert_inside_the_window(rig, rig.model.received[-1])
        assert [one for one in tab.statuses(turn.answer) if "eft out" in one]
        assert (await rig.saved(str(tab.chat_id)))[turn.answer]["content"]


async def test_while_the_first_summary_is_being_written_an_interim_one_serves(rig: Rig, tab: Tab) -> None:
    released = asyncio.Event()

    async def thinking(_: Request) -> None:
        await released.wait()

    rig.summariser.thinking = thinking
    await rig.open_story(tab, 40)
    await tab.send(question())
    await until(lambda: bool(rig.summariser.requests))

    await tab.send(asked := question())

    released.set()
    rig.summariser.thinking = None
    seen = await rig.compressed()
    assert seen.tail[-1]["content"] == asked
    assert_inside_the_window(rig, rig.model.received[-1])
    await rig.settled(tab)
    await tab.send(question())
    await rig.compressed()


async def test_the_window_of_a_chats_own_parameters_goes_before_the_providers(rig: Rig, tab: Tab) -> None:
    tab.choices.params = {"num_ctx": 131_072}
    await rig.open_story(tab, 40)

    await tab.send(question())

    seen = await rig.seen()
    assert seen.hidden == []
    assert not SUMMARY.search(seen.head)
