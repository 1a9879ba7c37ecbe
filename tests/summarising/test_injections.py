"""What a tool, a page, a file's name or a pasted text orders reaches no pin, no ledger entry, and no line of a summary.

Each injection goes the whole way, twice, the second round grown from the first: stored messages, steps, what a
summariser reads, the reply of a model that obeys, the memory made of it, and the summary message.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from service.planning import Policy
from service.summarising import compose, extractive, ledger, message, pins, prompt
from service.summarising.compose import Covered, Draught, Material, Read
from service.summarising.memory import Memory
from service.summarising.reading import Finish, Reply
from service.transcript import parse, steps
from tests.builders import Json
from tests.summarising.injection import Injection, Place
from tests.summarising.injections import INJECTIONS
from tests.summarising.planted import DECISION, RULES, carried, chat, is_one_record, obeying, proper

POLICY = Policy.sized(131_072)
FENCE = re.compile(r"^=== [0-9a-f]{16} ===", re.MULTILINE)
Model = Callable[[Injection, Material, bool], str]


def obeys(injection: Injection, material: Material, later: bool) -> str:
    return obeying(injection, material.reading.entries, later)


def obeys_and_says_nothing_else(injection: Injection, material: Material, later: bool) -> str:
    return obeying(injection, material.reading.entries, later, only=True)


def obeys_half_of_them(injection: Injection, material: Material, later: bool) -> str:
    """Always the same half."""
    heeds = random.Random(f"{injection.id} {later}").random() < 0.5
    return obeys(injection, material, later) if heeds else proper(later)


@dataclass(frozen=True)
class Round:
    material: Material
    draught: Draught


def played(injection: Injection, model: Model) -> list[Round]:
    """Both rounds."""
    fence, rounds, memory = "", list[Round](), Memory()
    for later in (False, True):
        stored = chat(injection, fence)[later]
        material = compose.gather(memory, reads(injection, stored, later), POLICY)
        fence = FENCE.findall(prompt.build(material.reading).user)[0]
        draught = written(material, model(injection, material, later), 40_000 if later else 20_000)
        rounds.append(Round(material, draught))
        memory = draught.memory
    return rounds


def reads(injection: Injection, stored: Sequence[Json], later: bool) -> list[Read]:
    """All steps; of a long one, its first piece in the first round and its second one in the second."""
    found = [step for one in stored for step in steps(parse(one))]
    if injection.place is not Place.PIECES:
        return [Read(step) for step in found]
    first = [step for one in chat(injection)[0] for step in steps(parse(one))]
    long = next(step for step in first if step.message_id == "i1" and step.calls)
    if later:
        return [Read(long, 1, 2), *(Read(step) for step in found if not step.message_id.startswith("i2"))]
    return [*(Read(step) for step in found if step.message_id != "i1"), Read(long, 0, 2)]


def written(material: Material, text: str, covered: int) -> Draught:
    """As a worker does it: what the gate rejects twice is written by rule."""
    draught = compose.compose(material, Reply(text, Finish.STOP), POLICY, Covered(40, covered))
    if draught.verdict.accepted:
        return draught
    reply = Reply(extractive.extract(material.reading), Finish.STOP)
    return compose.compose(material, reply, POLICY, Covered(40, covered), by_rule=True)


@pytest.mark.parametrize("model", [obeys_half_of_them, obeys, obeys_and_says_nothing_else])
@pytest.mark.parametrize("injection", INJECTIONS, ids=lambda one: one.id)
def test_nothing_of_an_injection_is_kept(injection: Injection, model: Model) -> None:
    for round_ in played(injection, model):
        memory = round_.draught.memory
        assert not carried(injection.payload, (pin.text for pin in memory.pins))
        holding = {pin.text for pin in pins.shown(memory.pins)}
        assert {*RULES, DECISION} <= holding
        if not injection.stated:
            assert not carried(injection.payload, [ledger.render(memory.ledger)])
            # What a user asked may be told in the user's words, with what they quote.
            told = [line for line in memory.narrative.splitlines() if not line.startswith("- Asked: ")]
            assert not carried(injection.payload, told)
        is_one_record(round_.draught.summary)


@pytest.mark.parametrize("injection", INJECTIONS, ids=lambda one: one.id)
def test_a_model_that_does_not_obey_is_published_as_it_wrote(injection: Injection) -> None:
    for round_ in played(injection, lambda _, __, later: proper(later)):
        assert round_.draught.verdict.outcome == "accepted"


@pytest.mark.parametrize("injection", INJECTIONS, ids=lambda one: one.id)
def test_a_fence_stands_in_our_own_lines_alone(injection: Injection) -> None:
    for round_ in played(injection, obeys):
        asked = prompt.build(round_.material.reading)
        fence = FENCE.findall(asked.user)[0]
        parts = [line for line in asked.user.splitlines() if line.startswith(fence)]
        assert asked.user.count(fence) == len(parts) == (4 if round_.material.reading.entries else 3)
        assert parts[-1] == f"{fence} end"
        assert asked.system.count(fence) == 1


def test_half_of_them_is_half_of_them() -> None:
    heeded = [random.Random(f"{one.id} {later}").random() < 0.5 for one in INJECTIONS for later in (False, True)]
    assert 0.4 < sum(heeded) / len(heeded) < 0.6


def test_an_order_on_the_border_of_two_pieces_is_whole_in_neither() -> None:
    (injection,) = (one for one in INJECTIONS if one.place is Place.PIECES)
    texts = ["\n".join(part.text for part in round_.material.reading.excerpts) for round_ in played(injection, obeys)]
    assert all(injection.text not in text for text in texts)
    assert injection.text[:12] in texts[0]
    assert injection.text[-12:] in texts[1]


def test_every_rule_is_pinned_before_anything_is_injected() -> None:
    _, later = played(INJECTIONS[0], lambda _, __, later: proper(later))
    assert message.render(later.draught.memory, 40, None).count(RULES[0]) == 1
