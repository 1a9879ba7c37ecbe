"""The phrasings of one domain, read from phrases/*.yaml.

A third of the phrasings of each type is held out: chats of seeds from 100 on, on which rules may be tried while they
are written, do not have them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent / "phrases"
DOMAINS = ("data", "software", "trip", "contract", "office")
TYPES = ("rule", "constraint", "decision", "fact", "preference", "goal", "value", "id", "replaced")


@dataclass(frozen=True, slots=True)
class Phrasing:
    """A way to say something.

    Attributes:
        say: the user's sentence, with {slots}.
        gist: how somebody else would note it.
        keys: what must be found again on one line; `a|b` is either.
        held_out: kept from the chats that rules are tried on.
        then: the sentence that replaces it later, of type `replaced`.
        kind: of the value that is replaced.
    """

    say: str
    gist: str
    keys: tuple[str, ...]
    held_out: bool
    then: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Domain:
    """Everything that is said in chats of one domain."""

    name: str
    language: str
    phrasings: Mapping[str, Sequence[Phrasing]]
    chatter: Sequence[str]
    requests: Sequence[str]
    things: Sequence[str]
    findings: Sequence[str]
    steps: Sequence[str]
    tables: Mapping[str, dict[str, str]]
    paste: str


@cache
def domain(name: str) -> Domain:
    """One domain by its name."""
    raw: dict[str, Any] = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())
    phrasings = {type_: _phrasings(raw.pop(type_), DOMAINS.index(name)) for type_ in TYPES}
    return Domain(name=name, phrasings=phrasings, **raw)


def _phrasings(raw: list[dict[str, str]], place: int) -> list[Phrasing]:
    before = place * 4  # every third over all domains, and so another one in each
    return [
        Phrasing(
            one["say"],
            one["gist"],
            tuple(key.replace("_", " ") if "{" not in key else _blank(key) for key in one["keys"].split()),
            (before + number) % 3 == 2,
            one.get("then", ""),
            one.get("kind", ""),
        )
        for number, one in enumerate(raw)
    ]


def _blank(key: str) -> str:
    """`{n}_hours` to `{n} hours`; what a slot is filled with may have an underscore of its own."""
    return key.replace("}_", "} ").replace("_{", " {")
