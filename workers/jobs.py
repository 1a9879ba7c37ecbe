"""The jobs that arq runs: work on the chat whose turn it is, sweeps, retention, reconciliation.

Their context holds `context` (a `WorkerContext`) and `queue`.
"""

from dataclasses import asdict
from typing import Any

import structlog

from service.clients.openwebui import sign_in
from service.errors import PrecisError
from service.names import FIRST_TENANT
from service.storage import keys, work
from service.storage.keys import Operator
from service.usecases.compress import WorkerContext, compress
from service.usecases.reconcile import reconcile
from service.usecases.retain import remove_expired, remove_old

_WAKE_UPS = 20  # of one sweep; each chat that is done wakes a worker for the next

log = structlog.get_logger(__name__)


async def work_off(ctx: dict[str, Any]) -> None:
    """The job: the work of the chat whose turn it is; then another wake-up, for the next one."""
    worked = await compress(ctx["context"])
    if worked:
        await ctx["queue"].wake()
    if worked and worked.again:
        await ctx["queue"].wake(delay=worked.again)


async def sweep(ctx: dict[str, Any]) -> None:
    """Wakes workers for due work that nobody was woken for, and removes expired chats.

    A wake-up was lost, a worker died, or a back-off is over.
    """
    async with ctx["context"].engine.connect() as connection:
        waiting = await work.count_waiting(connection, _WAKE_UPS)
    for _ in range(waiting):
        await ctx["queue"].wake()
    if waiting:
        log.info("sweep.woke", times=waiting)
    if removed := await remove_expired(ctx["context"].slow):
        log.info("sweep.removed_expired", chats=removed)


async def remove(ctx: dict[str, Any]) -> None:
    """Removes what is older than the settings allow."""
    context: WorkerContext = ctx["context"]
    removed = asdict(await remove_old(context.slow, context.settings))
    if any(removed.values()):
        log.info("retention.removed", **removed)


async def compare(ctx: dict[str, Any]) -> None:
    """Deletes the chats that Open WebUI has no more, where its address and a key are set."""
    context: WorkerContext = ctx["context"]
    settings = context.settings
    key = settings.openwebui_key.get_secret_value()
    if not (settings.openwebui_url and key):
        return
    async with context.engine.connect() as connection:
        tenant = await keys.find_tenant(connection, FIRST_TENANT)
    if tenant is None:
        return
    try:
        async with sign_in(settings.openwebui_url, key) as webui:
            done = await reconcile(context.slow, webui, Operator(tenant, "worker"))
    except PrecisError as error:
        log.warning("reconcile.stopped", why=str(error))
        return
    log.info("reconcile.done", asked=done.asked, deleted=len(done.missing))
