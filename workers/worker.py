"""Runs the arq worker in this process: beside the embedded service, or as `precis worker`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from arq import cron, func
from arq.worker import Worker
from redis.exceptions import RedisError

from service import __version__
from service.clients.wake_ups import (
    HEARTBEAT,
    JOB,
    Queue,
    deserialize_job,
    make_client,
    serialize_job,
)
from service.text import tokens
from service.usecases.compress import WorkerContext
from workers.jobs import compare, remove, sweep, work_off

# Seconds. The lease in the database decides, this only bounds arq's own bookkeeping.
_LONGEST_JOB = 3600
_HOUR = 3  # at which Open WebUI is asked for its chats
_NIGHT = 4 * 3600  # seconds that this may take
_MINUTE = 37  # of each hour, at which what is too old is removed
# Seconds after which arq drops a wake-up whose worker was killed, or works for so long. The work
# itself lives on: the lease in the database is what counts.
_FORGOTTEN = 60
SWEEP_EVERY = 10  # seconds between searches for due work whose wake-up was lost; a divisor of 60
_GRACE = 10  # seconds that work may take to finish at shutdown before it is given back

log = structlog.get_logger(__name__)


def _make_arq_settings(context: WorkerContext) -> dict[str, Any]:
    """Arguments of `arq.worker.Worker`, but for the context of its jobs."""
    settings = context.settings
    cron_jobs = [
        cron(sweep, second=set(range(0, 60, SWEEP_EVERY)), run_at_startup=True, keep_result=0),
        cron(remove, minute=_MINUTE, keep_result=0, timeout=_LONGEST_JOB),
        cron(compare, hour=_HOUR, minute=_MINUTE, keep_result=0, timeout=_NIGHT),
    ]
    # The fleet works on no more chats with the summariser than this. So calls that hang never take
    # the slots of work that code does alone.
    calls = settings.summariser_calls if context.summariser else 0
    return {
        "functions": [func(work_off, name=JOB, timeout=_LONGEST_JOB, max_tries=1, keep_result=0)],
        "cron_jobs": cron_jobs,
        "max_jobs": calls + settings.worker_jobs + len(cron_jobs),
        "keep_result": 0,  # a kept result would block the job's id
        "poll_delay": 0.1,
        "health_check_interval": HEARTBEAT,
        "retry_jobs": False,  # the database says what is due again
        "job_serializer": serialize_job,
        "job_deserializer": deserialize_job,
        "log_results": False,
    }


async def _run_for_ever(worker: Worker) -> None:
    """Starts the worker's loop again when Redis was away for longer than the driver tries."""
    while True:
        try:
            await worker.async_run()
        except (RedisError, OSError) as error:
            log.warning("worker.redis_away", error=repr(error))
            await asyncio.sleep(1)


@asynccontextmanager
async def run_worker(context: WorkerContext, queue: Queue, redis_url: str) -> AsyncIterator[Worker]:
    """A worker in this process.

    On the way out it takes no new work, and finishes what it has, or gives it back.
    """
    # Before the first job: it takes half a second, in which no lease would be renewed.
    await asyncio.to_thread(tokens.count, "")
    await context.texts.warm_up()
    # Arq's own would be lost, and left open, when the worker ends while it connects.
    redis = make_client(redis_url)
    worker = Worker(
        **_make_arq_settings(context),
        redis_pool=redis,
        ctx={"context": context, "queue": queue},
        handle_signals=False,
    )
    # By default, the longest job: a hundred wake-ups of killed workers stood at the head of the
    # queue for an hour, and arq 0.28 looks at no more than the first hundred.
    worker.in_progress_timeout_s = _FORGOTTEN
    main = asyncio.create_task(_run_for_ever(worker))
    try:
        log.info("worker.started", version=__version__, summariser=context.by)
        yield worker
    finally:
        worker.allow_pick_jobs = False
        if worker.tasks:
            await asyncio.wait(worker.tasks.values(), timeout=_GRACE)
        # Not `worker.close()`: it stops half way when it has to cancel a job, and leaves its
        # connections open.
        main.cancel()
        await asyncio.gather(main, return_exceptions=True)
        jobs = list(worker.tasks.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await redis.aclose()
