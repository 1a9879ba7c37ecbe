"""The fidelity benchmark's own parts: the generator plants what it says, the scoring finds what is wrong."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fidelity import page
from benchmarks.fidelity.__main__ import chat as run
from benchmarks.fidelity.__main__ import figures
from benchmarks.fidelity.generator import Chat, build
from benchmarks.fidelity.items import Item, has, normal
from benchmarks.fidelity.phrasebook import DOMAINS, TYPES
from benchmarks.fidelity.scoring import Source, score
from benchmarks.fidelity.scripts import GOOD, SCRIPTS, Scripted
from benchmarks.fidelity.systems import BUILT_IN, ROUNDS, TAIL, covered, systems
from benchmarks.played import Path as ChatPath
from benchmarks.played import Played, every_round
from service.policy import Policy
from service.transcript import native_tokens, parse, steps

SEED = 2
FROM_TOOLS = ("tool", "used")


@pytest.fixture(scope="module")
def chat() -> Chat:
    return build(SEED)


@pytest.fixture(scope="module")
def whole(chat: Chat) -> Source:
    return Source.of(chat, {message["id"] for message in chat.messages})


def a_summary(source: Source, *, without: Item | None = None) -> str:
    """A summary that has every item, but one."""
    lines = [
        " ".join(key.split("|")[0] for key in item.keys) if item.type in FROM_TOOLS else item.gist
        for item in source.current
        if item is not without
    ]
    return "\n".join(f"- {line}" for line in lines)


def of_type(source: Source, type_: str) -> Item:
    return next(item for item in source.current if item.type == type_ and item.values)


def text_of(chat: Chat, identity: str) -> str:
    message = next(one for one in chat.messages if one["id"] == identity)
    return "\n".join(
        part for step in steps(parse(message)) for part in (step.text, *(c.result.text for c in step.calls))
    )


# the generator


def test_the_same_seed_makes_the_same_chat_and_another_one_another() -> None:
    assert json.dumps(build(7).messages) == json.dumps(build(7).messages)
    assert build(7).items == build(7).items
    assert build(7).messages[0]["content"] != build(15).messages[0]["content"]  # of the same domain


@pytest.mark.parametrize("seed", range(1, len(DOMAINS) + 1))
def test_every_item_is_said_where_it_claims_to_be_and_its_truth_is_recognised(seed: int) -> None:
    chat = build(seed)
    for item in chat.items:
        if item.type == "used":
            assert item.keys[0] in text_of(chat, item.message)
        elif item.type != "tool":
            assert item.text.rstrip(".。") in text_of(chat, item.message), item
            assert item.stands_in(normal(item.gist)), item
        elif item.text in ("first row", "last row", "range", "plain field"):
            assert all(key in text_of(chat, item.message) for key in item.keys), item


def test_every_type_is_planted_and_answers_are_long(chat: Chat) -> None:
    assert {item.type for item in chat.items} == set(TYPES)
    assert len(chat.messages) == 80
    assert 20_000 <= sum(map(native_tokens, chat.messages)) <= 50_000


def test_every_second_correction_has_no_word_that_says_so(chat: Chat) -> None:
    news = [item for item in chat.items if item.replaces]
    olds = {item.id: item for item in chat.items}
    silent = [
        new
        for new in news
        for old in [olds[str(new.replaces)]]
        if new.text.replace(new.values[0], "") == old.text.replace(old.values[0], "")
    ]
    assert 0 < len(silent) < len(news)


# the scoring


def test_a_summary_with_every_item_keeps_all_and_one_without_loses_that_one(whole: Source) -> None:
    assert not score(whole, a_summary(whole)).lost
    missing = of_type(whole, "constraint")
    assert score(whole, a_summary(whole, without=missing)).lost == (missing,)


def test_a_superseded_value_is_stale_alone_but_not_beside_its_successor(whole: Source) -> None:
    old, new = whole.superseded[0]
    assert score(whole, old.text).stale == (old,)
    assert not score(whole, f"{old.text} (later: {new.text})").stale


def test_what_stands_there_is_told_by_sort(whole: Source) -> None:
    item = of_type(whole, "decision")
    chatter = next(text for sort, text in whole.chat.filler if sort == "chatter")
    standing = score(whole, f"user: {item.text} {chatter}").standing
    assert standing["planted"] > 0
    assert standing["chatter"] > 0
    assert standing["request"] == 0


def test_a_value_that_nobody_said_is_wrong(whole: Source) -> None:
    assert "98765432" in score(whole, "The total is 98765432.").wrong


def test_a_number_is_found_in_any_spelling_and_never_inside_another() -> None:
    assert has(normal("It costs 12.500 €"), "12,500 €")
    assert not has(normal("It costs 112500"), "12500")


# the scripts


async def answers(chat: Chat, name: str) -> Sequence[str]:
    """Outcomes of one early round, and its summary."""
    path = ChatPath.of(chat.messages)
    script = next(one for one in SCRIPTS if one.name == name)
    played = Played(path, Scripted(script, chat))
    await played.round(path.rounds(ROUNDS, TAIL)[0] + TAIL, every_round(Policy.sized(), TAIL))
    return [*played.outcomes, played.shown.text]


async def test_the_good_llm_gets_every_item_of_users_kept(chat: Chat) -> None:
    *_, summary = await answers(chat, GOOD.name)
    path = ChatPath.of(chat.messages)
    source = Source.of(chat, {node.id for node in path.nodes[: path.rounds(ROUNDS, TAIL)[0]]})
    lost = [item for item in score(source, summary).lost if item.type not in FROM_TOOLS]
    assert not lost


async def test_an_empty_answer_is_replaced_by_what_code_keeps(chat: Chat) -> None:
    outcome, summary = await answers(chat, "empty")
    assert outcome == "degraded"
    assert "user:" in summary


# a small run


def test_every_system_fits_into_its_room(chat: Chat) -> None:
    path = ChatPath.of(chat.messages)
    room = path.tokens(covered(path)) // 20
    for system in systems():
        if system.floor or system.name == BUILT_IN:
            made = system.run(chat, path, room)
            assert 0 < native_tokens({"role": "user", "content": made.summary}) <= room + 8, system.name


def test_the_page_leads_with_what_is_not_kept(tmp_path: Path) -> None:
    found = {"seeds": 1, "budgets": [0.03], "figures": figures(run(SEED, (0.03,), quick=True)), "lost": []}
    page.write(found, tmp_path)
    text = (tmp_path / "fidelity.md").read_text(encoding="utf-8")
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads[0] == "## What is not kept"
    assert {image.name for image in (tmp_path / "images").iterdir()} == {"fidelity.png"}


def test_an_item_that_is_replaced_does_not_hold_any_more() -> None:
    item = Item("i", "value", "a", "a", ("a",), (), "m1", until="m2")
    assert item.current({"m1"})
    assert not item.current({"m1", "m2"})
    assert replace(item, until=None).current({"m1", "m2"})
