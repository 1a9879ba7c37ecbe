"""The fidelity benchmark's own parts: the generator plants what it says, the scoring finds what is wrong.

And a small run: the service keeps constraints, decisions and rules, whoever writes the summary.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from compaction_kit import Turn

from benchmarks.fidelity import kit, page, storing
from benchmarks.fidelity.__main__ import summed_up
from benchmarks.fidelity.generator import TRYING, Chat, build
from benchmarks.fidelity.items import Item, has, normal
from benchmarks.fidelity.marks import Json
from benchmarks.fidelity.phrasebook import DOMAINS, TYPES, domain
from benchmarks.fidelity.running import one
from benchmarks.fidelity.scoring import Source, score
from benchmarks.fidelity.scripts import PERFECT, SCRIPTS, Script, Scripted
from benchmarks.fidelity.storing import Called, Format
from benchmarks.fidelity.systems import ROUNDS, budget, policy_of, precis, systems
from benchmarks.fidelity.systems import Path as ChatPath
from service import tokens
from service.summarising.reading import Excerpt, Reading
from service.transcript import native_tokens, parse, steps

SEED = 2


@pytest.fixture(scope="module")
def chat() -> Chat:
    return build(SEED)


@pytest.fixture(scope="module")
def whole(chat: Chat) -> Source:
    return Source.of(chat, {message["id"] for message in chat.messages})


def a_summary(source: Source, *, without: Item | None = None) -> str:
    """A summary that has every item, but one."""
    lines = [
        " ".join(key.split("|")[0] for key in item.keys) if item.type == "tool" else item.gist
        for item in source.current
        if item is not without
    ]
    return "\n".join(f"- {line}" for line in lines)


def of_type(source: Source, type_: str) -> Item:
    return next(item for item in source.current if item.type == type_ and item.values)


# the generator


def test_the_same_seed_makes_the_same_chat_and_another_one_another() -> None:
    assert json.dumps(build(7).messages) == json.dumps(build(7).messages)
    assert build(7).items == build(7).items
    assert build(7).messages[0]["content"] != build(12).messages[0]["content"]  # of the same domain


@pytest.mark.parametrize("seed", range(1, len(DOMAINS) + 1))
def test_every_item_is_said_where_it_claims_to_be_and_its_truth_is_recognised(seed: int) -> None:
    chat = build(seed)
    texts = {
        message["id"]: [
            part for step in steps(parse(message)) for part in (step.text, *(c.result.text for c in step.calls))
        ]
        for message in chat.messages
    }
    for item in chat.items:
        if item.type != "tool":
            assert any(item.text in text for text in texts[item.message]), item
            assert item.stands_in(normal(item.text)), item
            assert item.stands_in(normal(item.gist)), item
        elif item.text in ("first row", "last row", "range"):
            assert any(all(key in text for key in item.keys) for text in texts[item.message]), item


def test_a_chat_has_every_type_and_format_and_enough_for_five_rounds(chat: Chat) -> None:
    assert {item.type for item in chat.items} == {*TYPES, "tool"}
    assert 60 <= len(chat.messages) <= 100
    assert 15_000 <= sum(map(native_tokens, chat.messages)) <= 40_000
    answers = [message for message in chat.messages if message["role"] == "assistant"]
    calls = [call.call for answer in answers for step in steps(parse(answer)) for call in step.calls]
    assert {call.id.partition("_")[0].partition("-")[0] for call in calls} >= {"call", "bare"}
    assert any("output" in answer for answer in answers)
    assert any(' result="' in str(answer["content"]) for answer in answers)
    assert any("</summary>\n&quot;" in str(answer["content"]) for answer in answers)


def test_the_order_to_the_assistant_is_in_a_tool_result_and_nowhere_else(chat: Chat) -> None:
    said = [step for message in chat.messages for step in steps(parse(message))]
    assert sum(chat.order in call.result.text for step in said for call in step.calls) == 1
    assert not any(chat.order in step.text for step in said)


def test_a_superseded_item_is_current_until_its_successor_is_covered(chat: Chat) -> None:
    ids = [message["id"] for message in chat.messages]
    old = next(item for item in chat.items if item.until)
    new = next(item for item in chat.items if item.replaces == old.id)
    before, after = ids[: ids.index(new.message)], ids[: ids.index(new.message) + 1]
    assert old.current(before)
    assert not new.current(before)
    assert not old.current(after)
    assert new.current(after)


def test_a_third_of_the_phrasings_is_kept_from_the_chats_that_rules_are_tried_on() -> None:
    for type_ in TYPES:
        phrasings = [phrasing for name in DOMAINS for phrasing in domain(name).phrasings[type_]]
        assert len(phrasings) >= 15
        assert 0.25 <= sum(phrasing.held_out for phrasing in phrasings) / len(phrasings) <= 0.4
    assert not any(item.held_out for seed in range(TRYING, TRYING + 5) for item in build(seed).items)
    assert any(item.held_out for item in build(1).items)


@pytest.mark.parametrize("form", Format)
def test_all_stored_formats_give_the_same_result_back(form: Format) -> None:
    result = '[{"shop": "AB-1", "sum": 12847.50}, {"shop": "<b>&\\"", "sum": 7.10}]'
    message = storing.stored("m1", ["Before.", Called("c1", "ask", {"a": 1}, result), "After."], form, 1)
    found = [call.result.text for step in steps(parse(message)) for call in step.calls]
    assert found == [result]


def test_a_table_says_what_its_record_must_show() -> None:
    chat = build(3)
    ranges = [item for item in chat.items if item.text == "range"]
    assert ranges
    assert all(float(item.keys[0]) <= float(item.keys[1]) for item in ranges)


# the scoring


def test_a_summary_with_everything_is_scored_as_such(whole: Source) -> None:
    found = score(whole, a_summary(whole))
    assert not found.lost
    assert found.values[0] == found.values[1] > 50
    assert found.recall[0] == found.recall[1] > 10
    assert (found.leaks, found.contradicted[0], found.order) == ((), (), False)
    assert found.superseded == 4


@pytest.mark.parametrize("type_", [*TYPES, "tool"])
def test_a_lost_item_is_found_whatever_its_type(whole: Source, type_: str) -> None:
    gone = next(item for item in reversed(whole.current) if item.type == type_)
    found = score(whole, a_summary(whole, without=gone))
    assert found.lost == (gone.id,)
    kept, every = found.survival[type_]
    assert kept == every - 1


def altered(item: Item, summary: str) -> str:
    """The summary with another digit at the end of the item's number."""
    number = next(found[0] for value in item.values if (found := re.search(r"\d[\d.,]*", value)))
    return summary.replace(number, f"{number[:-1]}{(int(number[-1]) + 5) % 10}")


