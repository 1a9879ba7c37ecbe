"""What an operator should look at, in words: from the figures of `monitor.status`. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from service import __version__
from service.storage.jobs import KEY_MISSING, Alive, Breaker, QueueCounts, Stored
from service.storage.worth import Sums

About = Literal["encryption", "work", "dead", "summariser", "chats", "requests", "settings", "keys"]

_LONG: Final = 120
"""Seconds that due work may wait before somebody should look: as in the alert rules."""
_MANY_DEGRADED: Final = 0.2  # of the chats with a summary


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to look at, and what it is about; `urgent`: chats are refused meanwhile."""

    about: About
    text: str
    urgent: bool = False


def advice(
    queue: QueueCounts,
    stored: Stored,
    endpoints: list[Breaker],
    alive: list[Alive],
    today: Sums,
    filters: list[str],
    *,
    stalled: bool,
) -> list[Advice]:
    """What is amiss, the most urgent first."""
    return [
        *_of_encryption(alive),
        *_of_work(queue, stalled=stalled),
        *_of_summarisers(endpoints, stored),
        *_of_requests(today),
        *_of_settings(alive),
        *_of_filters(filters),
    ]


def _of_encryption(alive: list[Alive]) -> Iterator[Advice]:
    for process in alive:
        for warning in process.warnings:
            if warning.startswith(KEY_MISSING):
                whose = f"{process.role} {process.name}"
                yield Advice("encryption", f"{warning} ({whose})", urgent=True)


def _of_work(queue: QueueCounts, *, stalled: bool) -> Iterator[Advice]:
    if stalled:
        yield Advice(
            "work", "Work is due, and no worker lives. Start `precis serve`, or `precis worker`"
        )
    elif queue.oldest_due_seconds > _LONG:
        yield Advice(
            "work",
            f"Due work waits for {queue.oldest_due_seconds:.0f} s already. Start more workers, or"
            " look whether the summariser is slow",
        )
    if queue.dead:
        chats = "1 chat is" if queue.dead == 1 else f"{queue.dead:,} chats are"
        yield Advice("dead", f"{chats} dead: the work was given up. Read why, and retry it")


def _of_summarisers(endpoints: list[Breaker], stored: Stored) -> Iterator[Advice]:
    for one in endpoints:
        if one.state == "open" and one.open_until:
            yield Advice(
                "summariser",
                f"The summariser {one.name} keeps failing, and is not asked before"
                f" {one.open_until:%H:%M:%S} UTC: {one.last_error or 'no reason is known'}",
            )
    if stored.degraded > _MANY_DEGRADED * max(stored.compressed, 1):
        yield Advice(
            "chats",
            f"{stored.degraded:,} chats have a summary that code wrote, because the summariser"
            " failed or its replies were rejected",
        )


def _of_requests(today: Sums) -> Iterator[Advice]:
    if today.truncated:
        yield Advice(
            "requests",
            f"{today.truncated:,} requests of today lost text without any summary of it: they came"
            " before one was written, or could not reach the service",
        )
    if today.refused:
        yield Advice(
            "requests",
            f"New messages of chats were refused {today.refused:,} times today, and are not stored:"
            " `ingest.refused` in the log names the chats, and the filter's log says why",
        )
    if today.away:
        yield Advice(
            "requests", f"The service did not answer {today.away:,} requests of today in time"
        )


def _of_settings(alive: list[Alive]) -> Iterator[Advice]:
    for warning in sorted({one for process in alive for one in process.warnings}):
        if not warning.startswith(KEY_MISSING):
            yield Advice("settings", warning)


def _of_filters(versions: list[str]) -> Iterator[Advice]:
    older = sorted((one for one in versions if _numbers(one) < _numbers(__version__)), key=_numbers)
    if older:
        yield Advice(
            "keys",
            f"Open WebUI has functions of {', '.join(older)}, and this service is {__version__}:"
            " `precis install-filter` brings them up to date",
        )


def _numbers(version: str) -> list[int]:
    """A version as numbers that compare."""
    return [int(number) for number in version.split(".")]
