"""Splits a text into the words that a search compares, in any script. Pure, linear.

A text is searched by its words in small letters, by pairs of characters where a script has no
blanks, and by identifiers, whole and in their parts: `order_id`, `INV-2031`, `src/main.py`,
`getUserName`. A language's stemmer compares endings only when a question is asked, so the stored
words of a text do not depend on how well its language was guessed.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

from Stemmer import Stemmer

from service.text import characters

_WORD = re.compile(r"[^\W_]++")
# A word, or an identifier of several.
_TOKEN = re.compile(r"[^\W_]++(?:[_.,:/\\@'’-][^\W_]++)*+")
_HUMPED = re.compile(r"[a-z][A-Z]|\d[A-Z]+[a-z]")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]++")
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’]\d{3})+")  # thousands
_GROUPS = re.compile(r"[.,'’]")
_GLUED = re.compile(rf"[{characters.UNSPACED}\uac00-\ud7af]+")
_LONGEST = 80  # characters of an identifier that is compared whole

# Stemmers by ISO 639-1 code; Snowball has no others that `languages.detect` knows.
_STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}


def split_words(text: str) -> list[str]:
    """The words of a text. Their order means nothing: identifiers stand behind all others."""
    plain = text if text.isascii() else _spell_plainly(text)
    tokens = _TOKEN.findall(plain.casefold())
    words = [token for token in tokens if token.isalnum()]
    identifiers = [token for token in tokens if not token.isalnum()]
    for identifier in identifiers:
        words.extend(_WORD.findall(identifier))
    whole = [identifier for identifier in identifiers if len(identifier) <= _LONGEST]
    return [*_split_unspaced(words), *whole, *_join_thousands(whole), *_split_humps(plain)]


def _spell_plainly(text: str) -> str:
    """One spelling for each character, and blanks around text of a script without blanks.

    So a value is no part of the words beside it, as in `订单INV-2031已发货`.
    """
    without_sign = text.replace("№", " ")  # which would become `No2031`
    one_spelling = characters.unify_digits(characters.normalise(without_sign))
    return _GLUED.sub(r" \g<0> ", one_spelling)


def _split_unspaced(words: Sequence[str]) -> Iterable[str]:
    """The words; for a script without blanks, pairs of characters."""
    # This test is quicker than looking at each word.
    if "".join(words).isascii():
        return words
    split: list[str] = []
    for word in words:
        if _GLUED.match(word) and len(word) > 1:
            split.extend(map("".join, pairwise(word)))
        else:
            split.append(word)
    return split


def _split_humps(text: str) -> Iterator[str]:
    """Yields the parts of names such as `getUserName`."""
    # Nearly all texts have none.
    if not _HUMPED.search(text):
        return
    for word in _WORD.findall(text):
        if _HUMPED.search(word):
            for hump in _HUMP.findall(word):
                yield hump.casefold()


def _join_thousands(words: Iterable[str]) -> Iterator[str]:
    """Yields numbers such as `1,200` as `1200`."""
    for word in words:
        if _GROUPED.fullmatch(word):
            yield _GROUPS.sub("", word)


def find_stems(words: Iterable[str], language: str | None) -> dict[str, str]:
    """The stem without accents by which each word is compared. A value is its own stem."""
    stem_of = {word: word for word in words}
    alphabetic = [word for word in stem_of if word.isalpha()]
    name = _STEMMERS.get(language or "")
    stems = _load_stemmer(name).stemWords(alphabetic) if name else alphabetic
    stem_of.update(zip(alphabetic, map(_strip_accents, stems), strict=True))
    return stem_of


def find_variants(word: str, language: str | None) -> set[str]:
    """The stems of a question's word, with and without the accents that somebody may leave out."""
    as_written = find_stems([word], language)
    without_accents = find_stems([_strip_accents(word)], language)
    return {*as_written.values(), *without_accents.values()}


@cache
def _load_stemmer(name: str) -> Stemmer:
    return Stemmer(name)


def _strip_accents(word: str) -> str:
    """A word of the Latin script without accents. In others a mark makes another letter."""
    if word.isascii() or word[0] > "\u024f":
        return word
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
