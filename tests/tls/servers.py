"""A PostgreSQL and a Redis that speak TLS and nothing else; as installed here, for the packages' own have no OpenSSL.

Their certificates are of `localhost`, and of no address.
"""

import contextlib
import shutil
import signal
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.embedded import cluster, process
from service.embedded.account import account_for, give
from service.embedded.folder import make_private
from service.embedded.port import HOST, on_port
from service.embedded.postgres import SETTINGS, STOPS, UNSAFE
from tests.postgres import wheels
from tests.tls.authority import Authority, Signed

NAME = "localhost"
PASSWORD = "secret"  # of Redis
GUARDED = "guarded"  # a database for clients with a certificate


@dataclass(frozen=True)
class TlsServers:
    """Where they are, and who signed for them; `own` is a certificate that they accept of a client."""

    postgres_port: int
    postgres_password: str
    redis_port: int
    authority: Path
    other_authority: Path
    own: Signed

    def database(self, words: str, host: str = NAME, name: str = cluster.DATABASE) -> str:
        """The URL of a database, with these words."""
        return f"postgresql://{cluster.ROLE}:{self.postgres_password}@{host}:{self.postgres_port}/{name}{words}"

    def queue(self, words: str, host: str = NAME, scheme: str = "rediss") -> str:
        """The URL of Redis, with these words."""
        return f"{scheme}://:{PASSWORD}@{host}:{self.redis_port}/0{words}"


def postgres_program() -> Path | None:
    """A PostgreSQL with OpenSSL: one of `scripts/test-postgres`, or of the system."""
    installed = [*wheels.CACHE.glob("postgresql-*/bin/postgres"), *Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    named = shutil.which("postgres")
    return max(installed, default=Path(named).resolve() if named else None)


def redis_program() -> Path | None:
    """A Redis or Valkey of the system: distributions build them with OpenSSL."""
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    return Path(found) if found else None  # not resolved: by its name it knows what to do


@contextlib.asynccontextmanager
async def tls_servers(postgres: Path, redis: Path, folder: Path) -> AsyncIterator[TlsServers]:
    """Runs both in a folder that everybody may enter."""
    account = account_for(folder / "postgres")
    authority, other = Authority(folder, "authority"), Authority(folder, "other")
    signed, own = authority.signed(NAME, account), authority.signed("client")
    told = process.Program("PostgreSQL", postgres, account, STOPS)
    async with (
        _postgres(told, folder, signed, authority.certificate) as (postgres_port, password),
        _redis(redis, folder, signed, authority.certificate) as redis_port,
    ):
        yield TlsServers(postgres_port, password, redis_port, authority.certificate, other.certificate, own)


@contextlib.asynccontextmanager
async def _postgres(
    program: process.Program, folder: Path, signed: Signed, authority: Path
) -> AsyncIterator[tuple[int, str]]:
    data = folder / "postgres"
    password = await cluster.ensure(data, program, fast=True)
    (data / "pg_hba.conf").write_text(
        f"hostssl {GUARDED} all {HOST}/32 scram-sha-256 clientcert=verify-ca\nhostssl all all {HOST}/32 scram-sha-256\n"
    )
    files = {"ssl": "on", "ssl_cert_file": signed.certificate, "ssl_key_file": signed.key, "ssl_ca_file": authority}
    options = [part for pair in (SETTINGS | UNSAFE | files).items() for part in ("-c", "=".join(map(str, pair)))]

    async def start(port: int) -> tuple[process.Server, int]:
        server = await process.start(program, ("-D", data, "-c", f"port={port}", *options), folder / "postgres.log")
        await server.until_ready(lambda: _answers(port, password), port)
        return server, port

    server, port = await on_port(None, start)
    try:
        yield port, password
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _redis(binary: Path, folder: Path, signed: Signed, authority: Path) -> AsyncIterator[int]:
    data = folder / "redis"
    account = account_for(folder / "postgres")
    make_private(data)
    give(data, account)
    program = process.Program("Redis", binary, account, ((signal.SIGTERM, 10.0),))

    async def start(port: int) -> tuple[process.Server, int]:
        told = (
            f"bind {HOST}\nport 0\ntls-port {port}\ntls-cert-file {signed.certificate}\ntls-key-file {signed.key}\n"
            f'tls-ca-cert-file {authority}\ntls-auth-clients no\nrequirepass {PASSWORD}\ndir {data}\nsave ""\n'
        )
        server = await process.start(program, ("-",), folder / "redis.log", given=told.encode())
        await server.until_ready(lambda: _pongs(port, authority), port)
        return server, port

    server, port = await on_port(None, start)
    try:
        yield port
    finally:
        await server.stop()


async def _answers(port: int, password: str) -> bool:
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    try:
        connection = await asyncpg.connect(
            host=HOST, port=port, user=cluster.ROLE, password=password, database=cluster.DATABASE, ssl=unchecked
        )
    except (OSError, asyncpg.CannotConnectNowError):
        return False
    await connection.close()
    return True


async def _pongs(port: int, authority: Path) -> bool:
    client = Redis(host=HOST, port=port, password=PASSWORD, ssl=True, ssl_ca_certs=str(authority))
    try:
        await client.ping()
    except (RedisError, OSError):
        return False
    finally:
        await client.aclose()
    return True
