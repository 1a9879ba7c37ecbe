"""The command behind `scripts/test-postgres`: the tests that touch the database, on a real server of each major."""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator

from service.embedded import postgres, process, valkey
from service.embedded.account import choose_account, find_obstacle
from service.storage.database import OLDEST
from tests.folders import temporary_folder
from tests.postgres import play, wheels

MAJORS = range(OLDEST, 19)


async def main(argv: list[str]) -> int:
    """Plays each of the majors before `--`, with pytest's options behind it; 1 when one failed."""
    end = argv.index("--") if "--" in argv else len(argv)
    asked, options = argv[:end], argv[end + 1 :]
    lines = []
    for major in map(int, asked or MAJORS):
        async with _servers(major) as (database, redis):
            failed = await play.pytest(database, redis, options)
        lines.append(f"PostgreSQL {major}: {'failed' if failed else 'passed'}")
        print(lines[-1], flush=True)  # noqa: T201 - a command
    print("", *lines, sep="\n")  # noqa: T201 - a command
    return int(any(line.endswith("failed") for line in lines))


@contextlib.asynccontextmanager
async def _servers(major: int) -> AsyncIterator[tuple[str, str]]:
    installed = await asyncio.to_thread(wheels.program, major)
    with temporary_folder() as folder:
        # As it is unpacked, or a copy that the servers' account can get to.
        account = choose_account(folder / "postgres")
        if account and find_obstacle(installed.parent, account):
            copied = await asyncio.to_thread(shutil.copytree, installed.parents[1], folder / "postgresql")
            installed = copied / "bin" / installed.name
        program = process.Program("PostgreSQL", installed, account, postgres.STOP)
        async with (
            postgres.serve_postgres(program, folder, fast=True) as (_, database),
            valkey.run_valkey(folder, fast=True) as (_, queue),
        ):
            yield database, queue


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
