"""Whoever is not who the URL says gets no word of ours; on servers that do no more than to speak TLS."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from service import runtime
from service.clients.wake_ups import Queue
from service.embedded import dumps
from service.errors import ConfigurationError
from service.runtime import Urls, open_runtime
from service.settings import Settings
from service.storage import database
from tests.conftest import TEXTS
from tests.tls.authority import Authority

Way = Callable[[str], Awaitable[object]]


async def open_both_pools(url: str) -> None:
    async with database.connect(url):
        pass


async def use_the_engine_alone(url: str) -> None:
    engine = database.make_engine(url, "test")
    try:
        async with engine.connect():
            pass
    finally:
        await engine.dispose()


WAYS: dict[str, Way] = {
    "pools": open_both_pools,
    "engine": use_the_engine_alone,
    "migration": database.migrate,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@contextlib.asynccontextmanager
async def posing(authority: Authority, answer: bytes = b"") -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server for `localhost`: its port, and what it was told by TLS. It gives a PostgreSQL's answer before."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.signed("localhost"))
    told: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that refuses ends the connection, in one way or another.
        with contextlib.suppress(OSError, EOFError):
            if answer:
                await reader.readexactly(8)
                writer.write(answer)
            if answer != b"N":
                await writer.start_tls(context)
                if said := await reader.read(1000):
                    told.append(said)
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
        with pytest.raises((ConfigurationError, ssl.SSLError), match="unable to get local issuer certificate"):
            await way(f"postgresql://precis:secret@localhost{end}{other}")
        with pytest.raises((ConfigurationError, ssl.SSLError), match=r"not valid for '127\.0\.0\.1'"):
            await way(f"postgresql://precis:secret@127.0.0.1{end}{authority.certificate}")
        assert told == []
        with pytest.raises(Exception, match=r"connection was closed|Connection reset|unexpected connection_lost"):
            await way(f"postgresql://precis:secret@localhost{end}{authority.certificate}")
        assert told  # so the words of the URL are what decides


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_postgresql_without_tls_is_told_nothing(authority: Authority, way: Way) -> None:
    async with posing(authority, b"N") as (port, _):
        with pytest.raises((ConfigurationError, OSError), match="rejected SSL upgrade"):
            await way(f"postgresql://precis:secret@localhost:{port}/precis?sslmode=require")


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_a_backup_by_tls_names_the_programs_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    url = f"postgresql://precis:secret@localhost/precis?sslmode={mode}"
    with pytest.raises(ConfigurationError, match="install PostgreSQL's client programs"):
        await dumps.dump(url, tmp_path / "precis.dump")
    with pytest.raises(ConfigurationError, match="install PostgreSQL's client programs"):
        await dumps.load(url, tmp_path / "precis.dump")
    assert os.listdir(tmp_path) == []


async def test_a_redis_of_another_authority_or_name_ends_the_start_and_is_told_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other").certificate
    async with posing(authority) as (port, told):
        end = f":{port}/0?ssl_check_hostname=true&ssl_ca_certs="
        with pytest.raises(ConfigurationError, match="unable to get local issuer certificate"):
            await Queue.connect(f"rediss://:secret@localhost{end}{other}")
        with pytest.raises(ConfigurationError, match=r"not valid for '127\.0\.0\.1'"):
            await Queue.connect(f"rediss://:secret@127.0.0.1{end}{authority.certificate}")
        assert told == []
        # Its connection ends: it may be restarting.
        with capture_logs() as logs:
            await (await Queue.connect(f"rediss://:secret@localhost{end}{authority.certificate}")).close()
        assert [line["event"] for line in logs] == ["queue.redis_away"]
        assert told


@pytest.mark.parametrize("host", ["db.example.org", "8.8.8.8", "[2600::1]"])
@pytest.mark.parametrize(("words", "is_warned"), [("", True), ("?sslmode=prefer", True), ("?sslmode=require", False)])
def test_a_public_way_to_postgresql_without_tls_is_warned_of(host: str, words: str, is_warned: bool) -> None:
    found = runtime._explain_missing_tls(Urls(f"postgresql://u:pw@{host}/precis{words}", f"rediss://:pw@{host}/0"))
    assert len(found) == is_warned
    assert all(line.startswith("PRECIS_DATABASE_URL connects to ") and "pw" not in line for line in found)


async def test_both_are_warned_of_at_the_start(settings: Settings, urls: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "is_inside", lambda _: False)
    with capture_logs() as logs:
        async with open_runtime(settings, urls, TEXTS) as opened:
            of_database, of_redis = opened.worker_context.warnings
    assert of_database.startswith("PRECIS_DATABASE_URL connects to ")
    assert of_redis.startswith("PRECIS_REDIS_URL connects to ")
    assert [line["what"] for line in logs if line["event"] == "start.warning"] == [of_database, of_redis]
