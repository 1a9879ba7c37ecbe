"""A queue of chats without messages, for tests of who is next: rows in `chats`, claimed and ended by hand."""

from dataclasses import dataclass

from service.storage import keys, work
from service.storage.work import Lease
from service.usecases.compress import WorkerContext
from tests.service.harness import Harness
from tests.service.talk import row, run_sql


@dataclass
class Queue:
    """The due work of several tenants. Chats are named `<tenant>-<number>`, number 0 is due for longest."""

    harness: Harness

    async def put(self, tenant: str, count: int = 1, *, waited: float = 1000, **columns: str) -> None:
        """So many due chats, the first for `waited` seconds and each other for one less; `columns` are SQL terms."""
        runtime = self.harness.runtime
        async with runtime.database.engine.begin() as connection:
            await keys.create(connection, tenant, "filter", "test")
        values = {"due_at": f"now() - make_interval(secs => {waited} - number)"} | columns
        await run_sql(
            runtime,
            f"insert into chats (tenant_id, external_id, user_id, model, window_tokens, {', '.join(values)})"
            f" select id, '{tenant}-' || number, 'user', 'model', 8192, {', '.join(values.values())}"
            f" from tenants, generate_series(0, {count - 1}) number where name = '{tenant}'",
        )

    async def claim(self, worker_context: WorkerContext | None = None, *, worker: str = "worker") -> Lease | None:
        """What a worker with this bench (the built-in summariser by default) gets to do next."""
        worker_context = worker_context or self.harness.runtime.worker_context
        async with worker_context.engine.begin() as connection:
            return await work.claim(
                connection, worker, worker_context.endpoint, worker_context.settings.summariser_calls
            )

    async def name(self, lease: Lease | None) -> str | None:
        """Which chat that is."""
        if lease is None:
            return None
        query = "select external_id from chats where tenant_id = :tenant and id = :id"
        found: str = (await row(self.harness.runtime, query, tenant=lease.chat.tenant, id=lease.chat.id))[0]
        return found

    async def next(self, worker_context: WorkerContext | None = None) -> str | None:
        """The chat that is claimed now."""
        return await self.name(await self.claim(worker_context))

    async def end(self, lease: Lease) -> None:
        """Its work is done."""
        async with self.harness.runtime.database.engine.begin() as connection:
            await work.finish(connection, lease, again=False)

    async def work_off(self, rounds: int = 30) -> list[str | None]:
        """One worker that does one chat after the other; the chats in that order."""
        order: list[str | None] = []
        while len(order) < rounds and (lease := await self.claim()):
            order.append(await self.name(lease))
            await self.end(lease)
        return order
