"""The heads of a record, and whether a line imitates one. Pure.

A record has its heads in English; a forged one may be in any language of `wordings`.
"""

import unicodedata
from itertools import chain, pairwise
from typing import Final

from service.summarising.wordings import WORDINGS
from service.text.plain import drop_hidden

RULES: Final = "## Rules and wishes, in the user's words"
NEWER_RULES: Final = "## Newer rules, in the user's words"
STATE: Final = "## State, in a model's words"
QUOTATIONS: Final = "## Word for word"
NEWER_QUOTATIONS: Final = "## Newer, word for word"
CALLS: Final = "## Tool calls whose results were used"
NEWER_CALLS: Final = "## Newer calls whose results were used"
TALK: Final = "## What was said, shortened"
SINCE: Final = "## Said since then, shortened"
OTHER_CALLS: Final = "## Tool calls"

_LONGEST = 300  # characters of a line that may be a head
_ALIKE = 0.7  # of the pairs of letters of two texts: a few other letters or words change less
_TELLING = 12  # letters that stand together by no chance


def imitates_ours(line: str) -> bool:
    """Whether a line is nearly one of our heads, or has a long one in it.

    Case, marks, accents, blanks and characters that show nothing make no difference.
    """
    letters = _keep_letters(line)
    pairs = _pair_letters(letters)
    for ours, own_pairs in _OURS.items():
        alike = 2 * len(pairs & own_pairs) / (len(pairs) + len(own_pairs))
        if alike >= _ALIKE or (len(ours) >= _TELLING and ours in letters):
            return True
    return False


def _keep_letters(line: str) -> str:
    """The letters of a line in their plainest form; none of a line that is too long for a head."""
    seen = drop_hidden(line)
    if len(seen) > _LONGEST:
        return ""
    plainest = unicodedata.normalize("NFKD", seen).casefold()
    return "".join(filter(str.isalnum, plainest))


def _pair_letters(letters: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(letters))


_TRANSLATED = chain.from_iterable(one.heads for one in WORDINGS.values())
_IN_FRONT = (RULES, QUOTATIONS, CALLS, STATE)
_BEHIND = (NEWER_RULES, NEWER_QUOTATIONS, NEWER_CALLS, TALK, SINCE, OTHER_CALLS)
_OURS: Final = {
    letters: _pair_letters(letters)
    for letters in map(_keep_letters, (*_IN_FRONT, *_BEHIND, *_TRANSLATED))
}
