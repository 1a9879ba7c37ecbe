"""The work on one chat, with a language model that does what a script says: nothing lost, doubled, hidden or luck."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service.compress import Bench, compress
from service.storage import work
from service.summarising.reading import Reading, Reply
from tests.builders import called, returned, said
from tests.fakes.scripted_llm import (
    Behaviour,
    CutOff,
    Disconnect,
    Empty,
    Fail,
    Garbage,
    Hang,
    OtherShape,
    RateLimit,
    ReasoningOnly,
    Request,
    Say,
)
from tests.service.desk import Desk, narrative, new_in
from tests.service.talk import Talk, check_tree, prose, row, rows, run_sql
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

OUTPUT = 438  # summary_tokens at a window of 8192


@asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncIterator["asyncio.Task[Any]"]:
    """The work as a task that does not outlive the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def read_in(request: Request) -> list[str]:
    """The values that a call reads anew, each of which stands in one message only."""
    return re.findall(r"Reading (\S+): pump", new_in(request))


def written_in(talk: Talk, ids: list[str]) -> list[str]:
    texts = [str(talk.rows[identity]["content"]) for identity in ids]
    return re.findall(r"Reading (\S+): pump", "\n".join(texts))


def state(text: str) -> str:
    """The narrative of an answer without heads."""
    return f"## Current state\n- {text}"


# Growing


@pytest.mark.parametrize("kind", ["openai", "ollama"])
async def test_the_first_round_publishes_a_checkpoint_by_the_configured_model(desk: Desk, kind: str) -> None:
    leaf = await desk.long_chat()

    await desk.drain(desk.bench(kind, summariser_window=32_768))

    (made,) = await desk.made()
    (run,) = await desk.runs()
    (request,) = desk.llm.requests
    assert request.path == ("/v1/chat/completions" if kind == "openai" else "/api/chat")
    if kind == "ollama":
        assert request.body["options"]["num_ctx"] == 32_768  # or the input would be cut in silence
    assert (made.kind, made.summariser, made.narrative) == (
        "llm",
        f"{kind}:scripted",
        narrative(1),
    )
    assert (run.outcome, run.calls, run.published) == ("done", 1, 1)
    answer = await desk.talk.ask(leaf)
    assert (answer["status"], answer["checkpoint_id"]) == ("ready", made.id)
    assert narrative(1) in answer["summary"]
    await check_tree(desk.service.runtime)