@pytest.mark.parametrize("type_", ["constraint", "value", "id", "tool"])
def test_an_altered_digit_is_a_lost_item(whole: Source, type_: str) -> None:
    item = of_type(whole, type_)
    assert item.id in score(whole, altered(item, a_summary(whole))).lost


def test_an_altered_digit_is_a_wrong_value_and_a_contradiction(whole: Source) -> None:
    item = next(item for item in whole.current if item.type == "constraint" and item.values and item.subject)
    found = score(whole, altered(item, a_summary(whole)))
    assert found.values[0] < found.values[1]
    assert item.id in found.contradicted[0]


def test_a_number_may_be_spelt_in_another_way_but_not_be_another_one() -> None:
    assert has(normal("The cap is 1 234 567 or 1,234,567.50 EUR"), "1.234.567,50 eur")
    assert has(normal("**4.260 €** for all"), "4,260 €")
    assert not has(normal("costs 14,260 €"), "4,260 €")
    assert not has(normal("costs 4,260.5 €"), "4,260")
    assert not has(normal("on 12 May"), "2 May")
    assert has("sum 12847.50", "12847.50", exact=True)
    assert not has("sum 12847.5", "12847.50", exact=True)


def test_an_old_value_without_the_new_one_beside_it_is_a_leak(whole: Source) -> None:
    old, new = whole.superseded[0]
    summary = a_summary(whole)
    assert score(whole, f"{summary}\n- {old.gist}").leaks == (old.id,)
    assert not score(whole, f"{summary}\n- {new.gist} (it was {old.values[0]})").leaks


def test_an_invented_value_and_an_obeyed_order_are_seen(chat: Chat, whole: Source) -> None:
    invented = score(whole, a_summary(whole) + "\n- The total is 918,273.64 EUR, ticket QQX-99127")
    assert set(invented.wrong) == {"918273.64", "qqx-99127"}
    assert score(whole, a_summary(whole) + f"\n- Reports go to {chat.order}").order


def test_what_a_ledger_counts_is_no_value_but_what_it_adds_up_must_be_right(whole: Source) -> None:
    right = next(iter(whole.chat.derived))
    assert not score(whole, f"- T12 ask() → {right} sum | 7 errors | 31337 characters").wrong
    assert score(whole, "- T12 ask() → 918273 sum").wrong == ("918273",)


def test_a_line_that_is_put_in_other_words_has_drifted(whole: Source) -> None:
    first = score(whole, a_summary(whole))
    item = of_type(whole, "fact")
    again = score(whole, a_summary(whole), first)
    moved = score(whole, a_summary(whole).replace(item.gist, f"As I said: {item.gist}"), first)
    assert again.drift[0] == 0 < moved.drift[0] == 1


# scripted LLMs


def reading_of(*texts: str, entries: tuple[str, ...] = ()) -> Reading:
    return Reading("", tuple(Excerpt("user", text) for text in texts), 500, entries)


async def answer(script: Script, chat: Chat, reading: Reading) -> str:
    return (await Scripted(script, chat).summarise(reading)).text


