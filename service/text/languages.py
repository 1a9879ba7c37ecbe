"""Detects the language of a text by py3langid, without downloads.

Languages are ISO 639-1 codes. Pure, except that the model is loaded once.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_CODES: Final = """
ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv ms nl no pl pt ro ru sk sl
sr sv sw ta te th tr uk ur vi zh
"""
_LEAST: Final = 40  # letters; below that a guess says nothing
_ENOUGH: Final = 4000  # characters; more makes no better guess
# Difference of log-likelihoods above which a text is certainly not in the less likely language.
_CERTAIN: Final = 20.0
_NOT_PROSE: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|<[^<>\n]*>|(?<![\w./-])[\w./-]*[\d_/]\S*",
    re.DOTALL,
)
_WITHOUT_BLANKS: Final = re.compile(r"[぀-ヿ一-鿿가-힯]{8}")


def detect(text: str) -> str | None:
    """Detects the language of a text's prose; None when there is too little of it."""
    ranked = _rank_languages(text)
    return ranked[0][0] if ranked else None


def differs(text: str, language: str) -> bool:
    """Whether a text is certainly not in `language`."""
    ranked = _rank_languages(text)
    if not ranked:
        return False
    likeliest, best = ranked[0]
    score = dict(ranked).get(language, 0.0)
    return likeliest != language and best - score > _CERTAIN


def _rank_languages(text: str) -> list[tuple[str, float]]:
    """Ranks languages by log-likelihood, the likeliest first; empty for too little prose."""
    # Four times as much is read, because code and links are taken out of it.
    prose = " ".join(_NOT_PROSE.sub(" ", text[: _ENOUGH * 4]).split())[:_ENOUGH]
    letters = sum(character.isalpha() for character in prose)
    if letters < _LEAST and not _WITHOUT_BLANKS.search(prose):
        return []
    ranked: list[tuple[str, float]] = _load_identifier().rank(prose)
    return ranked


@cache
def _load_identifier() -> "LanguageIdentifier":
    # Here, because it brings NumPy: a process that compresses nothing need not start with it.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(_CODES.split())
    return identifier
