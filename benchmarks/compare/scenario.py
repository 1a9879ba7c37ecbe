"""The conversation: what is said in each turn, what is planted in it, and how it is known to be alive.

In: how many turns. Out: a `Scenario`, always the same. For 60 turns, 118 items: 8 constraints, 10 decisions,
6 preferences, 22 values of which 6 correct earlier ones, 60 details, 12 values that only a tool gave and nobody used.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.compare import rows_tool

TOOL_EVERY = 3
_COUNTS = {"constraint": 8, "decision": 10, "preference": 6, "value": 16, "correction": 6, "detail": 60, "tool": 12}
_TURNS = 60  # that the counts are for
_NAMES = (
    "Abel",
    "Berit",
    "Cato",
    "Dina",
    "Egon",
    "Fenna",
    "Gero",
    "Hilde",
    "Ivo",
    "Jorun",
    "Kai",
    "Liv",
    "Mats",
    "Nele",
)
_FAMILIES = ("Arnesen", "Brekke", "Castello", "Drost", "Eklund", "Fabre", "Gillis", "Hansen", "Ibsen", "Jansma", "Kerr")
_THINGS = ("press", "kiln", "crane", "lathe", "boiler", "conveyor", "mixer", "pump", "saw", "dryer", "loom", "furnace")
_SAYS = {
    "constraint": (
        "Nothing may be ordered from {name} any more, they let us down twice.",
        "The whole refit has to stay below {number} euros, the bank gave us no more.",
        "No work in hall {code} between noon and two, the neighbours complained.",
        "Whatever you write for the crew, leave out what {name} earns.",
    ),
    "decision": (
        "We'll take the {thing} from {name}, that's settled.",
        "Talked it over at home: hall {code} goes first.",
        "{name} leads the move then, not me.",
        "ok the blue variant {code}, I'm convinced",
    ),
    "preference": (
        "I like lists better than long text, {number} lines at most.",
        "Could you put {name} first whenever you list people?",
        "Tables with the {thing} on top read best for me, as in {code}.",
    ),
    "value": (
        "The {thing} in bay {code} draws {number} watts.",
        "Rent for bay {code} is {number} a month.",
        "The {thing} at {code} holds {number} litres.",
    ),
    "detail": (
        "{name} has the key to locker {code}.",
        "The spare part for the {thing} is in box {code}.",
        "{name} was born in the house next to mill {code}, by the way.",
        "Our {thing} came from a sale in {number}, lot {code}.",
        "The manual of the {thing} calls that valve {code}.",
        "{name} saw {number} of them at the fair, stand {code}.",
    ),
}
_CORRECTED = ("Measured again: {number} it is for {code}.", "For {code} it's {number}.", "{code}: {number}, sorry.")
_ASKED = (
    "What would you do first?",
    "Can you sketch that for me?",
    "Does that change the plan?",
    "How long would that take?",
    "And what about the cabling?",
    "Anything that I forgot?",
)
_CHATTER = (
    "Long day again.",
    "The phone kept ringing all morning.",
    "It rained into the yard, everything is mud.",
    "I had to look for my glasses first.",
    "The new people are slow, but they learn.",
)
_CLAIMS = (
    "the order of the work matters more than its speed",
    "two smaller steps are easier to undo than a large one",
    "the floor should be dry before anything heavy goes on it",
    "somebody has to be there when the lorry comes",
    "a drawing on paper avoids most of the questions later",
    "old wiring tends to be where nobody expects it",
    "it pays to label both ends of a hose",
    "the crew will want to know who decides in case of doubt",
)
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Item:
    """What is planted.

    `keys` have to be in a request; `asked` is what somebody who misses it asks for, which has not its value; `until` is
    the turn that corrects it.
    """

    kind: str
    turn: int
    text: str
    keys: tuple[str, ...]
    asked: str
    until: int | None = None

    def holds(self, turn: int) -> bool:
        """Whether it was said before this turn, and holds."""
        return self.turn < turn and (self.until is None or self.until >= turn)

    def alive(self, text: str) -> bool:
        """Whether a request has it."""
        return all(key in text for key in self.keys)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`messages` are the user's, one for each turn; `answers` those of the model."""

    items: Sequence[Item]
    messages: Sequence[str]
    answers: Sequence[str]


