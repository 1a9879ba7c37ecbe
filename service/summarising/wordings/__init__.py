"""What a summariser is told, and the words that its answer is known by: a language a file. Data.

Heads and the words of lines stay English in every prompt, because code looks for them. Models
translate them all the same, so each file says how.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from service.summarising.memory import Kind, Section

ENGLISH: Final = "en"
LANGUAGES: Final = (ENGLISH, "de", "fr", "es", "it", "pt", "ru", "zh", "ja")
"""Those that have a file; the others get the English one, and are asked for by their code."""

_SECTIONS: Final = {
    "goal": Section.GOAL,
    "constraints": Section.CONSTRAINTS,
    "decisions": Section.DECISIONS,
    "facts": Section.FACTS,
    "files": Section.FILES,
    "questions": Section.QUESTIONS,
    "state": Section.STATE,
}


@dataclass(frozen=True, slots=True)
class Wording:
    """What is said in one language.

    Attributes:
        prompt: the parts of the two messages by name, with places that `prompt` fills in.
        heads: how a head may be called, in small letters.
        kinds: how a kind may be called.
        lines: what a line of the answer may begin with, by `keep`, `replaced` and `drop`; and
            `nothing`, which stands for an empty list.
    """

    prompt: Mapping[str, str]
    heads: Mapping[str, Section]
    kinds: Mapping[str, Kind]
    lines: Mapping[str, tuple[str, ...]]


def _wording(language: str) -> Wording:
    path = resources.files(__package__).joinpath(f"{language}.toml")
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    heads = read["heads"].items()
    kinds = read["kinds"].items()
    return Wording(
        prompt=read["prompt"],
        heads={name: _SECTIONS[section] for section, names in heads for name in names},
        kinds={name: Kind(kind) for kind, names in kinds for name in names},
        lines={line: tuple(names) for line, names in read["lines"].items()},
    )


WORDINGS: Final[Mapping[str, Wording]] = {language: _wording(language) for language in LANGUAGES}
