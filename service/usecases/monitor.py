"""Use case: operators look at the queue, the circuit breakers and the sums of tokens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.names import MONTH, State
from service.settings import Settings
from service.storage import chats, jobs, keys, runs
from service.storage.database import Database, Reads
from service.storage.jobs import LONG, Breaker, Job, QueueCounts
from service.storage.runs import TokenSums


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs; `next` is the `cursor` for the next page, null on the last one."""

    jobs: list[Job]
    next: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """The writer of summaries, the queue in numbers, breakers, and the tokens of 30 days.

    `warnings` say what needs attention.
    """

    writer: str
    queue: QueueCounts
    endpoints: list[Breaker]
    month: TokenSums
    warnings: list[str]


async def read_status(
    database: Database, tenant: int, settings: Settings, warnings: Sequence[str]
) -> Status:
    """The status of a tenant's work. Endpoints are the fleet's, and the models of its host.

    `warnings` are those of this process about its settings.
    """
    reads = database.reads
    queue = await jobs.count_jobs(reads, tenant)
    today = await runs.read_sums(reads, tenant, days=1)
    month = await runs.read_sums(reads, tenant, MONTH)
    missing_keys = await database.keyring.missing_keys()
    chosen = await keys.find_summariser(reads, tenant)
    shown = await chats.find_shown_windows(reads, tenant)
    own = [*_list_warnings(queue, today.total, missing_keys), *_list_small_windows(shown)]
    return Status(
        writer=_describe_writer(settings, chosen),
        queue=queue,
        endpoints=await jobs.list_breakers(reads, tenant),
        month=month.total,
        warnings=[*own, *warnings],
    )


def _describe_writer(settings: Settings, chosen: str | None) -> str:
    """The writer of a tenant's summaries; `chosen` is a model of the tenant's host, or `chat`."""
    if settings.summariser != "extractive":
        return f"{settings.summariser}:{settings.summariser_model}"
    if not chosen:
        return "code alone"
    return "each chat's own model" if chosen == "chat" else f"model {chosen} of the chats' host"


def _list_small_windows(shown: Mapping[str, int]) -> Iterator[str]:
    for model, window in shown.items():
        yield (
            f"The server of {model} reads at most {window:,} tokens of a request and cuts the rest,"
            " so Precis uses this window: for a larger one, set num_ctx of the model in Open WebUI"
        )


async def list_jobs(
    reads: Reads, tenant: int, states: Sequence[State], limit: int, cursor: int
) -> JobPage:
    """A page of a tenant's work in these states."""
    # One more than the page holds shows whether there is a next page.
    rows = await jobs.list_jobs(reads, tenant, states, after=cursor, limit=limit + 1)
    page = rows[:limit]
    return JobPage(page, page[-1].id if len(rows) > limit else None)


def _list_warnings(queue: QueueCounts, today: TokenSums, missing_keys: str | None) -> Iterator[str]:
    """Warnings about things that the other fields of the status do not say plainly."""
    if missing_keys:
        yield f"{missing_keys}; requests that need them are refused"
    if queue.oldest_due_seconds > LONG:
        yield (
            f"Work has been due for {queue.oldest_due_seconds:.0f} s: start `precis worker`, or"
            " more of them, or see whether the summariser is slow"
        )
    if today.truncated:
        yield (
            f"{today.truncated:,} turns of today lost text that no summary covers: see whether"
            " `precis jobs list` shows work that waits, or is dead"
        )
