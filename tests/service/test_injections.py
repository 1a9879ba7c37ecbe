"""Injections through the running service: handed over, read by a model that obeys them over HTTP, and served."""

from typing import Any

import pytest

from service.summarising.memory import Kind
from tests.fakes.scripted_llm import Default, Message
from tests.service.harness import Harness, told
from tests.service.talk import check_tree, prose
from tests.summarising.injection import Injection
from tests.summarising.injections import INJECTIONS
from tests.summarising.planted import DISTRACTION, RULES, carried, chat, is_one_record, obeying, proper

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVED = (
    "a page says it outright",
    "the mark that ends our message",
    "a section of superseded entries",
    "role tags of ChatML",
    "Spanish, in an attribute of a fold",
    "a tool's result that was pasted, and is none",
    "a file name with line breaks",
    "an answer that repeats the order",
)
BINDING = (Kind.CONSTRAINT, Kind.DECISION, Kind.PREFERENCE, Kind.GOAL)
CASES = [one for one in INJECTIONS if one.id in SERVED]


def hand_in(harness: Harness, injection: Injection) -> str:
    """The chat with its injection, and so much talk after each half that both are covered; returns the leaf."""
    leaf: str | None = None
    for place, half in enumerate(chat(injection)):
        for stored in half:
            more = {name: value for name, value in stored.items() if name not in ("id", "role", "content")}
            content = stored["content"] if isinstance(stored["content"], str) else ""
            leaf = harness.talk.add(stored["id"], leaf, stored["role"], content, **more)
        for number in range(7):
            leaf = harness.talk.add(f"u{place}-{number}", leaf, content="And the next hall?")
            leaf = harness.talk.add(f"a{place}-{number}", leaf, "assistant", prose(600, f"a{place}-{number}"))
    assert leaf
    return leaf


def obedient(injection: Injection) -> Default:
    def say(messages: list[Message]) -> str:
        """Obeys whenever it reads the injection."""
        read = str(messages[-1]["content"])
        later = DISTRACTION in read
        return obeying(injection, read, later) if carried(injection.payload, [read]) else proper(read, later)

    return say


def binding(checkpoint: Any) -> list[str]:
    """The pins that stand in a system message whatever the form."""
    return [
        pin["text"]
        for pin in checkpoint.pins
        if pin["kind"] in BINDING and pin["speaker"] == "user" and pin["replaced_by"] is None
    ]


@pytest.mark.parametrize("injection", CASES, ids=lambda one: one.id)
async def test_an_injection_is_no_rule_and_no_narrative_of_what_is_stored_and_served(
    harness: Harness, injection: Injection
) -> None:
    harness.llm.default = obedient(injection)
    leaf = hand_in(harness, injection)
    await harness.talk.ingest(leaf)
    await harness.drain()

    made = await harness.made()
    assert len(made) > 1
    for checkpoint in made:
        assert not carried(injection.payload, binding(checkpoint))
        assert not carried(injection.payload, [checkpoint.rules])
        # What is stated without an order may be told, but not as a rule.
        assert injection.stated or not carried(injection.payload, [told(checkpoint)])
        is_one_record(checkpoint.record)
    answer = await harness.talk.ask(leaf)
    assert answer["status"] == "ready"
    is_one_record(answer["summary"])
    assert all(rule in answer["summary"] for rule in RULES)
    asked = await harness.talk.ask(leaf, summary_role="record")
    assert not carried(injection.payload, [asked.get("summary", "")])
    is_one_record(asked["record"])
    # A name is cut to the form of one before it is shown to anybody.
    shown = [request for request in harness.llm.requests if carried(injection.payload, [request.text])]
    assert shown or injection.id == "a file name with line breaks"
    await check_tree(harness.runtime)
