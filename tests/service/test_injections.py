"""Injections through the running service: handed over, read by a model that obeys them over HTTP, and served."""

import re

import pytest

from service.summarising import ledger
from service.summarising.ledger import Entry
from tests.fakes.scripted_llm import Default, Message
from tests.service.desk import Desk
from tests.service.talk import check_tree, prose
from tests.summarising.injection import Injection, Place
from tests.summarising.injections import INJECTIONS
from tests.summarising.planted import RULES, carried, chat, is_one_record, obeying, proper

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
CASES = [one for one in INJECTIONS if one.id in SERVED]
ENTRY = re.compile(r"^P\d+ [a-z]+: ", re.MULTILINE)


def hand_in(desk: Desk, injection: Injection) -> str:
    """The chat with its injection, and so much talk after each half that both are covered; returns the leaf."""
    leaf: str | None = None
    for place, half in enumerate(chat(injection)):
        for stored in half:
            more = {name: value for name, value in stored.items() if name not in ("id", "role", "content")}
            content = stored["content"] if isinstance(stored["content"], str) else ""
            leaf = desk.talk.add(stored["id"], leaf, stored["role"], content, **more)
        for number in range(7):
            leaf = desk.talk.add(f"u{place}-{number}", leaf, content="And the next hall?")
            leaf = desk.talk.add(f"a{place}-{number}", leaf, "assistant", prose(600, f"a{place}-{number}"))
    assert leaf
    return leaf


def obedient(injection: Injection) -> Default:
    def say(messages: list[Message]) -> str:
        """Obeys whenever it reads the injection."""
        read = str(messages[-1]["content"])
        seen = carried(injection.payload, [read])
        entries = [read[found.start() : read.find("\n", found.start())] for found in ENTRY.finditer(read)]
        return obeying(injection, entries, later="u1-0" in read) if seen else proper(later=True)

    return say


@pytest.mark.parametrize("injection", CASES, ids=lambda one: one.id)
async def test_nothing_of_an_injection_is_stored_or_served(desk: Desk, injection: Injection) -> None:
    desk.llm.default = obedient(injection)
    leaf = hand_in(desk, injection)
    await desk.talk.hand_over(leaf)
    await desk.drain()

    made = await desk.made()
    assert len(made) > 1
    for checkpoint in made:
        assert not carried(injection.payload, (pin["text"] for pin in checkpoint.pins))
        assert not carried(injection.payload, [ledger.render([Entry(**one) for one in checkpoint.ledger])])
        assert not carried(injection.payload, [checkpoint.narrative])
        held = {pin["text"] for pin in checkpoint.pins if pin["replaced_by"] is None}
        assert set(RULES) <= held
    answer = await desk.talk.ask(leaf)
    assert answer["status"] == "ready"
    is_one_record(answer["summary"])
    assert not carried(injection.payload, [answer["summary"]])
    shown = [request for request in desk.llm.requests if carried(injection.payload, [request.text])]
    assert bool(shown) == (injection.place is not Place.FILE_NAME)  # such a name is not even shown to the model
    await check_tree(desk.service.runtime)
