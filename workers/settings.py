"""What arq is given for a worker: its jobs, when sweeps are, and how jobs are treated.

`precis worker` runs it (`workers.worker`). So does arq's own command, `arq
workers.settings.WorkerSettings`, on the settings of the environment; it ends when Redis stays away,
gives its work back at once at a SIGTERM, and lets the wake-ups of a killed worker stand in the
queue for an hour. Take `precis worker`.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from arq import cron, func

from service import tracing
from service.queue import HEARTBEAT, JOB, client, dumps, loads, redis_settings
from service.runtime import running, servers
from service.settings import Settings, load
from service.text import tokens
from workers.jobs import compare, remove, sweep, work_off

# Seconds. The lease in the database decides, this only bounds arq's own bookkeeping.
_LONGEST_JOB = 3600
_HOUR = 3  # at which Open WebUI is asked for its chats
_NIGHT = 4 * 3600  # seconds that this may take
_MINUTE = 37  # of each hour, at which what is too old is removed


def worker_settings(settings: Settings, redis_url: str) -> dict[str, Any]:
    """Arguments of `arq.worker.Worker`, but for the context of its jobs."""
    return {
        "functions": [func(work_off, name=JOB, timeout=_LONGEST_JOB, max_tries=1, keep_result=0)],
        "cron_jobs": [
            cron(
                sweep,
                second=set(range(0, 60, settings.sweep_every)),
                run_at_startup=True,
                keep_result=0,
            ),
            cron(remove, minute=_MINUTE, keep_result=0, timeout=_LONGEST_JOB),
            cron(compare, hour=_HOUR, minute=_MINUTE, keep_result=0, timeout=_NIGHT),
        ],
        "redis_settings": redis_settings(redis_url),
        "max_jobs": settings.worker_jobs,
        "keep_result": 0,  # a kept result would block the job's id
        "poll_delay": 0.1,
        "health_check_interval": HEARTBEAT,
        "retry_jobs": False,  # the database says what is due again
        "job_serializer": dumps,
        "job_deserializer": loads,
        "log_results": False,
    }


async def load_vocabulary() -> None:
    """Before the first job: loading it takes half a second, in which no lease would be renewed."""
    await asyncio.to_thread(tokens.count, "")


async def _open(ctx: dict[str, Any]) -> None:
    settings, stack = load(), AsyncExitStack()
    stack.enter_context(tracing.exporting())
    runtime = await stack.enter_async_context(
        running(settings, await stack.enter_async_context(servers(settings)))
    )
    await load_vocabulary()
    ctx |= {"context": runtime.worker_context, "queue": runtime.queue, "stack": stack}


async def _close(ctx: dict[str, Any]) -> None:
    await ctx["stack"].aclose()


def __getattr__(name: str) -> dict[str, Any]:
    """`WorkerSettings`, for arq's own command.

    Made when it is asked for, so that an import reads no environment.
    """
    if name != "WorkerSettings":
        raise AttributeError(name)
    settings = load()
    url = settings.redis_url.get_secret_value() if settings.redis_url else ""
    # Arq's own client trusts what the machine trusts beside the authorities that the URL names.
    ours = {"redis_pool": client(url), "on_startup": _open, "on_shutdown": _close}
    return worker_settings(settings, url) | ours
