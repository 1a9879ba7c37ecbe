"""The prompt: its fence, its languages, what it costs, and what a repair adds."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.planning.policy import PROMPT_TOKENS, REPAIR_TOKENS
from service.summarising import prompt
from service.summarising.reading import Excerpt, Finish, Reading, RejectedReply, Reply
from service.summarising.reply import parse_reply
from service.summarising.wordings import LANGUAGES, WORDINGS
from service.text import tokens

FENCE = re.compile(r"^=== [0-9a-f]{16} ===", re.MULTILINE)


def reading(*texts: str, previous: str = "", parts: int = 1) -> Reading:
    excerpts = tuple(Excerpt("user", text) for text in texts)
    return Reading((previous,) if previous else (), excerpts, 400, part=parts, parts=parts)


def fence_of(built: prompt.Prompt) -> str:
    found = FENCE.match(built.user)
    assert found
    return found[0]


# ---- the fence

FENCES = [fence_of(prompt.build(reading(text))) for text in ("", "a", "b")]
HOSTILE = st.lists(st.text(max_size=20) | st.sampled_from([*FENCES, f"{FENCES[0]} end", "=== end"]), max_size=4)


@given(
    HOSTILE,
    HOSTILE.map("\n".join),
    HOSTILE.map(tuple),
    HOSTILE.map(tuple),
    st.sampled_from([*LANGUAGES, "fi"]),
)
def test_no_text_can_close_the_fence(
    texts: list[str],
    previous: str,
    entries: tuple[str, ...],
    rejections: tuple[str, ...],
    language: str,
) -> None:
    rejected = RejectedReply("", rejections) if rejections else None
    built = prompt.build(
        replace(reading(*texts, previous=previous), entries=entries, rejected=rejected, language=language)
    )
    fence = fence_of(built)
    assert built.user.count(fence) == (4 if entries else 3)
    assert built.repair.count(fence) == (2 if rejections else 0)
    assert not any(fence in text for text in (*texts, previous, *entries, *rejections))
    assert fence in built.system


# ---- the wording


@pytest.mark.parametrize("language", [*LANGUAGES, "fi"])
@pytest.mark.parametrize("parts", [1, 12])
@pytest.mark.parametrize("state_tokens", [128, 4000])
def test_the_wording_costs_less_than_is_planned_for(language: str, parts: int, state_tokens: int) -> None:
    text, previous = "The quick brown fox jumps. " * 300, "The record. " * 100
    entry = "P7 rule: It must be blue."
    excerpts = (Excerpt("user", text),)
    read = Reading((previous,), excerpts, state_tokens, (entry,), parts, parts, language)
    built = prompt.build(read)
    own = sum(map(tokens.count, (text, previous, entry)))
    assert tokens.count(built.system) + tokens.count(built.user) - own <= PROMPT_TOKENS


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_wording_is_in_its_language_and_names_the_bound(language: str) -> None:
    built = prompt.build(replace(reading("x"), language=language))
    assert WORDINGS[language].prompt["language"] in built.system
    # Words, or characters where no blanks stand between words, for 400 tokens.
    assert ("480" if language in ("ja", "zh") else "180") in built.system
    assert not re.search(r"\{\w+\}", built.system + built.user)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_lines_that_a_prompt_shows_are_read_as_they_are_meant(language: str) -> None:
    """A form that its own reader does not understand would teach a model a wrong one."""
    system = prompt.build(replace(reading("x"), language=language)).system
    shown = parse_reply(Reply(system, Finish.STOP))
    assert (shown.rules, shown.quotations) == (("0.3", "0.5-0.7"), ("0.9",))
    assert shown.replaced == ((0, "0.9"),)


def test_every_language_has_the_same_parts() -> None:
    english = set(WORDINGS["en"].prompt) - {"other"}
    for wording in WORDINGS.values():
        assert set(wording.prompt) - {"other"} == english
        assert set(wording.verbs) == set(WORDINGS["en"].verbs)
        assert wording.obliging


def test_a_language_without_a_wording_is_asked_for_by_its_code() -> None:
    assert "(fi)" in prompt.build(replace(reading("x"), language="fi")).system
    assert "Write in English." not in prompt.build(replace(reading("x"), language="fi")).system


# ---- what is read


def repair(language: str, *reasons: str, earlier: str = "## Goal\nShip it.") -> prompt.Prompt:
    return prompt.build(replace(reading("x"), language=language, rejected=RejectedReply(earlier, reasons)))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_repair_shows_the_earlier_answer_and_names_each_fault_after_the_same_text(language: str) -> None:
    first = prompt.build(replace(reading("x"), language=language))
    again = repair(language, "too long", "12 does not occur")
    assert again.user == first.user.replace(fence_of(first), fence_of(again))
    assert [one["role"] for one in again.messages] == ["system", "user", "assistant", "user"]
    assert again.messages[2]["content"] == "## Goal\nShip it."
    assert "- too long\n- 12 does not occur\n" in again.repair


def test_who_is_to_shorten_an_answer_does_not_read_the_messages_again() -> None:
    rejected = RejectedReply("## Goal\nShip it.", ("too long",), is_too_long=True)
    chat = reading("The pump is blue.")
    messages = prompt.build(replace(chat, rejected=rejected)).messages
    assert "The pump is blue." in prompt.build(chat).user
    assert not any("The pump is blue." in one["content"] for one in messages)
    assert "Ship it." in messages[2]["content"]


@pytest.mark.parametrize(("times", "told"), [(0.5, 180), (1, 180), (1.5, 120), (9, 90)])
def test_who_wrote_too_much_is_told_less_in_the_same_measure_and_never_below_half(times: float, told: int) -> None:
    again = repair("en", "too long", earlier=" word" * int(400 * times))
    assert f" {told} words" in again.system
    assert f" {told} words" in again.repair


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_repair_costs_less_than_is_planned_for_however_many_faults_there_are(language: str) -> None:
    faults = (f"“{'a very long line ' * 4}”: {number} does not occur" for number in range(50))
    again = repair(language, *faults, earlier="Fine is the word. " * 500)
    assert tokens.count(again.repair) <= REPAIR_TOKENS
    assert tokens.count(again.earlier) <= reading("x").state_tokens * 5 // 4
