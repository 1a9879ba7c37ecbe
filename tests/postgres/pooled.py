"""The command behind `scripts/test-pgbouncer`: the tests that touch the database, behind PgBouncer."""

import sys

from service.embedded.servers import embedded_servers
from tests.postgres import pgbouncer, play


async def main(argv: list[str]) -> int:
    """Runs the tests; prints a line at their end."""
    _, options = play.arguments(["--", *argv])
    binary = pgbouncer.program()
    with play.folder() as folder:
        async with (
            embedded_servers(folder / "data", fast=True) as servers,
            pgbouncer.pooling(binary, folder, servers.database) as pooled,
        ):
            outcome = await play.pytest(pooled, servers.redis, options)
    print(f"{pgbouncer.version(binary)}: {outcome.closing}", flush=True)  # noqa: T201 - a command
    return outcome.code


if __name__ == "__main__":
    play.run(main(sys.argv[1:]))
