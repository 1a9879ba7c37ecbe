"""The command behind `scripts/test-pgbouncer`: the tests that touch the database, through a PgBouncer.

It pools transactions. Its configuration is the one in docs/howto/scale.md, so what is documented is what was tested.
"""

import asyncio
import configparser
import contextlib
import io
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
from sqlalchemy import make_url

from service.embedded import process
from service.embedded.account import Account, check_reachable, choose_account, give
from service.embedded.servers import run_embedded_servers
from tests.folders import temporary_folder
from tests.postgres import play

HOWTO = play.ROOT / "docs" / "howto" / "scale.md"
# Few connections, taken in turn: each transaction meets what another client's left behind.
CHANGING_HANDS = {"default_pool_size": "2", "server_round_robin": "1"}


def program() -> Path:
    """The pgbouncer of `$PGBOUNCER`, or the one on the PATH."""
    found = shutil.which(os.environ.get("PGBOUNCER", "pgbouncer"), path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        raise SystemExit(
            "no pgbouncer found: install one of version 1.21 or newer (Debian 13: apt-get install pgbouncer; "
            "macOS: brew install pgbouncer), or name its program in PGBOUNCER"
        )
    return Path(found).resolve()


@contextlib.asynccontextmanager
async def pooling(binary: Path, folder: Path, database: str) -> AsyncIterator[str]:
    """Runs it before the database while the context is open."""
    account = await asyncio.to_thread(choose_account, folder / "pgbouncer.ini")
    await asyncio.to_thread(check_reachable, binary.parent, account)
    told = process.Program("PgBouncer", binary, account, signal.SIGTERM)
    port = process.find_free_port()
    url = make_url(database).set(port=port).render_as_string(hide_password=False)
    ini = await asyncio.to_thread(_configuration, folder, account, database, port)
    async with process.run_server(told, (ini,), folder / "pgbouncer.log", lambda: _answers(url)):
        yield url


def _configuration(folder: Path, account: Account | None, database: str, port: int) -> Path:
    """The documented file, for these servers, and the list of users beside it."""
    where, users, ini = make_url(database), folder / "users.txt", folder / "pgbouncer.ini"
    documented = re.search(r"^```ini\n(.*?)^```", HOWTO.read_text(), re.DOTALL | re.MULTILINE)
    assert documented, HOWTO
    told = configparser.RawConfigParser(delimiters=("=",))
    told.read_string(documented[1])
    told["databases"] = {"*": f"host={where.host} port={where.port}"}  # tests make databases of their own
    ours = {"listen_addr": process.HOST, "listen_port": str(port), "auth_file": str(users), "unix_socket_dir": ""}
    told["pgbouncer"].update(ours | CHANGING_HANDS)
    _write(users, f'"{where.username}" "{where.password}"\n', account)
    with io.StringIO() as text:
        told.write(text)
        _write(ini, text.getvalue(), account)
    return ini


def _write(file: Path, content: str, account: Account | None) -> None:
    file.touch(mode=0o600)
    file.write_text(content)
    give(file, account)


async def _answers(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url.replace("+asyncpg", ""), ssl=False)
    except (OSError, asyncpg.CannotConnectNowError):
        return False
    await connection.close()
    return True


async def main(options: list[str]) -> int:
    """Runs the tests; pytest's exit code."""
    binary = program()
    with temporary_folder() as folder:
        async with (
            run_embedded_servers(folder / "data", fast=True) as servers,
            pooling(binary, folder, servers.database) as pooled,
        ):
            return await play.pytest(pooled, servers.redis, options)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