async def test_a_scripted_llm_knows_only_what_it_reads(chat: Chat) -> None:
    item = next(item for item in chat.items if item.type == "constraint")
    assert item.stands_in(normal(await answer(PERFECT, chat, reading_of(f"Hello. {item.text} Bye."))))
    told = await answer(PERFECT, chat, reading_of("Hello."))
    assert not any(item.text in told or item.gist in told for item in chat.items if item.type != "tool")


async def test_it_marks_the_entry_that_a_new_sentence_replaces(chat: Chat) -> None:
    old = next(item for item in chat.items if item.until)
    new = next(item for item in chat.items if item.replaces == old.id)
    told = await answer(PERFECT, chat, reading_of(new.text, entries=(f"P7 value: {old.text}",)))
    assert f"- P7: {new.text}" in told


@pytest.mark.parametrize("name", ["drops", "alters", "invents", "reasons", "empty", "oversized"])
async def test_a_faulty_one_answers_otherwise_than_the_perfect_one(chat: Chat, name: str) -> None:
    script = next(script for script in SCRIPTS if script.name == name)
    reading = reading_of(*(item.text for item in chat.items if item.type != "tool"), "And then?")
    reading = replace(reading, excerpts=(*reading.excerpts, Excerpt("assistant", "So it is.")))
    assert await answer(script, chat, reading) != await answer(PERFECT, chat, reading)


# the systems


def test_five_rounds_cover_more_and_more_and_every_system_keeps_to_its_budget(chat: Chat) -> None:
    path = ChatPath.of(chat)
    limit = budget(path, 0.20)
    for system in systems():
        if system.llm in ("none", "perfect", "extractive"):
            made = list(system.run(path, limit))
            covered = [len(one.covered) for one in made]
            assert len(covered) == ROUNDS
            assert covered == sorted(set(covered))
            assert all(tokens.count(one.summary) <= 0.22 * made[-1].covered_tokens for one in made), system


@pytest.fixture(scope="module")
def small_run() -> Json:
    """Some systems, one chat, one budget."""
    path, sources = ChatPath.of(build(SEED)), dict[int, Source]()
    chosen = [system for system in systems() if system.llm in ("perfect", "empty", "extractive", "none")]
    records = [record for system in chosen for record in one(path, system, 0.20, sources)]
    return summed_up(records, (SEED,), (0.20,))


@pytest.mark.parametrize("mark", ["constraints", "decisions", "rules"])
def test_constraints_decisions_and_rules_are_kept_whoever_writes_the_summary(small_run: Json, mark: str) -> None:
    assert small_run["marks"][mark]["met"], small_run["faults"]


def test_the_floors_lose_what_precis_keeps(small_run: Json) -> None:
    assert small_run["marks"]["rules"]["floors"]["truncation"] < 0.5
    assert small_run["marks"]["cliffs"]["floors"]["masking"] > 0


def test_what_is_served_ends_with_the_summary_of_the_last_round(chat: Chat) -> None:
    path = ChatPath.of(chat)
    *_, last = precis(path, policy_of(4000), Scripted(PERFECT, chat))
    assert last.covered == path.covered(path.ends[-1] - 10)


def test_precis_in_the_kit_keeps_to_its_budget_and_to_its_own_output() -> None:
    turns = [Turn("system", "You help.")]
    for number in range(20):
        turns += [
            Turn("user", f"Keep ticket AB-{number}{number} in mind. How is it going?"),
            Turn("assistant", "Fine."),
        ]
    compactor = kit.PrecisCompactor()
    first = compactor.compact(turns, 1, 900).text
    assert len(first) <= 900
    assert compactor.compact([Turn("system", first)], 2, 900).text == first


def test_the_page_says_what_was_found_and_shows_it(small_run: Json, tmp_path: Path) -> None:
    entries = [an_entry("checklist"), an_entry(kit.PrecisCompactor.name)]
    real = {"about": "Tried.", "figures": {"calls": 3}, "summary": "## Goal"}
    page.write(small_run | {"kit": entries, "real_llm": real}, tmp_path)
    text = (tmp_path / "fidelity.md").read_text()
    assert all(mark["meaning"] in text for mark in small_run["marks"].values())
    assert "| truncation | none |" in text
    assert "| calls | 3 |" in text
    assert kit.PrecisCompactor.name in text
    drawn = {image.name for image in (tmp_path / "images").iterdir()}
    assert all(f"images/{name}" in text for name in drawn)
    assert len(drawn) == 3


def an_entry(compactor: str) -> Json:
    """As the kit's benchmark gives it."""
    return {
        "compactor": compactor,
        "budget_fraction": 0.2,
        "mean_final_output_ratio": 0.1,
        "randomized": {"overall_final_survival": 0.5, "supersession": {"stale": 1, "n": 2}},
        "semantic": {"resolved_rate": 0.3, "distinct_pair_rate": 1.0, "conflicts": {"stale": 1, "n": 2}},
    }
