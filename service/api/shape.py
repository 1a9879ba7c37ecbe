"""Limits on JSON that is not decoded yet, a byte of which may become hundreds as objects.

In: the bytes of a body. Out: nothing, or the problem. One pass in constant memory, which decodes
nothing.
"""

import re

from service.errors import BadRequest, TooLarge

# Texts, numbers, lists and objects of a body: 20 of each of the 10,000 messages that a path may
# have.
MOST_VALUES = 200_000
# Lists and objects within each other.
DEEPEST = 200
# A whole text is one token, so that brackets and commas in it are not taken for structure. The
# quantifiers are possessive: a text without an end is read once and not again from each place.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]|,', re.DOTALL)
_TEXT, _OPEN, _CLOSE = ord('"'), b"[{", b"]}"


def check(body: bytes | bytearray, most: int) -> None:
    """Limits the values in a JSON text and their nesting. Broken JSON may pass to the decoder.

    Raises:
        TooLarge: more than `most` values, or more than twice as many texts, which are values and
            names.
        BadRequest: more than `DEEPEST` lists and objects within each other.
    """
    # Most bodies have too few brackets and commas even if none of them stood in a text.
    brackets = body.count(b"[") + body.count(b"{")
    if brackets <= DEEPEST and brackets + body.count(b",") < most:
        return
    values, texts, depth = 1, 0, 0
    for token in _TOKEN.finditer(body):
        first = body[token.start()]
        if first == _TEXT:
            texts += 1
        elif first in _CLOSE:
            depth -= 1
        else:
            # What opens has a first value, and each comma announces one more.
            values += 1
            depth += first in _OPEN
        if values > most or texts > 2 * most:
            told = f"the body has more than {most} values; send the path in parts"
            raise TooLarge(told, limit=most)
        if depth > DEEPEST:
            raise BadRequest(
                f"the body has more than {DEEPEST} levels of lists and objects; flatten it"
            )
