"""A reply that the gate rejects: one repair with the reasons, then rules write, and the model makes it anew."""

import pytest

from tests.fakes.scripted_llm import Empty, Say
from tests.service.desk import Desk
from tests.service.talk import check_tree

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVENTED = Say("## Goal\n- There are 31337 pumps.\n- There are 31338 valves.")
FINE = Say("## Goal\n- Watch the pumps.")


async def test_the_repair_call_carries_the_reasons_and_its_reply_is_taken(desk: Desk) -> None:
    leaf = await desk.long_chat()
    desk.llm.script(INVENTED, FINE)

    await desk.compress(desk.bench(summariser_window=32_768))

    first, second = desk.llm.requests
    assert "31337 does not occur" not in first.text
    assert "31337 does not occur" in second.text
    assert first.messages[0]["role"] == second.messages[0]["role"] == "system"
    (made,) = await desk.made()
    assert (made.kind, made.verdict["outcome"]) == ("llm", "repaired")
    assert "31337 does not occur" in made.verdict["reasons"][0]
    assert "31337" not in (await desk.talk.ask(leaf))["summary"]


async def test_after_two_bad_replies_rules_write_at_once_and_say_why(desk: Desk) -> None:
    leaf = await desk.long_chat()
    desk.llm.script(INVENTED, Empty())

    assert await desk.compress(desk.bench(summariser_window=32_768)) == 300

    (made,) = await desk.made()
    assert (made.kind, made.summariser, made.verdict["outcome"]) == ("degraded", "extractive", "degraded")
    assert made.verdict["reasons"] == ["empty answer"]
    assert len(desk.llm.requests) == 2
    assert (await desk.talk.ask(leaf))["status"] == "ready"
    assert (await desk.chat()).attempts == 0


async def test_a_degraded_summary_is_made_anew_by_the_model_and_covers_as_much(desk: Desk) -> None:
    leaf = await desk.long_chat()
    bench = desk.bench(summariser_window=32_768)
    desk.llm.script(Empty(), Empty())
    await desk.compress(bench)
    await desk.due_now()
    desk.llm.default = FINE

    assert await desk.compress(bench) is None

    degraded, better = await desk.made()
    assert (degraded.kind, better.kind, better.parent_id) == ("degraded", "llm", degraded.parent_id)
    assert better.covered_messages >= degraded.covered_messages
    assert (await desk.talk.ask(leaf))["checkpoint_id"] == better.id
    await check_tree(desk.service.runtime)


async def test_a_model_that_stays_bad_is_asked_once_more_and_then_left_alone(desk: Desk) -> None:
    await desk.long_chat()
    bench = desk.bench(summariser_window=32_768)
    desk.llm.default = Empty()
    assert await desk.compress(bench) == 300
    await desk.due_now()

    assert await desk.compress(bench) is None

    assert [made.kind for made in await desk.made()] == ["degraded", "degraded"]
    assert len(desk.llm.requests) == 4
