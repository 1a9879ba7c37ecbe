"""Whether a checkpoint covers a request's path."""

from dataclasses import replace

from service import serving
from service.planning import Checkpoint
from service.serving import Asked


def checkpoint(messages: int, covered: int, cost: int = 100, identity: int = 1) -> Checkpoint:
    return Checkpoint(identity, f"m{messages}", f"d{messages}", messages, covered, cost)


def asked(depth: int, shown: int | None = None) -> Asked:
    pairs = [(f"m{place}", f"d{place}") for place in range(depth, 0, -1)]
    return Asked(depth, pairs[:shown])


MIDDLE = checkpoint(4, 600, identity=2)


def test_another_digest_or_another_message_at_the_boundary_contradicts() -> None:
    assert serving.matches(asked(8), MIDDLE)
    assert not serving.matches(asked(8), replace(MIDDLE, digest="other"))
    assert not serving.matches(asked(8), replace(MIDDLE, until="other"))
    assert not serving.matches(asked(8), replace(MIDDLE, messages=5))
    assert not serving.matches(asked(3), MIDDLE)


def test_above_the_pairs_that_were_sent_storage_has_compared() -> None:
    assert serving.matches(asked(80, shown=64), MIDDLE)
    assert serving.matches(asked(8, shown=5), MIDDLE)
    assert serving.matches(asked(8, shown=4), replace(MIDDLE, digest="other"))
    assert not serving.matches(asked(8, shown=5), replace(MIDDLE, digest="other"))
