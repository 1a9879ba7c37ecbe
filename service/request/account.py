"""Counts the tokens of a request. Each message is counted once.

Its count is kept under a hash of the message, so that the next request, which repeats nearly all
messages, counts only the new ones. No text is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from service.text import tokens
from service.transcript import Native, count_sent_tokens

_MOST = 100_000  # counts in each of two generations
# Some hosts send a model's thoughts again.
_THOUGHT = ("thinking", "reasoning", "reasoning_content", "reasoning_details")
_encode = msgspec.json.Encoder().encode


class Counts:
    """Counts of messages by their keys. A process has one, and it forgets the least used."""

    def __init__(self) -> None:
        self._new: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    def find(self, keys: Sequence[bytes]) -> list[int | None]:
        """The count for each key; None for a message that was not counted yet."""
        found: list[int | None] = []
        for key in keys:
            count = self._new.get(key)
            if count is None and key in self._old:
                count = self._old[key]
                self._new[key] = count
            found.append(count)
        return found

    def add(self, counts: Mapping[bytes, int]) -> None:
        """Keeps counts by key."""
        self._new.update(counts)
        if len(self._new) > _MOST:
            self._old, self._new = self._new, {}


def make_count_key(message: Native, print_: bytes) -> bytes:
    """The key of a message's count: its fingerprint, if that covers all that is sent of it."""
    content = message.get("content")
    is_plain = content is None or (isinstance(content, str) and not content.startswith("<"))
    if print_ and is_plain and message.keys().isdisjoint(_THOUGHT):
        return print_
    return blake2b(_encode(message), digest_size=16).digest()


def count_tokens(message: Native, count: Callable[[str], int] = tokens.count) -> int:
    """The tokens of a message, with its model's thoughts."""
    thoughts = [message[name] for name in _THOUGHT if message.get(name)]
    thought_tokens = sum(count(_read_thought(thought)) for thought in thoughts)
    return count_sent_tokens([message], count) + thought_tokens


def estimate_most_tokens(message: Native) -> int:
    """A high estimate, from its size, for a message that was not counted yet."""
    return count_tokens(message, tokens.estimate_most)


def count_all(packed: Sequence[bytes]) -> list[int]:
    """The tokens of each message. They come as JSON, because they may go to another process."""
    return [count_tokens(msgspec.json.decode(message)) for message in packed]


def _read_thought(thought: object) -> str:
    return thought if isinstance(thought, str) else _encode(thought).decode()
