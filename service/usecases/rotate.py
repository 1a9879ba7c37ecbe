"""Use case: bring all that is stored to the key that writes now, while the service goes on.

It also seals plain rows, or makes sealed ones plain. The service reads rows of all kinds alike, so
a rotation may be killed at any moment; the next call does what is left.
"""

from collections.abc import Callable

from service.storage import maintenance
from service.storage.database import Database
from service.storage.maintenance import KeyUsage


async def rotate_keys(database: Database, report: Callable[[int], None]) -> list[KeyUsage]:
    """Brings all rows to what is written now; `report` hears how many chats are done.

    Returns:
        How many values each key seals then. A key that seals none may be removed from the settings.
    """
    done = after = 0
    while True:
        async with database.engine.connect() as connection:
            page = await maintenance.list_chats(connection, after)
        if not page:
            break
        for chat in page:
            rows = None
            while rows != 0:
                # One transaction for each batch, so that the chat's own requests come in between.
                async with database.engine.begin() as connection:
                    rows = await maintenance.reseal(connection, chat)
        after, done = page[-1].id, done + len(page)
        report(done)
    async with database.engine.begin() as connection:
        await maintenance.reseal_secrets(connection)
        usage = await maintenance.count_values(connection)
        writes_or_seals = {database.keyring.writes, *(one.key for one in usage)}
        in_use = [key for key in writes_or_seals if key is not None]
        await maintenance.forget_unused_keys(connection, in_use)
    return usage
