"""Finds the terms of a text, by which texts of any script are compared. Pure.

A term is a word in small letters, a pair of characters where a script has no blanks, or an exact
value.
"""

import re
from itertools import pairwise

from service.text import characters

_WORD = re.compile(r"[^\W_]+(?:[.,:/@_'’-][^\W_]+)*")
# Scripts without blanks between words: kana, Han, Thai, Lao, Khmer, Burmese.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2,}")
_INSIDE = "@/_.:"
_STEM = 7  # characters of a word, not of a value, that are compared: endings say little


def find_terms(text: str) -> frozenset[str]:
    """Finds the terms of a text."""
    folded = characters.normalise(text).casefold()
    words: set[str] = set()
    for word in _WORD.findall(folded):
        spaced = word
        if not word.isascii():
            for run in _UNSPACED.findall(word):
                words.update(map("".join, pairwise(run)))
            spaced = _UNSPACED.sub("", word)
        if len(spaced) > 1:
            words.add(spaced if is_exact(spaced) else spaced[:_STEM])
    return frozenset(words)


def has_digit(word: str) -> bool:
    """Whether a term has a number in it."""
    return not word.isalpha() and any(map(str.isdigit, word))


def is_exact(term: str) -> bool:
    """Whether a term is a value: it has a digit, or a sign inside as addresses and paths have."""
    return has_digit(term) or any(sign in term for sign in _INSIDE)
