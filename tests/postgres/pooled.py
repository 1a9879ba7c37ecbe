"""The command behind `scripts/test-pgbouncer`: the tests that touch the database, behind PgBouncer."""

import asyncio
import sys

from service.embedded.servers import run_embedded_servers
from tests.folders import temporary_folder
from tests.postgres import pgbouncer, play


async def main(options: list[str]) -> int:
    """Runs the tests, and says with what; pytest's exit code."""
    binary = pgbouncer.program()
    print(pgbouncer.version(binary), flush=True)  # noqa: T201 - a command
    with temporary_folder() as folder:
        async with (
            run_embedded_servers(folder / "data", fast=True) as servers,
            pgbouncer.pooling(binary, folder, servers.database) as pooled,
        ):
            return await play.pytest(pooled, servers.redis, options)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
