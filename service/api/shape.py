"""Limits on JSON, a byte of which may become hundreds as objects.

In: the bytes of a body, and later what was decoded of it. Out: nothing, or the problem.
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
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,]', re.DOTALL)
_TEXT = ord('"')


def check_values(body: bytes | bytearray, most: int) -> None:
    """Limits the values in a JSON text. Broken JSON may pass to the decoder.

    It is one pass in constant memory.

    Raises:
        TooLarge: more than `most` values, or more than twice as many texts, which are values and
            names.
    """
    # Most bodies have too few brackets and commas even if none of them stood in a text.
    if body.count(b"[") + body.count(b"{") + body.count(b",") < most:
        return
    values, texts = 1, 0
    for token in _TOKEN.finditer(body):
        if body[token.start()] == _TEXT:
            texts += 1
        else:
            # What opens has a first value, and each comma announces one more.
            values += 1
        if values > most or texts > 2 * most:
            told = f"the body has more than {most} values; begin a new chat, or send less"
            raise TooLarge(told, limit=most)


def check_depth(body: dict[str, object]) -> None:
    """Limits the lists and objects within each other, level by level.

    Raises:
        BadRequest: more than `DEEPEST` of them.
    """
    containers: list[dict[str, object] | list[object]] = [body]
    for _ in range(DEEPEST):
        inner = []
        for container in containers:
            parts = container.values() if isinstance(container, dict) else container
            inner += [part for part in parts if isinstance(part, (dict, list))]
        containers = inner
        if not containers:
            return
    raise refuse_depth()


def refuse_depth() -> BadRequest:
    """The problem of a body that is nested too deep."""
    return BadRequest(f"the body has more than {DEEPEST} levels of lists and objects; flatten it")
