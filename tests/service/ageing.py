"""A desk whose rows grow old, and rounds of retention that remove them."""

from service.settings import load
from service.usecases.retain import RemovedRows, remove_old
from tests.service.harness import Harness
from tests.service.talk import rows, run_sql

FOREVER = {f"keep_{kind}": "forever" for kind in ("bodies", "chats", "history")}


async def sql(harness: Harness, statement: str, **values: object) -> None:
    await run_sql(harness.runtime, statement, **values)


async def age(harness: Harness, table: str, column: str, where: str = "true") -> None:
    await sql(harness, f"update {table} set {column} = {column} - interval '40 days' where {where}")


async def removed(harness: Harness, **keep: int | str) -> RemovedRows:
    """One round that keeps everything but what `keep` names."""
    return await remove_old(harness.runtime.database.engine, load(**(FOREVER | keep)))


async def without_text(harness: Harness) -> set[str]:
    found = await rows(harness.runtime, "select host_id from messages where body is null")
    return {one.host_id for one in found}
