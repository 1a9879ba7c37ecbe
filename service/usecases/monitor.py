"""The queue and circuit breakers: what operators and their monitors ask often."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.names import State
from service.settings import Settings
from service.storage import jobs, keys, windows
from service.storage.database import Database, Reads
from service.storage.jobs import LONG, Breaker, Job, QueueCounts
from service.usecases import worth
from service.usecases.worth import Worth


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs; `next` is the `cursor` for the next page, null on the last one."""

    jobs: list[Job]
    next: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """Who writes summaries, the queue in numbers, breakers, and the worth of the last 30 days.

    `warnings` are what to look at.
    """

    writer: str
    queue: QueueCounts
    endpoints: list[Breaker]
    worth: Worth
    warnings: list[str]


async def status(
    database: Database, tenant: int, settings: Settings, warnings: Sequence[str]
) -> Status:
    """How a tenant's work stands. Endpoints are the fleet's, and the models of its host.

    `warnings` are what this process has found amiss with its settings and its summariser.
    """
    reads = database.reads
    queue = await jobs.counts(reads, tenant)
    month = await worth.read(reads, settings, tenant)
    missing_keys = await database.keyring.missing_keys()
    chosen = await keys.summariser_of(reads, tenant)
    shown = await windows.find_shown(reads, tenant)
    own = [*_warnings(queue, month, missing_keys), *_small_windows(shown)]
    return Status(
        writer=_writer_of(settings, chosen),
        queue=queue,
        endpoints=await jobs.breakers(reads, tenant),
        worth=month,
        warnings=[*own, *warnings],
    )


def _writer_of(settings: Settings, chosen: str | None) -> str:
    """Who writes a tenant's summaries, of whose host's models one may be `chosen`."""
    if settings.summariser != "extractive":
        return f"{settings.summariser}:{settings.summariser_model}"
    if not chosen:
        return "code alone"
    return "each chat's own model" if chosen == "chat" else f"model {chosen} of the chats' host"


def _small_windows(shown: Mapping[str, int]) -> Iterator[str]:
    for model, window in shown.items():
        yield (
            f"Of requests to {model}, its server reads {window:,} tokens at most and cuts the rest,"
            " so this window is used: for a larger one, set num_ctx of the model in Open WebUI"
        )


async def list_jobs(
    reads: Reads, tenant: int, states: Sequence[State], limit: int, cursor: int
) -> JobPage:
    """A page of a tenant's work in these states."""
    # One more than the page holds shows whether there is a next page.
    rows = await jobs.page(reads, tenant, states, after=cursor, limit=limit + 1)
    page = rows[:limit]
    return JobPage(page, page[-1].id if len(rows) > limit else None)


def _warnings(queue: QueueCounts, month: Worth, missing_keys: str | None) -> Iterator[str]:
    """What no other figure of the status says as plainly."""
    if missing_keys:
        yield f"{missing_keys}; requests that need them are refused"
    if queue.oldest_due_seconds > LONG:
        yield (
            f"Work has been due for {queue.oldest_due_seconds:.0f} s: start `precis worker`, or"
            " more of them, or see whether the summariser is slow"
        )
    today = [part.figures for part in month.parts if part.name == month.last_day.isoformat()]
    if today and today[0].truncated:
        yield (
            f"{today[0].truncated:,} turns of today were truncated without a summary of it:"
            " `precis stats --by chat` names the chats"
        )
