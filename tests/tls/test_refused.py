"""Whoever is not who the URL says gets no word of ours; on servers that do no more than to speak TLS."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from service import dumps, tls
from service.errors import ConfigurationError
from service.queue import Queue
from service.runtime import Urls, running
from service.settings import Settings
from service.storage import database
from tests.conftest import TEXTS
from tests.tls.authority import Authority

Way = Callable[[str, Path], Awaitable[object]]


async def connect(url: str, _: Path) -> None:
    async with database.connect(url):
        pass


async def migrate(url: str, _: Path) -> None:
    await database.migrate(url)


async def dump(url: str, folder: Path) -> None:
    await dumps.dump(url, folder / "precis.dump")


WAYS = {"connect": connect, "migrate": migrate, "dump": dump}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@contextlib.asynccontextmanager
async def posing(authority: Authority, answer: bytes = b"") -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server for `localhost`: its port, and what it was told by TLS. It gives a PostgreSQL's answer before."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    signed = authority.signed("localhost")
    context.load_cert_chain(signed.certificate, signed.key)
    told: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that refuses ends the connection, in one way or another.
        with contextlib.suppress(OSError, EOFError):
            if answer:
                await reader.readexactly(8)
                writer.write(answer)
            if answer in (b"", b"S"):
                await writer.start_tls(context)
                told.append(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], told


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_postgresql_of_another_authority_or_name_is_told_nothing(
    authority: Authority, tmp_path: Path, way: Way
) -> None:
    other = Authority(tmp_path, "other").certificate
    async with posing(authority, b"S") as (port, told):
        end = f":{port}/precis?sslmode=verify-full&sslrootcert="
        with pytest.raises(ConfigurationError, match=rf"PostgreSQL at localhost:{port} has a certificate that is not"):
            await way(f"postgresql://precis:secret@localhost{end}{other}", tmp_path)
        named = rf"PostgreSQL at 127.0.0.1:{port} has a certificate of another name: .*'127\.0\.0\.1'"
        with pytest.raises(ConfigurationError, match=named):
            await way(f"postgresql://precis:secret@127.0.0.1{end}{authority.certificate}", tmp_path)
        assert told == [b""] * len(told)
    assert os.listdir(tmp_path) == ["other.pem"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_a_postgresql_without_tls_is_told_nothing(
    authority: Authority, tmp_path: Path, way: Way, mode: str
) -> None:
    async with posing(authority, b"N") as (port, _):
        words = f"?sslmode={mode}&sslrootcert={authority.certificate}"
        with pytest.raises(ConfigurationError, match=r"rejected SSL upgrade|does not speak TLS"):
            await way(f"postgresql://precis:secret@localhost:{port}/precis{words}", tmp_path)
    assert os.listdir(tmp_path) == []


async def test_a_redis_of_another_authority_or_name_ends_the_start_and_is_told_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other").certificate
    async with posing(authority) as (port, told):
        with pytest.raises(ConfigurationError, match=rf"Redis at localhost:{port} has a certificate that is not trus"):
            await Queue.connect(f"rediss://:secret@localhost:{port}/0?ssl_ca_certs={other}")
        with pytest.raises(ConfigurationError, match=rf"Redis at 127.0.0.1:{port} has a certificate of another name"):
            await Queue.connect(f"rediss://:secret@127.0.0.1:{port}/0?ssl_ca_certs={authority.certificate}")
        assert told == [b""] * len(told)


async def test_a_redis_whose_connection_ends_is_away_and_does_not_end_the_start(authority: Authority) -> None:
    async with posing(authority, b"N") as (port, _):
        queue = await Queue.connect(f"rediss://localhost:{port}/0?ssl_ca_certs={authority.certificate}")
        await queue.close()


async def test_a_public_way_is_warned_of_at_the_start(
    settings: Settings, urls: Urls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_is_inside", lambda _: False)
    async with running(settings, urls, TEXTS) as runtime:
        of_database, of_redis = runtime.worker_context.warnings
        assert of_database.startswith("PRECIS_DATABASE_URL goes to ")
        assert of_redis.startswith("PRECIS_REDIS_URL goes to ")
