"""The phrasings of one domain, read from phrases/*.yaml."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent / "phrases"
DOMAINS = ("data", "software", "trip", "contract", "office", "shop", "event", "repair")
PHRASED = (
    "rule",
    "constraint",
    "decision",
    "fact",
    "preference",
    "request",
    "goal",
    "value",
    "id",
    "replaced",
)
TYPES = (*PHRASED, "answer", "list", "used", "tool")
"""`answer`: a short one, with its question. `list`: an entry, with the head of its list.
`used`: a tool's value that was taken up later. `tool`: one that was not.
"""


@dataclass(frozen=True, slots=True)
class Phrasing:
    """A way to say something.

    Attributes:
        say: the user's sentence, with {slots}.
        gist: how somebody else would note it.
        keys: what must be found again on one line; `a|b` is either.
        then: the sentence that replaces it later, of type `replaced`.
        kind: of the value that is replaced.
    """

    say: str
    gist: str
    keys: tuple[str, ...]
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
    raw: dict[str, Any] = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    phrasings = {type_: [_phrasing(one) for one in raw.pop(type_)] for type_ in PHRASED}
    return Domain(name=name, phrasings=phrasings, **raw)


def _phrasing(raw: dict[str, str]) -> Phrasing:
    keys = (key.replace("_", " ") if "{" not in key else _blank(key) for key in raw["keys"].split())
    return Phrasing(raw["say"], raw["gist"], tuple(keys), raw.get("then", ""), raw.get("kind", ""))


def _blank(key: str) -> str:
    """`{n}_hours` to `{n} hours`; what a slot is filled with may have an underscore of its own."""
    return key.replace("}_", "} ").replace("_{", " {")
