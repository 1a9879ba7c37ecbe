"""Counts what a request costs: each message has one count, found by what it says.

A message is counted once. Its count is kept under a hash of it, so that the next request, which
repeats nearly all of its messages, counts only what is new. No text is kept.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from service.text import tokens
from service.transcript import Native, sent_tokens

_MOST = 100_000  # counts in each of two generations
# Some hosts send again what a model thought.
_THOUGHT = ("thinking", "reasoning", "reasoning_content", "reasoning_details")
_encode = msgspec.json.Encoder().encode


class Counts:
    """Counts of messages by their keys; the least used are forgotten. One for each process."""

    def __init__(self) -> None:
        self._new: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    def known(self, keys: Sequence[bytes]) -> list[int | None]:
        """The count for each key; None for one that was not counted yet."""
        found: list[int | None] = []
        for key in keys:
            count = self._new.get(key)
            if count is None and key in self._old:
                count = self._old[key]
                self._new[key] = count
            found.append(count)
        return found

    def learn(self, counts: Mapping[bytes, int]) -> None:
        """Keeps some counts."""
        self._new.update(counts)
        if len(self._new) > _MOST:
            self._old, self._new = self._new, {}


def key_of(message: Native, print_: bytes) -> bytes:
    """The key of a message's count: its fingerprint, where that has all that is sent of it."""
    content = message.get("content")
    is_plain = content is None or (isinstance(content, str) and not content.startswith("<"))
    if print_ and is_plain and message.keys().isdisjoint(_THOUGHT):
        return print_
    return blake2b(_encode(message), digest_size=16).digest()


def tokens_of(message: Native) -> int:
    """The tokens of a message, with what its model thought."""
    thoughts = [message[name] for name in _THOUGHT if message.get(name)]
    thought = sum(tokens.count(_text_of(one)) for one in thoughts)
    return sent_tokens([message]) + thought


def most_tokens_of(message: Native) -> int:
    """A high estimate for a message that nobody has counted yet, from its size."""
    return sent_tokens([message], tokens.overcount) + len(_encode(message.get("reasoning"))) // 2


def count_all(packed: Sequence[bytes]) -> list[int]:
    """The tokens of each of some messages, which come as JSON: they may go to another process."""
    return [tokens_of(msgspec.json.decode(message)) for message in packed]


def _text_of(thought: object) -> str:
    return thought if isinstance(thought, str) else _encode(thought).decode()