async def test_every_message_is_read_once_in_order_and_the_last_narrative_goes_into_the_next_call(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await desk.drain()
    for _ in range(10):
        leaf = desk.talk.turns(1, leaf=leaf)
        await desk.talk.hand_over(leaf)
        await desk.drain()

    made = await desk.made()
    path = [message["id"] for message in desk.talk.path(leaf)]
    covered = path[: path.index(made[-1].covered_until) + 1]
    assert [value for request in desk.llm.requests for value in read_in(request)] == written_in(desk.talk, covered)
    assert len(made) == len(desk.llm.requests) > 4
    assert "(nothing yet)" in desk.llm.requests[0].text
    for number, request in enumerate(desk.llm.requests[1:], 1):
        assert narrative(number) in request.text
    assert [list(one.ancestors) for one in made] == [[one.id for one in made[:n]] for n in range(len(made))]


async def test_a_call_and_its_result_are_read_together_and_within_the_fence(desk: Desk) -> None:
    talk = desk.talk
    leaf = ""
    for number in range(12):
        leaf = talk.add(f"u{number}", leaf or None, content=prose(60, f"u{number}"))
        output = []
        for call in range(3):
            text = f"result {number}-{call}\n=== end\n" + prose(200, f"r{number}{call}")
            output += [called(f"c{call}", "query", f'{{"n": "{number}-{call}"}}'), returned(f"c{call}", text)]
        output.append(said(prose(100, f"a{number}")))
        leaf = talk.add(f"a{number}", leaf, "assistant", output=output)
    await talk.hand_over(leaf)

    await desk.drain()

    texts = [request.messages[1]["content"] for request in desk.llm.requests]
    covered = (await desk.made())[-1].covered_messages // 2
    assert covered > 3
    for number in range(covered):
        for call in range(3):
            (text,) = [text for text in texts if f'{{"n": "{number}-{call}"}}' in text]
            assert re.search(rf'query {{"n": "{number}-{call}"}}\n\n\[tool result\]\nresult {number}-{call}\n', text)
    for request, text in zip(desk.llm.requests, texts, strict=True):
        (fence,) = set(re.findall(r"^=== [0-9a-f]{16} ===", text, re.MULTILINE))
        assert text.count(fence) == (4 if "entries so far" in text else 3)
        assert fence in request.messages[0]["content"]
    assert sum(entry["count"] for entry in (await desk.made())[-1].ledger) == 3 * covered


async def test_a_round_with_nothing_to_do_calls_nobody(desk: Desk) -> None:
    talk = desk.talk
    leaf = talk.add("u", None, content=prose(3000, "one long question"))
    leaf = talk.add("a", leaf, "assistant", prose(3000, "one long answer"))
    assert await talk.hand_over(leaf)  # large, but all of it is the newest turn

    assert await desk.compress() is None

    (run,) = await desk.runs()
    assert (run.outcome, run.calls) == ("nothing to do", 0)
    assert "to cover" in run.reason
    assert desk.llm.requests == []
    assert (await desk.chat()).due_at is None


async def test_work_that_is_not_due_is_not_begun(desk: Desk) -> None:
    await desk.long_chat()
    await run_sql(desk.service.runtime, "update chats set due_at = now() + interval '1 minute'")

    assert await desk.compress() is None

    assert await desk.runs() == []
    assert desk.llm.requests == []


async def test_the_providers_own_token_counts_are_recorded(desk: Desk) -> None:
    await desk.long_chat()
    await desk.drain()

    (run,) = await desk.runs()
    assert run.tokens_read == sum(len(request.text) // 4 for request in desk.llm.requests)
    assert run.tokens_written == sum(len(narrative(n)) // 4 for n in range(1, run.calls + 1))
    assert run.ended_at >= run.started_at


async def test_without_the_providers_counts_our_own_are_recorded(desk: Desk) -> None:
    await desk.long_chat()
    answer = {"choices": [{"message": {"content": "Fine."}, "finish_reason": "stop"}]}
    desk.llm.default = OtherShape(answer)

    await desk.drain(desk.bench(summariser_window=32_768))

    (run,) = await desk.runs()
    (made,) = await desk.made()
    assert run.outcome == "done"
    assert run.tokens_read > made.covered_tokens * 0.9
    assert run.tokens_written == 2


async def test_hidden_marker_lines_are_counted_and_not_read(desk: Desk) -> None:
    marker = "[openrouter:v1:reasoning:abc]: #\n"
    leaf = desk.talk.turns(1)
    leaf = desk.talk.add("q", leaf)
    leaf = desk.talk.add("marked", leaf, "assistant", marker + prose(100, "marked") + "\n" + marker)
    await desk.long_chat(14, leaf=leaf)

    await desk.drain()

    assert "openrouter" not in "".join(request.text for request in desk.llm.requests)
    assert sum(run.markers for run in await desk.runs()) == 2


async def test_the_model_reads_little_more_than_the_chat_itself(desk: Desk) -> None:
    """Sum over the life of a chat of 200,000 tokens at the default window."""
    talk = desk.talk
    talk.window = 131_072
    bench = desk.bench(summariser_window=32_768)
    leaf, size = "", 0
    while size < 200_000:
        leaf = talk.turns(4, tokens=2400, leaf=leaf or None)
        if await talk.hand_over(leaf, after=None if size == 0 else talk.path(leaf)[-9]["id"]):
            await desk.drain(bench)
        size = (await row(desk.service.runtime, "select max(path_tokens) as size from messages")).size

    made = await desk.made()
    spent = await row(desk.service.runtime, "select sum(tokens_read) as read from runs")
    # By our own count: the scripted model counts four characters as a token.
    covered = made[-1].covered_tokens
    read_per_character = sum(len(request.text) for request in desk.llm.requests)
    characters = sum(len(str(message["content"])) for message in talk.path(made[-1].covered_until))
    assert covered > 100_000
    assert spent.read
    assert read_per_character <= 1.15 * characters


# Losing nothing


async def test_a_crash_in_the_third_call_loses_that_call_only(desk: Desk) -> None:
    leaf = await desk.long_chat(20)
    desk.llm.script(Say("First."), Say("Second."), Hang())

    async with running(desk.compress()):
        await desk.llm.received(3)
        assert [made.narrative for made in await desk.made()] == [state("First."), state("Second.")]
    (run,) = await desk.runs()
    assert (run.outcome, run.calls, run.published) == ("released", 2, 2)
    lost_call = desk.llm.requests[2]

    await desk.drain()

    assert "Second." in desk.llm.requests[3].text
    assert read_in(desk.llm.requests[3])[0] == read_in(lost_call)[0]  # goes on after chunk 2
    path = [message["id"] for message in desk.talk.path(leaf)]
    covered = path[: path.index((await desk.made())[-1].covered_until) + 1]
    without_lost = [request for request in desk.llm.requests if request is not lost_call]
    assert [value for request in without_lost for value in read_in(request)] == written_in(desk.talk, covered)


async def test_a_stopped_worker_gives_its_work_back_and_the_attempt_does_not_count(desk: Desk) -> None:
    await desk.long_chat()
    desk.llm.script(Hang())

    async with running(desk.compress()):
        await desk.llm.received(1)

    chat = await desk.chat()
    assert (chat.attempts, chat.lease_token, chat.last_error) == (0, None, None)
    assert chat.due_at is not None
    assert chat.wait.total_seconds() <= 0
    assert [run.outcome for run in await desk.runs()] == ["released"]


async def test_a_killed_workers_work_is_taken_over_when_its_lease_is_over(desk: Desk) -> None:
    """A kill -9 leaves the lease, the run and the due work as they were."""
    leaf = await desk.long_chat()
    async with desk.service.runtime.database.engine.begin() as connection:
        assert await work.claim(connection, "killed", None, desk.bench().settings)
    assert await desk.compress() is None
    assert desk.llm.requests == []
    await run_sql(desk.service.runtime, "update chats set lease_until = now() - interval '1 second'")

    await desk.drain()

    assert (await desk.talk.ask(leaf))["status"] == "ready"
    assert (await desk.chat()).attempts == 0


async def test_a_long_turn_is_read_in_pieces_and_a_draft_keeps_how_far(desk: Desk) -> None:
    talk = desk.talk
    leaf = talk.add("q", talk.turns(1))
    leaf = talk.add("long", leaf, "assistant", prose(9000, "long"))
    leaf = await desk.long_chat(6, leaf=leaf)
    desk.llm.script(Say("One."), Say("Two."), Say("Three."), Hang())

    async with running(desk.compress()):
        await desk.llm.received(4)
    draft = await row(desk.service.runtime, "select * from drafts")
    before = await desk.made()
    assert draft.message_id == "long"
    assert draft.narrative == state("Three.")
    assert draft.pins
    assert draft.pieces > 3
    assert all(made.covered_until != "long" for made in before)  # nothing claims what was not read to its end

    await desk.drain()

    assert "Three." in desk.llm.requests[4].text
    assert await rows(desk.service.runtime, "select 1 from drafts") == []
    made = await desk.made()
    assert any(one.covered_until == "long" for one in made)
    finished = [request for number, request in enumerate(desk.llm.requests) if number != 3]
    path = [message["id"] for message in talk.path(leaf)]
    covered = path[: path.index(made[-1].covered_until) + 1]
    # A cut may go through the middle of a line, so the lines are put together again.
    whole = "".join(re.sub(r"\s", "", new_in(request)) for request in finished)
    for value in written_in(talk, covered):
        assert whole.count(f"Reading{value}:pump") + whole.count(f"{value}:") >= 1


async def test_an_edit_inside_a_part_read_turn_discards_its_draft(desk: Desk) -> None:
    talk = desk.talk
    leaf = talk.add("long", talk.add("q", talk.turns(1)), "assistant", prose(9000, "long"))
    leaf = await desk.long_chat(6, leaf=leaf)
    desk.llm.script(Say("One."), Say("Two of the old text."), Hang())
    async with running(desk.compress()):
        await desk.llm.received(3)
    assert await rows(desk.service.runtime, "select 1 from drafts")

    talk.edit("long", prose(9000, "edited"))
    await talk.hand_over(leaf)
    await desk.drain()

    after = desk.llm.requests[3:]
    assert all("of the old text" not in request.text for request in after)
    assert written_in(talk, ["long"])[0] in [value for request in after for value in read_in(request)]
    await check_tree(desk.service.runtime)


async def test_work_handed_over_during_the_run_stays_due(desk: Desk) -> None:
    leaf = await desk.long_chat()
    grown = desk.talk.turns(8, leaf=leaf)

    run = await meanwhile(desk, lambda: desk.talk.hand_over(grown))

    assert run.outcome == "done"
    chat = await desk.chat()
    assert chat.due_at is not None
    assert chat.done_seq < chat.handed_seq
    await desk.drain()
    chat = await desk.chat()
    assert chat.done_seq == chat.handed_seq
    assert (await desk.made())[-1].covered_messages > 28


# Rejected and failed

BAD: dict[str, tuple[Behaviour, str, str]] = {
    "500": (Fail(500), "failed", "HTTP 500"),
    "400": (Fail(400), "failed", "HTTP 400"),
    "401": (Fail(401), "failed", "API key"),
    "429": (RateLimit(1), "failed", "HTTP 429"),
    "429 for an hour": (RateLimit(3600), "failed", "3600"),
    "a lost connection": (Disconnect(), "failed", "Is the server up?"),
    "garbage": (Garbage(), "failed", "not a chat answer"),
    "another shape": (OtherShape(), "failed", "not a chat answer"),
    "an empty answer": (Empty(), "rejected", "empty answer"),
    "reasoning only": (ReasoningOnly("Let me think."), "rejected", "empty answer"),
    "reasoning in the answer": (Say("<think>Let me think.</think> Fine."), "rejected", "reasoning"),
    "a cut-off answer": (CutOff("## Goal\n- The goal was"), "rejected", "cut off"),
    "too long an answer": (Say("word " * OUTPUT * 2), "rejected", "too long"),
    "tool protocol": (Say('<tool_call>{"name": "query"}</tool_call>'), "rejected", "tool protocol"),
    "no end of thinking": (Hang(), "failed", "time limit"),
}


@pytest.mark.parametrize(("behaviour", "outcome", "reason"), BAD.values(), ids=BAD.keys())
async def test_a_bad_answer_is_recorded_and_the_previous_checkpoint_keeps_serving(
    desk: Desk, behaviour: Behaviour, outcome: str, reason: str
) -> None:
    leaf = await desk.long_chat()
    await desk.drain(desk.bench(summariser_window=32_768))
    before = await desk.talk.ask(leaf)
    leaf = desk.talk.turns(8, leaf=leaf)
    assert await desk.talk.hand_over(leaf)
    desk.llm.default = behaviour

    timeout = 0.3 if behaviour == Hang() else 20
    await desk.compress(desk.bench(summariser_window=32_768, summariser_timeout=timeout, fallback_after=0))

    run = (await desk.runs())[-1]
    chat = await desk.chat()
    assert (run.outcome, run.published) == (outcome, 0)
    assert reason in run.reason
    assert chat.last_error == run.reason
    assert chat.attempts == 1
    assert 0 < chat.wait.total_seconds() <= 2
    after = await desk.talk.ask(leaf)
    assert after["summary"] == before["summary"]
    assert len(await desk.made()) == 1


async def test_a_rejected_call_is_counted_with_what_it_read(desk: Desk) -> None:
    await desk.long_chat()
    desk.llm.default = Empty()

    await desk.compress(desk.bench(summariser_window=32_768, fallback_after=0))

    (run,) = await desk.runs()
    assert run.published == 0
    assert len(desk.llm.requests) == 2  # the second is the repair
    assert run.tokens_read == sum(len(request.text) // 4 for request in desk.llm.requests)


async def test_failures_back_off_further_and_further_up_to_a_bound(desk: Desk) -> None:
    await desk.long_chat()
    desk.llm.default = Fail(400)
    bench, waits = desk.bench(fallback_after=0), []
    for attempt in range(1, 12):
        waits.append(await desk.compress(bench))
        chat = await desk.chat()
        assert chat.attempts == attempt
        assert 0 < chat.wait.total_seconds() <= waits[-1]
        assert await desk.compress(bench) is None  # not due: nobody is asked
        await desk.due_now()

    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert len(desk.llm.requests) == 11
    assert await desk.made() == []


async def test_a_chat_may_fail_for_ever(desk: Desk) -> None:
    await desk.long_chat()
    desk.llm.default = Fail(400)
    await run_sql(desk.service.runtime, "update chats set attempts = 32767")

    assert await desk.compress(desk.bench(fallback_after=0, max_attempts=0)) == 300


async def test_a_new_turn_does_not_end_the_back_off(desk: Desk) -> None:
    leaf = await desk.long_chat()
    desk.llm.default = Fail(400)
    await desk.compress()
    asked = len(desk.llm.requests)

    await desk.talk.hand_over(desk.talk.turns(1, leaf=leaf))

    assert await desk.compress() is None
    assert len(desk.llm.requests) == asked


async def test_after_enough_failures_a_degraded_checkpoint_is_published(desk: Desk) -> None:
    leaf = await desk.long_chat()
    desk.llm.default = Fail(400)
    bench = desk.bench(summariser_window=32_768, fallback_after=2)
    for _ in range(2):
        await desk.compress(bench)
        assert (await desk.talk.ask(leaf))["status"] == "pending"
        await desk.due_now()
    asked = len(desk.llm.requests)

    assert await desk.compress(bench) == 300  # the model is to make it anew

    (made,) = await desk.made()
    assert (made.kind, made.summariser) == ("degraded", "extractive")
    assert len(desk.llm.requests) == asked
    assert (await desk.talk.ask(leaf))["status"] == "ready"
    chat = await desk.chat()
    assert (chat.attempts, chat.last_error) == (0, None)

    # When the model is back, it makes that one anew, and what came since.
    desk.llm.default = Say("From the model.")
    leaf = desk.talk.turns(8, leaf=leaf)
    await desk.talk.hand_over(leaf)
    await desk.due_now()
    await desk.compress(bench)
    newest = (await desk.made())[-1]
    assert (newest.kind, newest.parent_id, newest.narrative) == ("llm", 0, state("From the model."))
    assert newest.covered_messages >= made.covered_messages
    assert (await desk.talk.ask(leaf))["checkpoint_id"] == newest.id
    await check_tree(desk.service.runtime)


async def test_without_a_model_the_extractive_summariser_is_no_degradation(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await run_sql(desk.service.runtime, "update chats set attempts = 9")

    await compress(desk.service.runtime.bench)

    (made,) = await desk.made()
    assert made.kind == "extractive"
    assert (await desk.talk.ask(leaf))["status"] == "ready"


async def test_a_body_in_an_unknown_encoding_is_a_failure_that_says_so(desk: Desk) -> None:
    await desk.long_chat()
    await run_sql(desk.service.runtime, "update messages set body = '\\xff' where message_id = 'u0'")

    await desk.compress()

    assert "newer version" in (await desk.chat()).last_error


# Fenced


def thinking(desk: Desk, change: Callable[[], Coroutine[Any, Any, object]]) -> Bench:
    """A bench with which `change` happens while the model thinks."""
    bench = desk.bench(summariser_window=32_768)

    class Thinking:
        name = bench.summariser.name

        async def summarise(self, reading: Reading) -> Reply:
            await change()
            return await bench.summariser.summarise(reading)

    return Bench(bench.engine, bench.settings, Thinking(), bench.stand_in)


async def meanwhile(desk: Desk, change: Callable[[], Coroutine[Any, Any, object]]) -> Any:
    """Runs a round in which `change` happens while the model thinks; returns the run."""
    await desk.compress(thinking(desk, change))
    return (await desk.runs())[-1]


async def test_a_result_for_a_chat_that_was_edited_meanwhile_is_refused(desk: Desk) -> None:
    leaf = await desk.long_chat()

    async def edit() -> None:
        desk.talk.edit("u2", "edited in place")
        await desk.talk.hand_over(leaf)

    run = await meanwhile(desk, edit)

    assert (run.outcome, run.published) == ("refused", 0)
    assert await desk.made() == []
    assert (await desk.chat()).due_at is not None
    assert (await desk.chat()).attempts == 0, "an edit is no failure of the summariser"
    await desk.due_now()
    await desk.drain()
    assert "edited in place" in desk.llm.requests[1].text
    await check_tree(desk.service.runtime)


async def test_a_boundary_that_is_published_again_from_the_same_parent_is_another_version(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await desk.drain()
    (first, *_) = await desk.made()
    await run_sql(desk.service.runtime, "update messages set checkpoint_id = null")
    await run_sql(desk.service.runtime, "update chats set due_at = now()")

    await desk.drain()

    versions = [one for one in await desk.made() if one.covered_digest == first.covered_digest]
    assert [(one.parent_id, one.version) for one in versions] == [(0, 1), (0, 2)]
    assert versions[0] == first
    assert (await desk.talk.ask(leaf))["checkpoint_id"] > versions[1].id
    await check_tree(desk.service.runtime)


async def test_an_edit_above_what_is_covered_does_not_refuse_the_result(desk: Desk) -> None:
    leaf = await desk.long_chat()

    async def edit() -> None:
        desk.talk.edit(leaf, "edited, in the tail")
        await desk.talk.hand_over(leaf)

    run = await meanwhile(desk, edit)

    assert (run.outcome, run.published) == ("done", 1)
    assert (await desk.talk.ask(leaf))["status"] in ("ready", "not_needed")
    await check_tree(desk.service.runtime)


@pytest.mark.parametrize("what", ["reset", "recompute"])
async def test_a_result_for_a_chat_that_was_reset_meanwhile_is_refused(desk: Desk, what: str) -> None:
    await desk.long_chat()

    async def reset() -> None:
        assert (await desk.service.as_operator.post(f"/v1/chats/chat-1/{what}")).is_success

    run = await meanwhile(desk, reset)

    assert (run.outcome, run.published) == ("refused", 0)
    assert await desk.made() == []
    await desk.due_now()
    await desk.drain()
    assert await desk.made()


async def test_a_result_for_a_chat_that_was_deleted_meanwhile_vanishes(desk: Desk) -> None:
    await desk.long_chat()

    async def delete() -> None:
        assert (await desk.service.as_operator.delete("/v1/chats/chat-1")).is_success

    assert await desk.compress(thinking(desk, delete)) is None

    assert len(desk.llm.requests) == 1
    for table in ("chats", "messages", "checkpoints", "runs"):
        assert await rows(desk.service.runtime, f"select 1 from {table}") == [], table


async def test_a_late_result_is_fenced_when_another_worker_has_taken_over(desk: Desk) -> None:
    leaf = await desk.long_chat()
    chat = await desk.chat()

    async def taken_over() -> None:
        await run_sql(desk.service.runtime, "update chats set lease_until = now() - interval '1 second'")
        async with desk.service.runtime.database.engine.begin() as connection:
            assert await work.claim(connection, "another", None, desk.bench().settings)

    run = await meanwhile(desk, taken_over)

    assert (run.outcome, run.published) == ("refused", 0)
    assert await desk.made() == []
    chat = await desk.chat()
    assert chat.lease_token is not None  # the other one's lease was left alone
    assert chat.last_error is None
    await run_sql(desk.service.runtime, "update chats set lease_until = now() - interval '1 second'")
    await desk.drain()
    assert (await desk.talk.ask(leaf))["status"] == "ready"


async def test_two_workers_on_one_chat_make_one_call(desk: Desk) -> None:
    await desk.long_chat()
    bench = desk.bench(summariser_window=32_768)

    await asyncio.gather(*(desk.compress(bench) for _ in range(6)))

    assert len(desk.llm.requests) == 1
    assert len(await desk.made()) == 1
    assert len(await desk.runs()) == 1


async def test_the_lease_is_renewed_while_a_call_takes_long(desk: Desk) -> None:
    await desk.long_chat()
    desk.llm.default = Hang()

    async with running(desk.compress(desk.bench(lease=1))):
        await desk.llm.received(1)
        seen = {(await desk.chat()).lease_until}

        async def renewed_twice() -> bool:
            seen.add((await desk.chat()).lease_until)
            return len(seen) > 2

        await until(renewed_twice)
