"""Use case: bring all that is stored to the key that writes now, while the service goes on.

Also from plain rows to sealed ones, and back. Killed at any moment, it leaves rows of both kinds,
which the service reads alike; the next call does what is left.
"""

from collections.abc import Callable

from service.storage import rotation
from service.storage.database import Database
from service.storage.rotation import Held


async def rotate(database: Database, report: Callable[[int], None]) -> list[Held]:
    """Brings all rows to what is written now; `report` hears now and then how many chats are done.

    Returns:
        What is held by which key then. A key that holds nothing any more may be removed from the
        settings.
    """
    done = after = 0
    while True:
        async with database.engine.connect() as connection:
            page = await rotation.chats_after(connection, after)
        if not page:
            return await _finish(database)
        for chat in page:
            rows = None
            while rows != 0:
                # One transaction for each batch, so that the chat's own requests come in between.
                async with database.engine.begin() as connection:
                    rows = await rotation.reseal(connection, chat)
        after, done = page[-1].id, done + len(page)
        report(done)


async def _finish(database: Database) -> list[Held]:
    async with database.engine.begin() as connection:
        await rotation.reseal_secrets(connection)
        remaining = await rotation.held(connection)
        in_use = {one.key for one in remaining if one.key is not None}
        writes = database.seals.writes
        still_used = in_use if writes is None else in_use | {writes}
        await rotation.forget_unused(connection, sorted(still_used))
    return remaining
