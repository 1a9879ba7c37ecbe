"""The comparison's own parts: what is planted is said, and the honest summariser keeps to it."""

from collections import Counter

from benchmarks.compare import page, rows_tool
from benchmarks.compare.honest import Honest
from benchmarks.compare.scenario import scenario
from service.text import tokens


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


def test_the_honest_summariser_leaves_out_what_stays_anyway() -> None:
    said = scenario(60)
    item = next(one for one in said.items if one.kind == "constraint")
    prompt = f"### Messages Being Compacted:\nnothing\n### Recent Messages Kept In Context:\n{item.text}"
    assert item.text not in Honest(said.items, 500).copied(prompt)


def test_the_honest_summariser_points_and_replaces() -> None:
    said = scenario(60)
    old = next(item for item in said.items if item.until is not None)
    new = next(one for one in said.items if one.turn == old.until and set(one.keys) & set(old.keys))
    answer = Honest(said.items, 500).pointed("", f"P3 value: {old.text}\n[40.2] {new.text}")
    assert "keep value: 40.2" in answer
    assert "replaced: P3 by 40.2" in answer


def test_the_table_counts_tool_values_in_their_own_column_only() -> None:
    turn = [["constraint", "detail"], ["constraint", "detail", "detail", "tool"]]
    one = dict.fromkeys(("malformed", "leaks", "stale", "over", "calls", "spent", "chat"), 0)
    row = page.table({"variants": [{"name": "x", "alive": [turn], "waits": [], **one}]}).splitlines()[-1]
    assert "| x | 66.7% | 2 of 3 | 1 of 1 | 0 of 1 |" in row
