"""The comparison's own parts: what is planted is said, and the honest summariser keeps to it."""

import asyncio
import json
import re
from collections import Counter

import pytest

from benchmarks.compare import lookups, page, rows_tool
from benchmarks.compare.honest import Honest
from benchmarks.compare.scenario import Item, scenario
from service.text import tokens
from tests.builders import Json
from tests.fakes import http


def test_sixty_turns_have_118_items_each_said_in_its_turn() -> None:
    said = scenario(60)
    assert Counter(item.kind for item in said.items) == {
        "constraint": 8,
        "decision": 10,
        "preference": 6,
        "value": 22,
        "detail": 60,
        "tool": 12,
    }
    for item in said.items:
        there = rows_tool.rows(item.turn) if item.kind == "tool" else said.messages[item.turn]
        assert item.alive(there), item


def test_a_corrected_value_holds_until_the_turn_after_its_correction() -> None:
    old = next(item for item in scenario(60).items if item.until is not None)
    assert old.until is not None
    assert old.holds(old.until)
    assert not old.holds(old.until + 1)


def test_the_honest_summariser_copies_no_more_than_it_may_and_only_what_it_read() -> None:
    said = scenario(60)
    honest = Honest(said.items, 200)
    answer = honest.copied("\n".join(f"USER: {one}" for one in said.messages[:30]))
    assert tokens.count(answer) <= 200
    assert all(item.text in " ".join(said.messages[:30]) for item in said.items if item.text in answer)


def test_the_table_counts_tool_values_in_their_own_column_only() -> None:
    turn = [["constraint", "detail"], ["constraint", "detail", "detail", "tool"]]
    one = dict.fromkeys(("malformed", "leaks", "stale", "over", "calls", "spent", "chat"), 0)
    seen: Json = one | {"name": "x", "alive": [turn], "waits": []}
    found = [seen | {"found": ["detail", "tool"]}, seen | {"found": None}]
    row, other = page.table({"variants": found}).splitlines()[-2:]
    assert "| x | 66.7% | 2 of 3 | 3 of 3 | 1 of 1 | 0 of 1 | 1 of 1 |" in row
    assert "| x | 66.7% | 2 of 3 | – | 1 of 1 | 0 of 1 | – |" in other


def test_what_is_asked_for_has_the_words_of_the_item_and_never_its_value() -> None:
    for item in scenario(60).items:
        assert not item.alive(item.asked)
        asked = set(item.asked.split())
        there = rows_tool.rows(item.turn) if item.kind == "tool" else " ".join(scenario(60).messages)
        assert len([word for word in asked if word.strip(",.?") in there]) >= 3, item
    tool = next(item for item in scenario(60).items if item.kind == "tool")
    assert re.fullmatch(r"serial of site \w+, hours \d+, due 2027-\d\d-\d\d", tool.asked)
    value = next(item for item in scenario(60).items if item.kind == "value" and item.text.startswith("The"))
    assert [key in value.asked for key in value.keys] == [False, True]


ROW = "The serial is SN-7, as told."
ITEM = Item("tool", 0, ROW, ("SN-7",), "serial of the mill")
STASH = {"chat": "c", "user": "u", "pairs": [["m", "d"]], "served": 3, "offered": True, "recalls": 0}


@pytest.mark.parametrize(
    ("answers", "questions", "kinds"),
    [
        ([f"Found:\nM4 user: {ROW}"], [("serial of the mill", "", 1)], ["tool"]),
        (
            ["Found:\nT2 rows(), lines 41–80 of 99: a mill …", f"T2\n44| {ROW}"],
            [("serial of the mill", "", 1), ("", "T2", 41)],
            ["tool"],
        ),
        (["Found:\nM4 user: a mill …", "M4\n1| a mill"], [("serial of the mill", "", 1), ("", "M4", 1)], []),
        (["Nothing has these words."], [("serial of the mill", "", 1)], []),
    ],
)
async def test_an_item_is_found_by_one_call_or_in_the_best_hit_of_it(
    answers: list[str], questions: list[tuple[str, str, int]], kinds: list[str]
) -> None:
    asked: list[Json] = []

    async def recall(raw: http.Raw, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked.append(json.loads(raw.content))
        content = json.dumps({"status": "found", "text": answers[len(asked) - 1], "not_kept": 0}).encode()
        writer.write(http.head(200, len(content), {}) + content)
        await writer.drain()
        return True

    async with http.serving(recall) as url:
        assert await lookups.found({"service_url": url, "api_key": "key"}, STASH, [ITEM]) == kinds
    assert [(one.get("query", ""), one.get("ref", ""), one.get("line", 1)) for one in asked] == questions
