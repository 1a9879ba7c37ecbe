"""Timing on a noisy machine: variants take turns in random order over many short rounds; each round gives a median.

In: functions to call. Out: the median of each round in microseconds, by variant. Neighbours on the machine only ever
make a round slower, so `best`, the fastest round's median, is what the code itself takes.
"""

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

Call = Callable[[], Awaitable[object]]
Medians = dict[str, list[float]]


async def interleaved(variants: Mapping[str, Call], *, rounds: int, calls: int, seed: int = 1) -> Medians:
    """Calls every variant `calls` times a round, one variant after the other; the first round only warms up.

    Few calls and many rounds: on a busy machine only a short round goes undisturbed.
    """
    order, rng = list(variants), random.Random(seed)
    medians: Medians = {name: [] for name in variants}
    with _cores_awake():
        for number in range(rounds + 1):
            rng.shuffle(order)
            for name in order:
                took = await _median(variants[name], calls)
                if number:
                    medians[name].append(took)
    return medians


@contextmanager
def _cores_awake() -> Iterator[None]:
    """Keeps every core from halting, by work that gives way to any other (Linux' SCHED_IDLE).

    Waking a halted virtual core takes longer than a read. A round trip over three processes halts cores more often than
    one over two, so that it, and not the code, decided the ratio: 2.4 on an idle machine, 1.6 on a busy one.
    """
    if not hasattr(os, "SCHED_IDLE"):
        yield
        return
    spin = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile os.getppid() > 1: pass"
    spinning = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


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
