"""Characters with several spellings, and scripts without blanks. Pure, linear."""

import re
import unicodedata
from functools import lru_cache

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff"
    "\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
)
"""For a class of characters: Thai, Lao, Burmese, Khmer, kana, Han, which have no blanks."""

_GLUED = re.compile(f"[{UNSPACED}\uac00-\ud7af\u1100-\u11ff]")
_PIECE = 500  # characters: NFKC sorts a run of combining marks in quadratic time
_FULL_WIDTH = 0xFEE0  # from `!` to its full-width form
_FULL_COMMA = 0xFF0C  # kept: it separates clauses far more often than thousands
_PLAIN = {
    **{code + _FULL_WIDTH: code for code in range(ord("!"), ord("~") + 1)},
    0x066A: ord("%"),  # the Arabic signs for percent, decimals and thousands
    0x066B: ord("."),
    0x066C: ord(","),
    0x3000: ord(" "),
    0xFFE5: ord("¥"),
}
del _PLAIN[_FULL_COMMA]
_THOUSANDS = re.compile("(?<=[０-９])，(?=[０-９]{3}(?![０-９]))")
_OTHER = re.compile(r"[^\x00-\x7f]")
_OTHER_DIGIT = re.compile(r"[^\D0-9]")


# Line ends stay, and joiners, without which Persian and emoji are not what they are.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def escape_hidden(text: str) -> str:
    r"""Writes out characters that act or hide, as `\x1b`; tabs and line ends stay.

    A terminal obeys some of them, some turn the direction of text, and some are never seen.
    """
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def normalise(text: str) -> str:
    """Converts a text to NFKC: one spelling for characters that have several."""
    if text.isascii():
        return text
    pieces = (text[place : place + _PIECE] for place in range(0, len(text), _PIECE))
    return "".join(unicodedata.normalize("NFKC", piece) for piece in pieces)


def narrow(text: str) -> str:
    """Converts each character to its plainest form, such as `＜｜` to `<|`; the length stays."""
    if text.isascii():
        return text
    return _OTHER.sub(lambda match: _simplify(match[0]), text)


@lru_cache(maxsize=4096)
def _simplify(character: str) -> str:
    plain = unicodedata.normalize("NFKC", character)
    # `½` becomes three characters: then places in the two texts would no longer agree.
    return plain if len(plain) == 1 else character


def fold(text: str) -> str:
    """Folds a text for comparison: NFKC, digits of all scripts as `0` to `9`, small letters."""
    if text.isascii():
        return text.lower()
    return normalise(convert_digits(text)).casefold()


def convert_digits(text: str) -> str:
    """Converts digits of all scripts and full-width forms to ASCII; the length stays."""
    if text.isascii():
        return text
    return unify_digits(_THOUSANDS.sub(",", text).translate(_PLAIN))


def unify_digits(text: str) -> str:
    """Converts digits of all scripts to `0` to `9`; the length stays."""
    return _OTHER_DIGIT.sub(lambda match: str(unicodedata.digit(match[0])), text)


def joins(before: str, after: str) -> bool:
    """Whether two characters side by side may belong to one word.

    Han and kana stand side by side without being one, and Korean has its particles glued on.
    """
    if not (before.isalnum() and after.isalnum()):
        return False
    return not (_GLUED.match(before) or _GLUED.match(after))
