"""`python rotating.py DATABASE_URL KEYS`: rotates a database in many small batches, to be killed meanwhile."""

import asyncio
import sys

from service.settings import load
from service.storage import rotation
from service.storage.database import connect
from service.usecases.rotate import rotate


async def main(url: str, keys: str) -> None:
    rotation.BATCH = 20
    async with connect(url, keys=load(encryption_keys=keys).sealing_keys) as database:
        await rotate(database, lambda _: None)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
