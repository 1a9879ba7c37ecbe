"""A service that does nothing but run its servers, for tests that kill it.

    python running_service.py DATA_DIR [LARGEST_FILE_IN_BYTES]

Says in a line that it runs, or why it does not. Runs until its standard input ends.
"""

import asyncio
import resource
import sys
from pathlib import Path

from service.embedded.servers import run_embedded_servers
from service.errors import EmbeddedServerError


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main(data_dir: Path) -> None:
    try:
        async with run_embedded_servers(data_dir, fast=True):
            say("It runs.")
            await asyncio.to_thread(sys.stdin.read)
    except EmbeddedServerError as error:
        say(error)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    asyncio.run(main(Path(sys.argv[1])))
