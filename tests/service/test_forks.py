"""Forks, clones and imports: the same messages, a new chat id. Nothing is computed twice, none is shown to others."""

from typing import Any

import pytest

from service.usecases.compress import compress
from tests.constants import NEVER
from tests.fakes.scripted_llm import Fail
from tests.service.grown import by_the_model
from tests.service.harness import Harness
from tests.service.talk import Json, Talk, check_tree, opened, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def work_off(harness: Harness) -> None:
    while await compress(harness.worker_context()):
        pass


def fork_of(talk: Talk, chat: str = "fork", **more: Any) -> Talk:
    """What Open WebUI makes of a fork: another id, the same messages."""
    return Talk(more.pop("client", talk.client), chat, dict(talk.rows), window=talk.window, **more)


async def made(harness: Harness, chat: str = "chat-1") -> list[Any]:
    query = (
        "select p.* from checkpoints p join chats c on c.id = p.chat_id"
        " where c.external_id = :chat and p.kind <> 'interim' order by p.id"
    )
    return await opened(harness.runtime, query, chat=chat)


async def stored_twice(harness: Harness) -> str:
    """A chat and its fork, both without a summary; returns their leaf."""
    leaf = harness.talk.turns(20)
    for chat in (fork_of(harness.talk), harness.talk):
        await chat.ingest(leaf)
    return leaf


MEMORY = ("state", "pins", "talk", "ledger", "heard", "told")


def texts(made: list[Any]) -> list[tuple[object, ...]]:
    """What a checkpoint says, whoever has it."""
    names = ("covered_until", "covered_tokens", "kind", "summary", "tokens", "savings", *MEMORY)
    return [tuple(getattr(one, name) for name in names) for one in made]


def sent(answer: Json) -> Json:
    """What a request is sent as, whatever chat has the summary."""
    return {name: answer[name] for name in ("status", "messages", "tokens", "covered_messages", "left_out")}


@pytest.mark.parametrize("user", ["user-2", "", None])
async def test_another_user_or_nobody_is_never_served_nor_lent_a_summary_of_the_same_words(
    harness: Harness, user: str | None
) -> None:
    leaf = await by_the_model(harness, 30)
    theirs = fork_of(harness.talk)

    for chat in ("fork", "", "fork", ""):
        assert (await theirs.ask(leaf, user=user, chat=chat))["status"] == "pending"
        await harness.service.stored()

    assert await made(harness, "fork") == []


async def test_a_chat_that_expires_serves_and_lends_nothing(harness: Harness) -> None:
    leaf = await by_the_model(harness, 30)
    await harness.talk.ingest(leaf, expires_in=3600)
    fork = fork_of(harness.talk)

    assert (await fork.ask(leaf))["status"] == "pending"
    await harness.service.stored()
    await fork.ingest(leaf)

    assert await made(harness, "fork") == []


async def test_the_first_request_of_a_fork_is_stored_and_served_if_it_is_too_large_for_the_window(
    harness: Harness,
) -> None:
    leaf = await by_the_model(harness, 30)
    asked, before = len(harness.llm.requests), await harness.talk.ask(leaf)

    answer = await fork_of(harness.talk).ask(leaf, seconds=8)

    assert answer["status"] == "ready"
    assert sent(answer) == sent(before)
    assert len(harness.llm.requests) == asked
    assert texts(await made(harness, "fork")) == texts(await made(harness))


async def test_a_fork_that_is_handed_over_has_the_summaries_as_its_own(harness: Harness) -> None:
    leaf = await by_the_model(harness, 30)
    asked, before = len(harness.llm.requests), await harness.talk.ask(leaf)
    fork = fork_of(harness.talk)

    await fork.ingest(leaf)

    await work_off(harness)
    assert len(harness.llm.requests) == asked, "nothing is computed twice"
    answer = await fork.ask(leaf)
    assert not answer["whole"]
    assert sent(answer) == sent(before)
    mine, theirs = await made(harness, "fork"), await made(harness)
    assert texts(mine) == texts(theirs)
    assert [one.parent_id for one in mine] == [0, *(one.id for one in mine)][:-1]
    assert [list(one.ancestors) for one in mine] == [[one.id for one in mine[:place]] for place in range(len(mine))]
    assert {one.id for one in mine}.isdisjoint(one.id for one in theirs)
    await check_tree(harness.runtime)


async def test_of_a_line_of_which_a_fork_has_another_end_nothing_is_adopted(harness: Harness) -> None:
    leaf = await stored_twice(harness)
    for window in (32_768, 12_800):
        await harness.compress(harness.worker_context(summariser_window=window))
    (own,), lent = await made(harness, "fork"), await made(harness)
    assert own.covered_until == lent[-1].covered_until
    assert len(lent) > 1

    deeper = harness.talk.turns(12, leaf=leaf)
    await harness.talk.ingest(deeper, after=leaf)
    await work_off(harness)
    await fork_of(harness.talk).ingest(deeper, after=leaf)

    assert [one.id for one in await made(harness, "fork")] == [own.id]
    await check_tree(harness.runtime)


async def test_a_fork_that_code_serves_at_once_adopts_what_its_source_has_by_now(harness: Harness) -> None:
    leaf = await stored_twice(harness)
    harness.llm.script(Fail(400))
    one_call = harness.worker_context(fallback_after=NEVER, summariser_window=32_768)
    for _ in range(2):
        await harness.compress(one_call)
    (interim,), (lent,) = await harness.interim(), await made(harness)
    assert interim.covered_until == lent.covered_until
    await run_sql(harness.runtime, "update chats set due_at = null")
    deeper = harness.talk.turns(12, leaf=leaf)
    await harness.talk.ingest(deeper, after=leaf)
    await work_off(harness)

    await fork_of(harness.talk).ingest(deeper, after=leaf)

    assert texts(await made(harness, "fork")) == texts(await made(harness)) != texts([lent])
    await check_tree(harness.runtime)


async def test_summaries_that_an_operator_dropped_from_a_fork_do_not_come_back_by_themselves(harness: Harness) -> None:
    leaf = await by_the_model(harness, 30)
    fork = fork_of(harness.talk)
    await fork.ingest(leaf)
    assert (await harness.service.as_operator.post("/v1/chats/fork/reset")).json()["dropped"] > 2

    assert (await fork.ask(leaf))["status"] == "pending"
    await fork.ingest(leaf)
    await fork.ingest(fork.turns(1, leaf=leaf, prefix="fork-"), after=leaf)

    assert await made(harness, "fork") == []
