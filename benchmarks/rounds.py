"""Timing on a noisy machine: variants take turns in random order over many short rounds; each round gives a median.

In: functions to call. Out: the median of each round in microseconds, by variant. Neighbours on the machine only ever
make a round slower, so `best`, the fastest round's median, is what the code itself takes.
"""

import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

Call = Callable[[], Awaitable[object]]
Medians = dict[str, list[float]]


async def interleaved(variants: Mapping[str, Call], *, rounds: int, calls: int, seed: int = 1) -> Medians:
    """Calls every variant `calls` times a round, one variant after the other; the first round only warms up.

    Few calls and many rounds: on a busy machine only a short round goes undisturbed.
    """
    order, rng = list(variants), random.Random(seed)
    medians: Medians = {name: [] for name in variants}
    for number in range(rounds + 1):
        rng.shuffle(order)
        for name in order:
            took = await _median(variants[name], calls)
            if number:
                medians[name].append(took)
    return medians


def best(medians: Medians, name: str) -> float:
    """The median of the variant's fastest round, in microseconds."""
    return min(medians[name])


async def _median(call: Call, calls: int) -> float:
    took = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        await call()
        took.append(time.perf_counter_ns() - start)
    return statistics.median(took) / 1000
