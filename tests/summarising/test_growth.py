"""What a text costs grows with the text and no faster, whoever wrote it and to what end.

A regular expression with an open end reads a text once for each place where it may begin, and holds the interpreter
while it does: one message can stop a service. So every pattern of the core is driven with texts that
repeat a beginning and never end it. Twice the text may take less than three times the time of the
processor.
"""

import dataclasses
import gc
import importlib
import pkgutil
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from service.summarising import gate
from tests.summarising.hostile import PROSE, RUNS, STARTS, UNITS, filled

PACKAGES = ("summarising", "text", "transcript")
MODULES = ("planning",)
SIZE = 8_000  # characters that a pattern reads
FLOOR = 0.02  # seconds of the processor; what reads `SIZE` in less is not quadratic
DEAR = 6  # times as much as the same pattern takes for prose is worth a second look
MOST = 10.0  # seconds; then it is stopped
GROWTH = 3


# ---- what is driven


def modules() -> Iterator[Any]:
    for name in PACKAGES:
        package = importlib.import_module(f"service.{name}")
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)
    yield from (importlib.import_module(f"service.{name}") for name in MODULES)


def patterns_in(name: str, value: object) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The patterns of a global, in whatever it keeps them."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, list | tuple | set | frozenset):
        for place, one in enumerate(value):
            yield from patterns_in(f"{name}[{place}]", one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from patterns_in(f"{name}[{key}]", one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from patterns_in(f"{name}.{field.name}", getattr(value, field.name))


def patterns() -> dict[str, re.Pattern[str]]:
    """Each pattern of the core, once, by the name of a global that has it."""
    named: dict[re.Pattern[str], str] = {}
    for module in modules():
        for name, value in vars(module).items():
            for place, pattern in patterns_in(f"{module.__name__}.{name}", value):
                named.setdefault(pattern, place.removeprefix("service."))
    for place, pattern in patterns_in("gate.toml", gate.load_patterns()):
        named.setdefault(pattern, place)
    return {name: pattern for pattern, name in named.items()}


PATTERNS = patterns()


# ---- how it is timed


class TooLongError(Exception):
    """Stopped."""


@contextmanager
def bounded() -> Iterator[None]:
    """Stops what takes the processor for too long, also inside of a regular expression."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def seconds(work: Callable[[str], object], text: str) -> float:
    gc.disable()  # else a look at all objects of all tests before falls into some of the times
    begin = time.process_time()
    try:
        with bounded():
            work(text)
    except TooLongError:
        return MOST
    finally:
        gc.enable()
    return time.process_time() - begin


def too_slow(work: Callable[[str], object], text: Callable[[int], str], size: int, floor: float) -> str:
    """How a text grows dear; empty when it does not. A pause of the machine is no growth: the best of six counts."""
    once = seconds(work, text(size))
    if once < floor:
        return ""
    if once >= MOST:
        return f"{size} characters: more than {MOST} s"
    twice = MOST
    for _ in range(6):
        once = min(once, seconds(work, text(size)))
        twice = min(twice, seconds(work, text(2 * size)))
        if twice < min(max(GROWTH * once, floor), MOST):
            return ""
    return f"{size} characters: {once:.3f} s, {2 * size}: {twice:.3f} s"


# ---- patterns


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_reads_twice_the_text_in_twice_the_time(name: str) -> None:
    pattern = PATTERNS[name]

    def work(text: str) -> None:
        for _ in pattern.finditer(text):
            pass
        pattern.match(text)
        pattern.fullmatch(text)

    floor = max(FLOOR, DEAR * seconds(work, filled(PROSE, SIZE)))
    units = dict.fromkeys(UNITS.values())
    texts: list[Callable[[int], str]] = [
        lambda size, unit=unit: filled(unit, size) + "!"  # type: ignore[misc]
        for unit in units
    ]
    texts += [
        lambda size, start=start, run=run: start + filled(run, size) + "!"  # type: ignore[misc]
        for start in STARTS
        for run in RUNS
    ]
    for text in texts:
        slow = too_slow(work, text, SIZE, floor)
        assert not slow, f"{text(60)!r}: {slow}"
