"""What a model points at by number, through HTTP and two rounds: kept word for word, replaced, struck out."""

import re

import pytest

from tests.fakes.scripted_llm import Message, Say
from tests.service.harness import Harness
from tests.service.talk import Json

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD = "Never run the pumps above 4 bar."
NEW = "From now on the pumps may run up to 5 bar."
RULES = "Rules and wishes, in the user's words"
NAMED = "The pump of hall 2 is called Emil."


def section(summary: str, head: str) -> list[str]:
    """The lines under a head of a summary."""
    found = re.search(rf"^## {head}\n((?:- .*\n)+)", summary, re.MULTILINE)
    return [line.removeprefix("- ") for line in found[1].splitlines()] if found else []


def held(made: Json) -> list[tuple[int, str, str]]:
    return [(pin["number"], pin["kind"], pin["text"]) for pin in made["pins"] if pin["replaced_by"] is None]


async def first_round(harness: Harness) -> str:
    """A chat whose first summary keeps two sentences of the user; returns its leaf."""
    opening = harness.talk.add("u", None, content=f"{OLD} {NAMED}")
    leaf = harness.talk.add("a", opening, "assistant", "I will keep that in mind.")
    leaf = await harness.long_chat(leaf=leaf)
    harness.llm.script(Say("rules: 1.1\nquotations: 1.2, 99.1\n## Goal\nWatch the pumps."))
    await harness.compress(harness.worker_context(summariser_window=32_768))
    return leaf


async def second_round(harness: Harness, leaf: str, says: str) -> str:
    """It goes on with a new rule, whose number stands for `{new}` in what the model says; returns the leaf."""

    def say(messages: list[Message]) -> str:
        numbers = re.findall(rf"\[(\d+\.\d+)\] {NEW}", str(messages[-1]["content"]))
        return f"{says.format(new=''.join(numbers))}\n## Goal\nWatch the pumps."

    harness.llm.default = say
    leaf = harness.talk.add("new", leaf, content=NEW)
    leaf = harness.talk.turns(18, leaf=harness.talk.add("noted", leaf, "assistant", "Noted."))
    assert await harness.talk.ingest(leaf)
    await harness.compress(harness.worker_context(summariser_window=32_768))
    return leaf


async def shown(harness: Harness) -> Json:
    """The newest checkpoint, as operators see it."""
    newest = (await harness.made())[-1].id
    found: Json = (await harness.service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{newest}")).json()
    return found


async def test_what_is_pointed_at_is_kept_word_for_word_and_what_is_nowhere_is_told(harness: Harness) -> None:
    leaf = await first_round(harness)

    made = await shown(harness)
    assert held(made) == [(1, "rule", OLD), (2, "quotation", NAMED)]
    assert made["checkpoint"]["verdict"]["unfounded"] == ["99.1"]
    answer = await harness.talk.ask(leaf)
    assert section(answer["summary"], RULES) == [OLD]
    assert section(answer["summary"], "Word for word") == [NAMED]
    assert answer["summary"].count(OLD) == 1, "it stands among the rules, and not in the talk once more"


async def test_a_later_call_is_shown_what_was_chosen_and_may_replace_and_drop_it(harness: Harness) -> None:
    leaf = await first_round(harness)

    leaf = await second_round(harness, leaf, "replaced: P1 by {new}\ndrop: P2")

    read = harness.llm.requests[-1].text
    assert f"P1 rule: {OLD}\nP2 quotation: {NAMED}" in read
    assert held(await shown(harness)) == [(3, "rule", NEW)]
    summary = (await harness.talk.ask(leaf))["summary"]
    assert (section(summary, RULES), section(summary, "Word for word")) == ([NEW], [])
