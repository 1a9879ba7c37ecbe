"""Which language a text is in, by py3langid (no download, no clock). Pure, but for loading its model once.

In: text. Out: ISO 639-1 codes.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_CODES: Final = """
ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv ms nl no pl pt ro ru sk sl sr sv sw ta te th tr
uk ur vi zh
"""
_LEAST: Final = 40  # letters; below that a guess says nothing
_ENOUGH: Final = 4000  # characters; more makes no better guess
_CERTAIN: Final = (
    20.0  # log-likelihood between two languages, over which a text is not in the second one
)
_NOT_PROSE: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|<[^<>\n]*>|(?<![\w./-])[\w./-]*[\d_/]\S*",
    re.DOTALL,
)
_WITHOUT_BLANKS: Final = re.compile(r"[぀-ヿ一-鿿가-힯]{8}")


def detect(text: str) -> str | None:
    """The language of a text's prose; None when there is too little of it."""
    ranked = _ranked(text)
    return ranked[0][0] if ranked else None


def differs(text: str, language: str) -> bool:
    """Whether a text is for certain not in `language`."""
    ranked = _ranked(text)
    scores = dict(ranked)
    return (
        bool(ranked)
        and ranked[0][0] != language
        and ranked[0][1] - scores.get(language, 0.0) > _CERTAIN
    )


def _ranked(text: str) -> list[tuple[str, float]]:
    prose = " ".join(_NOT_PROSE.sub(" ", text[: _ENOUGH * 4]).split())[:_ENOUGH]
    if sum(character.isalpha() for character in prose) < _LEAST and not _WITHOUT_BLANKS.search(
        prose
    ):
        return []
    ranked: list[tuple[str, float]] = _identifier().rank(prose)
    return ranked


@cache
def _identifier() -> "LanguageIdentifier":
    # Here, because it brings NumPy: a process that compresses nothing need not start with it.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(_CODES.split())
    return identifier
