"""The arq worker: one job, one sweep. The embedded service runs it in its own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import structlog
from arq import cron, func
from arq.worker import Worker
from redis.exceptions import RedisError

from service import tokens
from service.compress import Bench, compress
from service.doorbell import JOB, Doorbell, dumps, loads, redis_settings
from service.retention import remove_old
from service.storage import work

_LONGEST_JOB = 3600  # seconds; the lease in the database decides, this only bounds arq's own bookkeeping
_FORGOTTEN = 60  # seconds after which arq drops a ring whose worker was killed, or takes so long that it lives on alone
_RINGS = 20  # of one sweep; each chat that is done rings for the next
_MINUTE = 37  # of each hour, at which what is too old is removed
_GRACE = 10  # seconds that work may take to finish at shutdown before it is given back

log = structlog.get_logger(__name__)


async def work_off(ctx: dict[str, Any]) -> None:
    """The job: the work of the chat whose turn it is; then another ring, for whoever is next."""
    worked = await compress(ctx["bench"])
    if worked:
        await ctx["doorbell"].ring()
    if worked and worked.again:
        await ctx["doorbell"].ring(delay=worked.again)


async def sweep(ctx: dict[str, Any]) -> None:
    """Rings for due work that nobody was woken for: a lost ring, a dead worker, a back-off that is over."""
    async with ctx["bench"].engine.connect() as connection:
        waiting = await work.waiting(connection, _RINGS)
    for _ in range(waiting):
        await ctx["doorbell"].ring()
    if waiting:
        log.info("sweep.rang", times=waiting)


async def remove(ctx: dict[str, Any]) -> None:
    """Removes what is older than the settings allow."""
    bench: Bench = ctx["bench"]
    if bench.settings.retention:
        removed = asdict(await remove_old(bench.engine, bench.settings))
        if any(removed.values()):
            log.info("retention.removed", **removed)


async def _run_for_ever(worker: Worker) -> None:
    """Starts the worker's loop again when Redis was away for longer than the driver tries."""
    while True:
        try:
            await worker.async_run()
        except (RedisError, OSError) as error:
            log.warning("worker.redis_away", error=repr(error))
            await asyncio.sleep(1)


@asynccontextmanager
async def running(bench: Bench, doorbell: Doorbell, redis_url: str) -> AsyncIterator[Worker]:
    """A worker in this process. On the way out it takes no new work, finishes what it has, or gives it back."""
    await asyncio.to_thread(tokens.count, "")  # loads the vocabulary: half a second in which no lease would be renewed
    worker = Worker(
        functions=[func(work_off, name=JOB, timeout=_LONGEST_JOB, max_tries=1, keep_result=0)],
        cron_jobs=[
            cron(sweep, second=set(range(0, 60, bench.settings.sweep_every)), run_at_startup=True, keep_result=0),
            cron(remove, minute=_MINUTE, keep_result=0, timeout=_LONGEST_JOB),
        ],
        redis_settings=redis_settings(redis_url),
        ctx={"bench": bench, "doorbell": doorbell},
        max_jobs=bench.settings.worker_jobs,
        keep_result=0,  # a kept result would block the job's id
        poll_delay=0.1,
        health_check_interval=10,
        handle_signals=False,
        retry_jobs=False,  # the database says what is due again
        job_serializer=dumps,
        job_deserializer=loads,
        log_results=False,
    )
    # By default, the longest job: a hundred rings of killed workers stood at the head of the queue for an hour, and arq
    # 0.28 looks at no more than the first hundred.
    worker.in_progress_timeout_s = _FORGOTTEN
    main = asyncio.create_task(_run_for_ever(worker))
    try:
        yield worker
    finally:
        worker.allow_pick_jobs = False
        if worker.tasks:
            await asyncio.wait(worker.tasks.values(), timeout=_GRACE)
        # Not `worker.close()`: it stops half way when it has to cancel a job, and leaves its connections open.
        main.cancel()
        await asyncio.gather(main, return_exceptions=True)
        jobs = list(worker.tasks.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        if worker._pool:
            await worker.pool.aclose()
