"""The words of prompts, and the words that an answer is recognised by: a file a language. Data.

The words of lines stay English in every prompt, because code looks for them. Models translate them
all the same, so each file says how.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from service.text.characters import joins

ENGLISH: Final = "en"
LANGUAGES: Final = (ENGLISH, "de", "fr", "es", "it", "pt", "ru", "zh", "ja")
"""Those that have a file; the others get the English one, and are asked for by their code."""


@dataclass(frozen=True, slots=True)
class Wording:
    """The wording in one language.

    Attributes:
        prompt: the parts of the two messages by name, with places that `prompt` fills in.
        verbs: what a line of choices may begin with, in small letters, by `rules`, `quotations`
            and `replaced`; and by `nothing` what such a line says that chooses nothing.
        heads: what the heads of a record would be; a state that has one of them forges it.
        obliging: beginnings of words by which somebody lays something down. They make a sentence
            weigh more where code alone chooses, and decide nothing else.
    """

    prompt: Mapping[str, str]
    verbs: Mapping[str, tuple[str, ...]]
    heads: tuple[str, ...]
    obliging: tuple[str, ...]


def _wording(language: str) -> Wording:
    path = resources.files(__package__).joinpath(f"{language}.toml")
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    verbs = {verb: tuple(names) for verb, names in read["verbs"].items()}
    heads, obliging = tuple(read["record"]["heads"]), tuple(read["obliging"]["words"])
    return Wording(read["prompt"], verbs, heads, obliging)


WORDINGS: Final[Mapping[str, Wording]] = {language: _wording(language) for language in LANGUAGES}


_OBLIGING = sorted({re.escape(word) for one in WORDINGS.values() for word in one.obliging})
_SPACED = "|".join(word for word in _OBLIGING if joins("a", word[0]))
_UNSPACED = "|".join(word for word in _OBLIGING if not joins("a", word[0]))
# Chinese and Japanese have no blanks before a word. One look at the boundary is for all others.
OBLIGING: Final = re.compile(rf"\b(?:{_SPACED})|{_UNSPACED}", re.IGNORECASE)
"""A word, of any language, by which somebody lays something down."""
