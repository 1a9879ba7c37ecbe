"""`PUT /v1/chats/{chat_id}/transcript`: branches, edits and deletions of a chat tree end in consistent rows."""

import asyncio
from typing import Any

import pytest

from service.storage import ingests
from service.transcript import native_tokens
from tests.conftest import Service
from tests.service.grown import summarised
from tests.service.talk import Talk, as_sent, check_tree, row, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def stored_ids(service: Service) -> set[str]:
    return {one.message_id for one in await rows(service.runtime, "select message_id from messages")}


async def test_an_after_with_another_digest_is_a_conflict(talk: Talk, service: Service) -> None:
    known = talk.turns(3)
    await talk.ingest(known)
    before = await tables(service.runtime)
    talk.edit(talk.path(known)[1]["id"], "edited in place, and no hook fired")
    leaf = talk.turns(1, leaf=known)

    assert (await talk.put(talk.transcript(leaf, after=known))).status_code == 409
    assert await tables(service.runtime) == before

    await talk.ingest(leaf)  # the whole path, as the filter does then
    await check_tree(service.runtime)
    assert (await talk.ask(leaf))["known"] == leaf


async def test_an_edit_in_place_rewrites_the_posted_path_and_other_branches_below_go_stale(
    talk: Talk, service: Service
) -> None:
    trunk = talk.turns(2)
    left = talk.turns(2, leaf=trunk, prefix="left-")
    right = talk.turns(2, leaf=trunk, prefix="right-")
    other = talk.turns(1, leaf=talk.path(trunk)[1]["id"], prefix="above-")  # leaves the trunk above the edit
    for leaf in (left, right, other):
        await talk.ingest(leaf)
    assert await stored_ids(service) == set(talk.rows)

    talk.edit(trunk, "The answer was edited in place.")
    await talk.ingest(left)

    stale = {message["id"] for message in talk.path(right)} - {message["id"] for message in talk.path(trunk)}
    assert await stored_ids(service) == set(talk.rows) - stale
    await check_tree(service.runtime)
    assert (await talk.ask(right))["known"] == trunk  # the edited message is known, what is below it is not
    assert (await talk.ask(other))["known"] == other

    await talk.ingest(right)
    assert await stored_ids(service) == set(talk.rows)
    await check_tree(service.runtime)


async def test_what_was_looked_up_before_another_hand_over_changed_it_is_looked_up_again(
    talk: Talk, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = talk.turns(3)
    await talk.ingest(leaf)
    guest = Talk(talk.client, talk.chat, {name: dict(one) for name, one in talk.rows.items()}, user="guest")
    guest.edit("u2", "Edited by the guest, who shares the chat.")
    look_up, looks = ingests.look_up, []

    async def overtaken(*given: Any, **named: Any) -> ingests.Known:
        known = await look_up(*given, **named)
        looks.append(named["ids"])
        if len(looks) == 1:
            await guest.ingest(leaf)
        return known

    monkeypatch.setattr(ingests, "look_up", overtaken)
    late = await talk.put(talk.transcript(talk.turns(1, leaf=leaf, prefix="late-"), after=leaf))

    assert late.status_code == 409, "what it goes on from is another message by now"
    assert looks[0] == looks[-1]
    await check_tree(service.runtime)


async def test_hand_overs_of_one_chat_at_the_same_time_end_in_one_tree(talk: Talk, service: Service) -> None:
    trunk = talk.turns(3)
    leaves = [talk.turns(3, leaf=trunk, prefix=f"branch{number}-") for number in range(8)]

    due = await asyncio.gather(*(talk.ingest(leaf) for leaf in leaves for _ in range(2)))

    assert len(due) == 16
    assert await stored_ids(service) == set(talk.rows)
    assert len(await rows(service.runtime, "select 1 from chats")) == 1
    await check_tree(service.runtime)


async def test_contradicting_hand_overs_at_the_same_time_end_in_one_of_the_trees(talk: Talk, service: Service) -> None:
    leaf = talk.turns(5)
    versions = []
    for number in range(6):
        talk.edit(talk.path(leaf)[2]["id"], f"version {number}")
        versions.append((talk.transcript(leaf), talk.pair(leaf)))

    answers = await asyncio.gather(*(talk.put(body) for body, _ in versions))

    assert {answer.status_code for answer in answers} == {202}
    await check_tree(service.runtime)
    stored = await row(service.runtime, "select digest from messages where message_id = :leaf", leaf=leaf)
    assert as_sent(stored, await service.runtime.database.seals.of(1)).digest in [digest for _, (_, digest) in versions]


# What the provider counted


async def overhead(service: Service) -> int:
    counted: int = (await row(service.runtime, "select overhead_tokens from chats")).overhead_tokens
    return counted


def answered(talk: Talk, question: str, prompt_tokens: object, **more: object) -> str:
    return talk.add("answered", question, "assistant", "Done.", usage={"prompt_tokens": prompt_tokens}, **more)


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0}, {"prompt_tokens": "many"}])
async def test_a_usage_that_says_nothing_keeps_the_overhead(talk: Talk, service: Service, usage: object) -> None:
    question = talk.add("question", talk.turns(4))
    estimated = sum(native_tokens(message) for message in talk.path(question))
    await talk.ingest(answered(talk, question, estimated + 700), served=0)
    leaf = talk.add("next", talk.turns(1, leaf="answered"), "assistant", usage=usage)

    await talk.ingest(leaf, served=0)

    assert await overhead(service) == 700


async def test_what_the_filter_estimates_counts_until_a_usage_was_compared(talk: Talk, service: Service) -> None:
    question = talk.add("question", talk.turns(4))
    size = sum(native_tokens(message) for message in talk.path(question))
    await talk.ingest(answered(talk, question, 5000), beside=900)
    assert await overhead(service) == 900
    await talk.ingest(answered(talk, question, 5000), beside=3000)
    assert await overhead(service) == 3000  # tools were added

    await talk.ingest(answered(talk, question, size + 800), served=0, beside=900)
    assert await overhead(service) == 800
    await talk.ingest(answered(talk, question, 5000), beside=3000)
    assert await overhead(service) == 2900
    await talk.ingest(answered(talk, question, 5000))
    assert await overhead(service) == 2900  # nobody says so
    await talk.ingest(answered(talk, question, 5000), beside=0)
    assert await overhead(service) == 0


async def test_usage_is_compared_with_the_summary_that_was_served(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)
    question = talk.add("question", leaf)
    ready = await talk.ask(question)
    made = await row(service.runtime, "select * from checkpoints where id = :id", id=ready["checkpoint_id"])
    estimated = sum(native_tokens(message) for message in talk.path(question))
    sent = estimated - made.covered_tokens + made.tokens

    await talk.ingest(answered(talk, question, sent + 123), after=leaf, served=made.id)

    assert await overhead(service) == 123
