"""A service that does nothing but run its servers, for tests that kill it or run it as another user.

    python running_service.py DATA_DIR [LARGEST_FILE_IN_BYTES]

Writes one line of JSON: the URLs, or the error. Runs until its standard input ends.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from service.embedded.servers import run_embedded_servers
from service.errors import EmbeddedServerError


def say(**facts: str) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


async def main(data_dir: Path) -> None:
    try:
        async with run_embedded_servers(data_dir, fast=True) as servers:
            say(database_url=servers.database, redis_url=servers.redis)
            await asyncio.to_thread(sys.stdin.read)
    except EmbeddedServerError as error:
        say(error=str(error))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    asyncio.run(main(Path(sys.argv[1])))
