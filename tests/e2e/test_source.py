"""The summary as a source of the answer."""

from tests.builders import Json
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab


async def sources(rig: Rig, tab: Tab, answer: str) -> list[Json]:
    """The sources that are saved with an answer."""
    return (await rig.saved(str(tab.chat_id)))[answer].get("sources") or []


async def test_the_summary_is_saved_with_the_answer_as_the_model_was_sent_it(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    await rig.valves(show_summary=True)

    turn = await tab.send(question())

    (source,) = await sources(rig, tab, turn.answer)
    seen = await rig.compressed()
    assert source["document"] == [seen.summary]
    assert source["source"]["name"] == f"Summary of {len(seen.hidden)} earlier messages"


async def test_a_later_request_is_not_changed_by_it(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    await rig.valves(show_summary=True)
    shown = await tab.send(question())
    await rig.settled(tab)

    await tab.send(question())

    assert await sources(rig, tab, shown.answer)
    seen = await rig.compressed()
    assert seen.tail[-2]["content"] == tab.messages[shown.answer]["content"]
    sent = str(rig.model.received[-1].messages)
    assert sent.count("[Previous conversation summary: ") == 1
    assert "<source" not in sent


async def test_the_documents_of_a_turn_stay_its_first_sources(rig: Rig, tab: Tab) -> None:
    """`[1]` in an answer means the first one."""
    await rig.long_chat(tab)
    await rig.valves(show_summary=True)
    file = await tab.upload("recipe.txt", b"The secret ingredient is cardamom.")

    turn = await tab.send(question(), files=[file])

    names = [one["source"]["name"] for one in await sources(rig, tab, turn.answer)]
    assert names == ["recipe.txt", f"Summary of {len((await rig.compressed()).hidden)} earlier messages"]
