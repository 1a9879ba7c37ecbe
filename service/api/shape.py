"""Bounds on JSON that is not decoded yet: a few bytes of it can become hundreds of them as objects.

In: the bytes of a body. Out: nothing, or the problem. One pass in constant memory, which decodes
nothing.
"""

import re

from service.errors import BadRequest, TooLarge

DEEPEST = 200  # lists and objects within each other
# A text as a whole, so that what stands in it is not taken for structure.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]|,', re.DOTALL)
_TEXT, _OPEN, _CLOSE = ord('"'), b"[{", b"]}"


def check(body: bytes | bytearray, most: int) -> None:
    """Bounds the values in a JSON text and their nesting. What is no JSON may pass: the decoder refuses it.

    Raises:
        TooLarge: more than `most` values, or more than twice as many texts, which are values and
            names.
        BadRequest: more than `DEEPEST` lists and objects within each other.
    """
    opened = body.count(b"[") + body.count(b"{")
    if opened <= DEEPEST and opened + body.count(b",") < most:
        return  # too few, even if none of them stood in a text
    values, texts, depth = 1, 0, 0
    for token in _TOKEN.finditer(body):
        first = body[token.start()]
        if first == _TEXT:
            texts += 1
        elif first in _CLOSE:
            depth -= 1
        else:  # what opens has a first value, and each comma one more
            values += 1
            depth += first in _OPEN
        if values > most or texts > 2 * most:
            raise TooLarge(
                f"the body has more than {most} values; PRECIS_MAX_ITEMS sets the limit", limit=most
            )
        if depth > DEEPEST:
            raise BadRequest(f"the body has more than {DEEPEST} levels of lists and objects")
