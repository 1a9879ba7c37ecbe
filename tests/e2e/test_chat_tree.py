"""Everything that users do to the tree of a chat, on a chat that has a summary: what reaches the model each time.

`rig.seen` checks what must hold of every request: well-formed, nothing hidden that the summary does not cover, nothing
covered sent again, no summary of another branch, the rest as Open WebUI built it.
"""

import asyncio

from tests.e2e.model import MODELS, Reply
from tests.e2e.precis import fact
from tests.e2e.rig import WINDOW, Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import facts
from tests.waiting import until


async def test_the_next_turn_carries_the_summary_and_the_tail(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)

    await tab.send(asked := question())

    seen = await rig.seen()
    (*_, made) = await rig.checkpoints(str(tab.chat_id))
    assert seen.summary == made.summary
    assert facts(seen.hidden) == facts(path[: made.messages])
    assert seen.tail[-1]["content"] == asked
    assert rig.size(rig.model.received[-1]) < WINDOW


async def test_a_regenerated_answer_gets_the_same_request(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    turn = await tab.send(question())
    first = rig.model.received[-1]
    await rig.settled(tab)

    await tab.regenerate(turn.answer)

    await rig.compressed()
    assert rig.model.received[-1].messages == first.messages


async def test_a_guided_regeneration_keeps_the_question_and_the_instruction(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    turn = await tab.send(asked := question())

    await tab.regenerate(turn.answer, "Make it shorter.")

    seen = await rig.compressed()
    assert seen.tail[-1]["content"] == "Make it shorter."
    assert asked in [one["content"] for one in seen.tail[-3:-1]]


async def test_a_continued_answer_is_sent_with_what_it_said_so_far(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    rig.model.script.append(Reply("The first half"))
    turn = await tab.send(question())

    await tab.go_on(turn.answer)

    seen = await rig.compressed()
    assert (seen.tail[-1]["role"], seen.tail[-1]["content"]) == ("assistant", "The first half")
    await tab.send(question())
    await rig.compressed()


async def test_a_question_edited_and_sent_again_below_the_boundary_keeps_the_summary(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    below = next(one for one in reversed(path) if one["role"] == "user")

    await tab.edit_and_send(below["id"], asked := question())

    seen = await rig.compressed()
    assert seen.tail[-1]["content"] == asked
    assert not facts([below]) & facts(rig.model.received[-1].messages)


async def test_a_question_edited_and_sent_again_above_the_boundary_gets_no_summary_of_the_other_branch(
    rig: Rig, tab: Tab
) -> None:
    path = await rig.long_chat(tab)

    await tab.edit_and_send(path[6]["id"], asked := question())

    seen = await rig.seen()
    assert (seen.summary, seen.hidden) == ("", [])
    assert facts(seen.tail) == facts(path[:6]) | facts(asked)


async def test_the_first_request_of_a_long_imported_chat_has_no_missing_turn(rig: Rig, tab: Tab) -> None:
    await rig.open_story(tab, 40)
    await tab.send(asked := question())

    seen = await rig.compressed()
    path = await rig.path(tab)
    assert facts(rig.model.received[-1].messages) == facts(path)
    assert seen.tail[-1]["content"] == asked


async def test_after_a_question_edited_in_place_above_the_boundary_no_turn_is_missing(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    await tab.edit(path[2]["id"], question_of_edit := f"Edited. {fact(path[2]['id'][:4] + 'e')}")

    await tab.send(asked := question())

    await rig.compressed()
    unchanged = [one for one in path if one["id"] != path[2]["id"]]
    assert facts(rig.model.received[-1].messages) == facts(unchanged) | facts(question_of_edit) | facts(asked)


async def test_an_answer_edited_in_place_above_the_boundary_is_in_the_next_summary(rig: Rig, tab: Tab) -> None:
    path = await rig.long_chat(tab)
    told = fact(path[3]["id"][:4] + "e")
    await tab.edit(path[3]["id"], f"I was wrong. {told}")

    await tab.send(question())

    assert told in str((await rig.seen()).summary)
    await rig.settled(tab)
    await tab.send(question())
    seen = await rig.compressed()
    assert told in seen.summary


async def test_an_answer_edited_in_place_below_the_boundary_is_sent_as_edited(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    turn = await tab.send(question())
    await tab.edit(turn.answer, "Edited by hand.")

    await tab.send(question())

    seen = await rig.compressed()
    assert seen.tail[-2]["content"] == "Edited by hand."


async def test_a_turn_deleted_above_the_boundary_is_in_no_request_any_more_and_no_other_one_is_missing(
    rig: Rig, tab: Tab
) -> None:
    path = await rig.long_chat(tab)
    await tab.delete(path[4]["id"])

    await tab.send(asked := question())

    await rig.compressed()
    kept = [one for one in path if one["id"] not in (path[4]["id"], path[5]["id"])]
    assert facts(rig.model.received[-1].messages) == facts(kept) | facts(asked)
    await rig.settled(tab)
    await tab.send(question())
    await rig.compressed()
    for received in rig.model.received[-2:]:
        assert not facts([path[4]]) & facts(received.messages)


async def test_several_models_at_once_get_the_same_summary(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)

    tab.models = list(MODELS)
    await tab.send(question())

    both = rig.model.received[-2:]
    assert {one.model for one in both} == set(MODELS)
    first, second = [await rig.seen(one) for one in both]
    assert first.summary
    assert (first.head, first.tail) == (second.head, second.tail)


async def test_after_an_answer_that_broke_off_the_chat_goes_on_with_its_summary(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    rig.model.script.append(Reply("This breaks off in the middle of the sentence.", breaks=True))
    await tab.send(question())

    await tab.send(question())

    await rig.compressed()


async def test_after_a_stopped_answer_the_chat_goes_on_with_what_it_said(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    rig.model.script.append(Reply("Half of this was said before the stop.", hold=asyncio.Event()))
    turn = await tab.send(question(), wait=False)
    await until(lambda: "Half of" in str(tab.events))
    await tab.stop(turn)

    await tab.send(question())

    seen = await rig.compressed()
    assert [one["role"] for one in seen.tail[-3:]] == ["user", "assistant", "user"]
