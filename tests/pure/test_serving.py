"""Whether a checkpoint covers a request's path."""

from dataclasses import replace

from service.planning.plan import Checkpoint
from service.storage.contexts import Lookup
from service.storage.sealing import Seal
from service.usecases import context

SEAL = Seal(1, {}, None, b"", bytes(33))


def fits(request: Lookup, checkpoint: Checkpoint) -> bool:
    return context.fits(request, checkpoint, SEAL)


def asked(depth: int, shown: int | None = None) -> Lookup:
    pairs = [(f"m{place}", f"d{place}") for place in range(depth, 0, -1)]
    return Lookup(1, "chat-1", depth, pairs[:shown], [0] * len(pairs[:shown]))


MIDDLE = Checkpoint(2, "m4", SEAL.keyed("d4"), 4, 600, 100)


def test_another_digest_or_another_message_at_the_boundary_contradicts() -> None:
    assert fits(asked(8), MIDDLE)
    assert not fits(asked(8), replace(MIDDLE, digest="other"))
    assert not fits(asked(8), replace(MIDDLE, until="other"))
    assert not fits(asked(8), replace(MIDDLE, messages=5))
    assert not fits(asked(3), MIDDLE)


def test_above_the_pairs_that_were_sent_storage_has_compared() -> None:
    assert fits(asked(80, shown=64), MIDDLE)
    assert fits(asked(8, shown=5), MIDDLE)
    assert fits(asked(8, shown=4), replace(MIDDLE, digest="other"))
    assert not fits(asked(8, shown=5), replace(MIDDLE, digest="other"))
