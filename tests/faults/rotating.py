"""Rotates the keys of a database in many small batches, to be killed meanwhile.

    python rotating.py DATABASE_URL KEYS

Writes a line for each batch and `done` at the end.
"""

import asyncio
import sys

from service.settings import load
from service.storage import rotation
from service.storage.database import connect
from service.usecases.rotate import Progress, rotate


def say(progress: Progress) -> None:
    sys.stdout.write(f"{progress.rows}\n")
    sys.stdout.flush()


async def main(url: str, keys: str) -> None:
    rotation.BATCH = 20
    async with connect(url, keys=load(encryption_keys=keys).sealing_keys) as database:
        await rotate(database, say)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