def scenario(turns: int, seed: int = 7) -> Scenario:
    """The conversation of so many turns."""
    rng = random.Random(seed)
    items = _planted(rng, turns)
    messages = []
    for turn in range(turns):
        said = [item.text for item in items if item.turn == turn and item.kind != "tool"]
        parts = [*rng.sample(_CHATTER, 1), *said]
        rng.shuffle(parts)
        messages.append(" ".join([f"Turn {turn + 1}.", *parts, rng.choice(_ASKED)]))
    return Scenario(items, messages, [_answer(rng, turn) for turn in range(turns)])


def flat(text: str) -> str:
    """A text in which keys are looked for: one blank between words."""
    return _BLANKS.sub(" ", text)


def called(turn: int) -> bool:
    """Whether the model looks into the table in this turn."""
    return turn % TOOL_EVERY == 0


def _planted(rng: random.Random, turns: int) -> list[Item]:
    counts = {kind: max(1, round(count * turns / _TURNS)) for kind, count in _COUNTS.items()}
    used: set[str] = set()
    items: list[Item] = []
    last = max(turns - 2, 1)
    for kind, says in _SAYS.items():
        for number in range(counts[kind]):
            text, keys, asked = _filled(rng, says[number % len(says)], used)
            items.append(Item(kind, rng.randrange(last), text, keys, asked))
    early = [place for place, one in enumerate(items) if one.kind == "value" and one.turn < last // 2]
    for number, place in enumerate(early[: counts["correction"]]):
        old = items[place]
        turn = rng.randrange(old.turn + max(turns // 6, 1), turns - 1)
        code = next(key for key in old.keys if "-" in key)
        new = _fresh(rng, "number", used)
        text = _CORRECTED[number % len(_CORRECTED)].format(number=new, code=code)
        # Who misses the new value asks as for the old one.
        items.append(Item("value", turn, text, (code, new), old.asked))
        items[place] = replace(old, until=turn)
    pages = [turn for turn in range(last) if called(turn)]
    for turn in pages[: counts["tool"]]:
        row = rng.randrange(5, 20)
        found = rows_tool.serial(turn, row)
        cells = (f"{name} {value}" for name, value in rows_tool.cells(turn, row).items() if value != found)
        items.append(Item("tool", turn, found, (found,), f"serial of {', '.join(cells)}"))
    return items


def _filled(rng: random.Random, says: str, used: set[str]) -> tuple[str, tuple[str, ...], str]:
    """A sentence, what is exact in it, and the sentence without its value: the number, or the code, or the name."""
    slots = [slot for slot in ("name", "number", "code") if f"{{{slot}}}" in says]
    filling = {slot: _fresh(rng, slot, used) for slot in slots}
    value = next(slot for slot in ("number", "code", "name") if slot in slots)
    thing = rng.choice(_THINGS)
    asked = says.format(**filling | {value: ""}, thing=thing)
    return says.format(**filling, thing=thing), tuple(filling.values()), flat(asked)


def _fresh(rng: random.Random, slot: str, used: set[str]) -> str:
    while True:
        made = {
            "name": f"{rng.choice(_NAMES)} {rng.choice(_FAMILIES)}",
            "number": str(rng.randrange(1_010, 9_990)),
            "code": f"{rng.choice('ABCDEFGH')}{rng.randrange(10, 99)}-{rng.randrange(100, 999)}",
        }[slot]
        if made not in used:
            used.add(made)
            return made


def _answer(rng: random.Random, turn: int) -> str:
    """Some 250 tokens without anything planted."""
    claims = [f"As to point {number}, {rng.choice(_CLAIMS)}." for number in range(1, 17)]
    paragraphs = [" ".join(claims[place : place + 4]) for place in range(0, len(claims), 4)]
    return f"On turn {turn + 1}.\n\n" + "\n\n".join(paragraphs)
