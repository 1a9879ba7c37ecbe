"""The cap: no request above the model's window, whatever there is no summary for; unless the user wants it so."""

import asyncio

from tests.e2e.rig import WINDOW, Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import well_formed
from tests.fakes.scripted_llm import Request
from tests.waiting import until


async def test_with_precis_away_a_long_chat_is_truncated_to_the_window(rig: Rig, tab: Tab) -> None:
    tab.choices.system = "You are a lighthouse keeper."
    await rig.open_story(tab, 40)
    async with rig.precis.away():
        turn = await tab.send(asked := question())

        seen = await rig.seen(stored=())
        assert seen.note
        assert "lighthouse keeper" in seen.head
        assert seen.tail[-1]["content"] == asked
        assert rig.size(rig.model.received[-1]) < WINDOW
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
    well_formed(rig.model.received[-1].messages)
    assert rig.size(rig.model.received[-1]) < WINDOW


async def test_the_window_of_a_chats_own_parameters_goes_before_the_providers(rig: Rig, tab: Tab) -> None:
    tab.choices.params = {"num_ctx": 131_072}
    await rig.open_story(tab, 40)

    await tab.send(question())

    seen = await rig.seen()
    assert (seen.hidden, seen.summary) == ([], "")
