"""The words of a text as a search compares them, in any script. Pure, linear.

A text is searched by its words in small letters, by pairs of characters where a script has no
blanks, and by identifiers, whole and in their parts: `order_id`, `INV-2031`, `src/main.py`,
`getUserName`. Endings are compared by the stemmer of a language, when a question is asked: so what
is stored of a text does not depend on how well its language was guessed.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, pairwise

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

# By ISO 639-1 code; Snowball has no others that `languages.detect` knows.
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


def words(text: str) -> list[str]:
    """The words of a text. Their order means nothing: identifiers stand behind all others."""
    plain = text if text.isascii() else _plain(text)
    tokens = _TOKEN.findall(plain.casefold())
    found = [token for token in tokens if token.isalnum()]
    identifiers = [token for token in tokens if not token.isalnum()]
    found += [part for one in identifiers for part in _WORD.findall(one)]
    whole = [one for one in identifiers if len(one) <= _LONGEST]
    return [*_spaced(found), *whole, *_ungrouped(whole), *_humps(plain)]


def _plain(text: str) -> str:
    """Spelt in one way; values are no part of the words beside them, as in `订单INV-2031已发货`."""
    one_way = characters.unify_digits(characters.normalise(text.replace("№", " ")))  # else `No2031`
    return _GLUED.sub(r" \g<0> ", one_way)


def _spaced(found: Sequence[str]) -> Iterable[str]:
    """The words; of a script without blanks, pairs of characters."""
    if "".join(found).isascii():  # quicker to see than that none is glued
        return found
    pieces = (pairwise(word) if _GLUED.match(word) and len(word) > 1 else (word,) for word in found)
    return map("".join, chain.from_iterable(pieces))


def _humps(text: str) -> Iterator[str]:
    """The parts of names such as `getUserName`."""
    if not _HUMPED.search(text):  # nearly always
        return
    for word in _WORD.findall(text):
        if _HUMPED.search(word):
            yield from (hump.casefold() for hump in _HUMP.findall(word))


def _ungrouped(found: Iterable[str]) -> Iterator[str]:
    """Numbers such as `1,200` as `1200`."""
    return (_GROUPS.sub("", one) for one in found if _GROUPED.fullmatch(one))


def stems(found: Iterable[str], language: str | None) -> dict[str, str]:
    """What each word is compared by: its stem without accents; a value is compared as it stands."""
    compared = {word: word for word in found}
    spelt = [word for word in compared if word.isalpha()]
    name = _STEMMERS.get(language or "")
    stemmed = _stemming(name).stemWords(spelt) if name else spelt
    compared.update(zip(spelt, map(_bare, stemmed), strict=True))
    return compared


def asked(word: str, language: str | None) -> set[str]:
    """What the word of a question is compared by: somebody may have left out its accents."""
    return {*stems([word], language).values(), *stems([_bare(word)], language).values()}


@cache
def _stemming(name: str) -> Stemmer:
    return Stemmer(name)


def _bare(word: str) -> str:
    """A word of the Latin script without accents. In others a mark makes another letter."""
    if word.isascii() or word[0] > "\u024f":
        return word
    apart = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in apart if not unicodedata.combining(letter))
