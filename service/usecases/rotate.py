"""Use case: bring all that is stored to the key that writes now, while the service goes on.

Also from plain rows to sealed ones, and back. Killed at any moment, it leaves rows of both kinds,
which the service reads alike; the next call does what is left.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from service.storage import rotation
from service.storage.database import Database
from service.storage.rotation import Held
from service.storage.tenancy import ChatKey


@dataclass(frozen=True, slots=True)
class Progress:
    """How many chats were looked through so far, and how many rows of them were changed."""

    chats: int
    rows: int


async def rotate(database: Database, report: Callable[[Progress], None]) -> list[Held]:
    """Brings all rows to what is written now; `report` hears of it now and then.

    Returns:
        What is held by which key then. A key that holds nothing any more may be removed from the
        settings.
    """
    chats = changed = after = 0
    while True:
        async with database.engine.connect() as connection:
            page = await rotation.chats_after(connection, after)
        if not page:
            break
        for chat in page:
            async for rows in _through(database, chat):
                changed += rows
                report(Progress(chats, changed))
            chats += 1
        after = page[-1].id
        report(Progress(chats, changed))
    return await _finish(database)


async def _through(database: Database, chat: ChatKey) -> AsyncIterator[int]:
    """Brings all rows of a chat; tells after each batch how many it had."""
    while True:
        # One transaction for each batch, so that the chat's own requests come in between.
        async with database.engine.begin() as connection:
            rows = await rotation.reseal(connection, chat)
        if not rows:
            return
        yield rows


async def _finish(database: Database) -> list[Held]:
    async with database.engine.begin() as connection:
        await rotation.reseal_secrets(connection)
        remaining = await rotation.held(connection)
        in_use = {one.key for one in remaining if one.key is not None}
        writes = database.seals.writes
        still_used = in_use if writes is None else in_use | {writes}
        await rotation.forget_unused(connection, sorted(still_used))
    return remaining
