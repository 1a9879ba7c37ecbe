"""Which of the sizes that are told of a model's window is believed. Pure."""

from collections.abc import Sequence

LEAST, MOST = 2048, 100_000_000


def believed(told: Sequence[int]) -> int | None:
    """The first size that a window can have; None when there is none.

    The filter tells them in the order of trust: what the request itself sets, what the model's settings and its
    provider say, and last its own valves. A size of nothing, or of a few hundred tokens, is a setting that nobody made.
    """
    return next((size for size in told if LEAST <= size <= MOST), None)
