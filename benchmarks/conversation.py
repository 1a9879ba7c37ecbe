"""Chats to measure with: text of the bundled conversation, and messages with the nodes that the service makes of them.

In: a seeded random generator, sizes in tokens. Out: text, `Message`s root to leaf.
"""

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from service.demo.play import load_recording
from service.request import native
from service.request.native import ROOT
from service.text import tokens
from service.transcript import Native, Stored, parse
from service.transcript.items import Text


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a path. `id` is its host's; `node` is the hash of all words down to it."""

    id: str
    role: str
    text: str
    node: str

    @property
    def stored(self) -> Stored:
        """As Open WebUI stores it."""
        return {"id": self.id, "role": self.role, "content": self.text, "timestamp": 1_790_000_000}

    @property
    def native(self) -> Native:
        """As a model is sent it."""
        return {"role": self.role, "content": self.text}


def prose(rng: random.Random, size: int) -> str:
    """A passage of at most `size` tokens, and of so many when cut at a clean place: different at each call."""
    source = _source()
    start = rng.randrange(len(source))
    passage = source[start:] + source * (1 + size * 8 // len(source))
    return tokens.cut(f"{rng.randrange(10**6)}. {passage[: size * 8]}", size)


def grown(rng: random.Random, above: str = ROOT, *, sizes: Iterator[tuple[str, int]]) -> Iterator[Message]:
    """A path below the node `above`: one message for each (role, tokens)."""
    for role, size in sizes:
        identity, text = str(uuid.UUID(int=rng.getrandbits(128), version=4)), prose(rng, size)
        said = {"role": role, "content": text}
        prints = [native.hash_message(said)]
        (node,) = native.cut_path([said], prints, 0, 1, above)
        above = node.id
        yield Message(identity, role, text, above)


def turns(count: int, question: int, answer: int) -> Iterator[tuple[str, int]]:
    """Roles and sizes of so many turns."""
    for _ in range(count):
        yield from (("user", question), ("assistant", answer))


@cache
def _source() -> str:
    items = (item for row in load_recording().rows.values() for item in parse(row).items)
    return "\n".join(item.text for item in items if isinstance(item, Text))
