"""Serving stored checkpoints: verify that one covers a request's path. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from service.planning import Checkpoint


class Asked(NamedTuple):
    """What a request's path says: its length, and (id, digest) of its newest messages, leaf first."""

    depth: int
    pairs: Sequence[tuple[str, str]]


def matches(asked: Asked, candidate: Checkpoint) -> bool:
    """False when the path shows another message, or another digest, where the candidate's coverage ends.

    Above the pairs that were sent, storage has already compared: the digest of the newest known message speaks for
    everything above it.
    """
    place = asked.depth - candidate.messages
    if place < 0:
        return False
    return place >= len(asked.pairs) or tuple(asked.pairs[place]) == (candidate.until, candidate.digest)
