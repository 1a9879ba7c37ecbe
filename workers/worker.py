"""Runs the arq worker in this process: beside the embedded service, or as `precis worker`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from arq.worker import Worker
from redis.exceptions import RedisError

from service import __version__
from service.queue import Queue, client
from service.usecases.compress import WorkerContext
from workers.settings import load_vocabulary, worker_settings

# Seconds after which arq drops a wake-up whose worker was killed, or works for so long. The work
# itself lives on: the lease in the database is what counts.
_FORGOTTEN = 60
_GRACE = 10  # seconds that work may take to finish at shutdown before it is given back

log = structlog.get_logger(__name__)


async def _run_for_ever(worker: Worker) -> None:
    """Starts the worker's loop again when Redis was away for longer than the driver tries."""
    while True:
        try:
            await worker.async_run()
        except (RedisError, OSError) as error:
            log.warning("worker.redis_away", error=repr(error))
            await asyncio.sleep(1)


@asynccontextmanager
async def running(context: WorkerContext, queue: Queue, redis_url: str) -> AsyncIterator[Worker]:
    """A worker in this process.

    On the way out it takes no new work, and finishes what it has, or gives it back.
    """
    await load_vocabulary()
    context.texts.warm_up()
    # Arq's own would be lost, and left open, when the worker ends while it connects.
    redis = client(redis_url)
    worker = Worker(
        **worker_settings(context.settings, redis_url),
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
