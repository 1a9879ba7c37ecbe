"""Both servers for real: what they are like, what stops a start, what is left when all is over."""

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil
import pytest
from redis.asyncio import Redis

from service.embedded import Servers, embedded_servers, postgres
from service.embedded.cluster import MAJOR
from service.embedded.folder import SERVER_NAMES
from service.embedded.port import ATTEMPTS, PortTakenError, free_port, on_port
from service.errors import EmbeddedServerError
from tests.waiting import until

AS_ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody").pw_uid if AS_ROOT else os.geteuid()
REPOSITORY = Path(__file__).parents[2]
SITE_PACKAGES = Path(asyncpg.__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{SITE_PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"}
ORDINARY = "daemon"  # a user that is neither root nor the one that root's servers run as

# When our Python lies in a private folder of root's: show it elsewhere, to this one process only.
SHOWN_ELSEWHERE = """
mount --bind "$1" "$2"
export LD_LIBRARY_PATH="$2/lib"
shift 2
exec "$@"
"""


def servers_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() in SERVER_NAMES and Path(process.cwd()).is_relative_to(folder.resolve()):
                found.append(process)
    return found


async def remember(servers: Servers, what: str) -> None:
    connection = await database(servers.database_url)
    await connection.execute("CREATE TABLE IF NOT EXISTS notes (text text)")
    await connection.execute("INSERT INTO notes VALUES ($1)", what)
    await connection.close()
    async with Redis.from_url(servers.redis_url) as queue:
        await queue.set("note", what)


async def remembered(servers: Servers) -> list[str]:
    connection = await database(servers.database_url)
    rows = await connection.fetch("SELECT text FROM notes")
    await connection.close()
    async with Redis.from_url(servers.redis_url, decode_responses=True) as queue:
        return [row["text"] for row in rows] + [str(await queue.get("note"))]


async def database(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    return await asyncpg.connect(url.replace("+asyncpg", ""))


@dataclass
class Service:
    """A `running_service.py` in its own process."""

    process: asyncio.subprocess.Process

    async def says(self) -> dict[str, str]:
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), 30)
        facts: dict[str, str] = json.loads(line)
        return facts

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        await self.process.communicate()


class Launcher:
    def __init__(self) -> None:
        self._started: list[Service] = []

    async def __call__(self, data_dir: Path, *more: str, python: Sequence[str] = (sys.executable,)) -> Service:
        process = await asyncio.create_subprocess_exec(
            *python,
            str(REPOSITORY / "tests/embedded/running_service.py"),
            str(data_dir),
            *more,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=ENVIRONMENT,
        )
        self._started.append(Service(process))
        return self._started[-1]

    async def close(self) -> None:
        for service in self._started:
            await service.close()


@pytest.fixture
async def launch() -> AsyncIterator[Launcher]:
    launcher = Launcher()
    yield launcher
    await launcher.close()


@pytest.fixture(scope="session")
def _workshop() -> Iterator[Path]:
    """A folder that everybody can pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="precis-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(_workshop: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=_workshop))
    folder.chmod(0o711)
    return folder


@pytest.fixture
def new(place: Path) -> Iterator[Path]:
    """Where a data folder can be made; no server may be left in it."""
    yield place / "precis data"
    assert servers_in(place) == []


@pytest.fixture
def ordinary_python(place: Path) -> list[str]:
    """How to run our Python as an ordinary user."""
    if not AS_ROOT:
        return [sys.executable]
    user = pwd.getpwnam(ORDINARY)
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    shown = place / "python"
    shown.mkdir()
    elsewhere = ["unshare", "--mount", "sh", "-ec", SHOWN_ELSEWHERE, "sh", sys.base_prefix, str(shown)]
    base = str(shown / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    for command in ([*become, sys.executable], [*elsewhere, *become, base]):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            test = [*command, "-c", "import service.embedded"]
            subprocess.run(test, env=ENVIRONMENT, check=True, capture_output=True)
            return command
    pytest.skip(f"no Python here that the user {ORDINARY} can run")


@pytest.fixture(scope="session")
def _made(_workshop: Path) -> Path:
    async def make() -> None:
        async with embedded_servers(_workshop / "made", fast=True) as servers:
            await remember(servers, "from the first start")

    asyncio.run(make())
    return _workshop / "made"


@pytest.fixture
def shared(_made: Path) -> Iterator[Path]:
    """A data folder in which `remember` has been called; no server runs in it between tests."""
    yield _made
    assert servers_in(_made) == []


def copy(folder: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", folder, to], check=True)


@contextlib.contextmanager
def missing(file: Path) -> Iterator[None]:
    kept = file.rename(file.with_name(f"{file.name}.kept"))
    yield
    kept.replace(file)


@contextlib.contextmanager
def containing(file: Path, content: str) -> Iterator[None]:
    before = file.read_bytes()
    file.write_text(content)
    yield
    file.write_bytes(before)


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def postmaster(folder: Path) -> psutil.Process:
    return psutil.Process(int((folder / "postgres" / "postmaster.pid").read_text().split()[0]))


def groups(pid: int) -> list[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(gid) for line in lines if line.startswith("Groups:") for gid in line.split()[1:]]


async def refusal(folder: Path, **ports: int) -> str:
    with pytest.raises(EmbeddedServerError) as refused:
        async with embedded_servers(folder, fast=True, **ports):
            pass
    assert servers_in(folder) == []
    return str(refused.value)


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


async def starts(folder: Path) -> None:
    async with embedded_servers(folder, fast=True) as servers:
        assert await remembered(servers) == ["from the first start"] * 2


# Running


async def test_a_first_start_makes_a_database_that_the_role_owns(place: Path) -> None:
    os.chmod(place, 0o751)
    async with embedded_servers(place) as servers:
        connection = await database(servers.database_url)
        row = await connection.fetchrow(
            "SELECT pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datctype,"
            " current_setting('data_checksums'), current_setting('fsync'), current_user,"
            " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
            " FROM pg_database WHERE datname = current_database()"
        )
        version = await connection.fetchval("SHOW server_version")
        await connection.close()
    assert row
    assert tuple(row) == ("precis", "UTF8", "C", "C", "on", "on", "precis", False)
    assert version.startswith(f"{MAJOR}.")
    assert mode(place) == 0o751, "a folder that was there has lost its mode"


async def test_data_survives_a_restart(shared: Path) -> None:
    async with embedded_servers(shared, fast=True) as servers:
        assert await remembered(servers) == ["from the first start", "from the first start"]


async def test_the_queue_keeps_every_job_or_refuses_it(shared: Path) -> None:
    async with (
        embedded_servers(shared) as servers,
        Redis.from_url(servers.redis_url, decode_responses=True) as queue,
    ):
        found = await queue.config_get("appendonly", "appendfsync", "maxmemory-policy")
    assert found == {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}


async def test_given_ports_are_used(shared: Path, unused_tcp_port_factory: Callable[[], int]) -> None:
    ports = unused_tcp_port_factory(), unused_tcp_port_factory()
    async with embedded_servers(shared, postgres_port=ports[0], valkey_port=ports[1], fast=True) as servers:
        assert f"@127.0.0.1:{ports[0]}/precis" in servers.database_url
        assert f"@127.0.0.1:{ports[1]}/0" in servers.redis_url
        assert await remembered(servers)


async def test_only_loopback_listens(shared: Path) -> None:
    async with embedded_servers(shared, fast=True):
        listening = [
            connection.laddr.ip
            for process in servers_in(shared)
            for connection in process.net_connections("all")
            if connection.status == psutil.CONN_LISTEN
        ]
    assert listening == ["127.0.0.1"] * 2


async def test_strangers_and_the_superuser_cannot_log_in(shared: Path) -> None:
    async with embedded_servers(shared, fast=True) as servers:
        own = servers.database_url.split("//")[1].split("@")[0]
        for other in ("precis:wrong", "postgres:postgres", "postgres:" + own.split(":")[1]):
            with pytest.raises(asyncpg.InvalidPasswordError):
                await database(servers.database_url.replace(own, other))


async def test_passwords_and_files_are_private_and_what_lies_above_is_left_alone(
    new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_API_KEY", "a key of the service")
    before = mode(new.parent), new.parent.stat().st_uid
    async with embedded_servers(new, fast=True) as servers:
        running = servers_in(new)
        seen = " ".join(f"{process.cmdline()} {process.environ()}" for process in running)
    assert (mode(new.parent), new.parent.stat().st_uid) == before
    assert [mode(new / name) for name in ("postgres", "valkey")] == [0o700] * 2
    assert [mode(new / f"{name}.password") for name in ("postgres", "valkey")] == [0o600] * 2
    assert mode(new) == (0o711 if AS_ROOT else 0o700)
    said = "".join((new / name).read_text() for name in names(new, "*.log"))
    assert len(running) >= 2
    assert "a key of the service" not in seen
    for name in ("postgres", "valkey"):
        password = (new / f"{name}.password").read_text()
        assert len(password) >= 32
        assert password not in seen + said + repr(servers)


@pytest.mark.skipif(not AS_ROOT, reason="only root has a user to drop to")
async def test_as_root_the_servers_are_unprivileged(shared: Path) -> None:
    own_groups = os.getgroups()
    os.setgroups([0, 4])
    try:
        async with embedded_servers(shared, fast=True):
            running = servers_in(shared)
            uids = {uid for process in running for uid in process.uids()}
            gids = {gid for process in running for gid in (*process.gids(), *groups(process.pid))}
    finally:
        os.setgroups(own_groups)
    assert uids == {NOBODY}
    assert gids == {pwd.getpwuid(NOBODY).pw_gid}


async def test_an_ordinary_user_can_run_them_and_root_after_that(
    place: Path, launch: Launcher, ordinary_python: list[str]
) -> None:
    uid = pwd.getpwnam(ORDINARY).pw_uid if AS_ROOT else os.geteuid()
    os.chown(place, uid, -1)
    folder = place / "data"
    service = await launch(folder, python=ordinary_python)
    assert "database_url" in await service.says()
    assert {process.uids().real for process in servers_in(folder)} == {uid}
    await service.close()
    async with embedded_servers(folder, fast=True) as servers:
        await remember(servers, "still that user's")
        assert {process.uids().real for process in servers_in(folder)} == {uid}


async def test_after_kill_9_of_the_service_both_servers_vanish_and_the_data_is_there(
    shared: Path, launch: Launcher
) -> None:
    service = await launch(shared)
    await service.says()
    assert {process.name() for process in servers_in(shared)} == {"postgres", "valkey-server"}
    await service.kill()
    async with embedded_servers(shared, fast=True) as servers:  # at once: it must wait for the old ones
        assert await remembered(servers) == ["from the first start"] * 2
    await until(lambda: not servers_in(shared))


async def test_after_kill_9_nobody_needs_to_start_again_for_the_servers_to_vanish(
    shared: Path, launch: Launcher
) -> None:
    service = await launch(shared)
    await service.says()
    await service.kill()
    await until(lambda: not servers_in(shared))
    assert not (shared / "postgres" / "postmaster.pid").exists(), "PostgreSQL was not shut down cleanly"


async def test_a_killed_postgres_recovers_at_the_next_start(shared: Path) -> None:
    async with embedded_servers(shared, fast=True) as servers:
        postmaster(shared).kill()
        error = await asyncio.wait_for(servers.died, 10)
        assert "PostgreSQL stopped (exit code -9)" in str(error)
    async with embedded_servers(shared, fast=True) as servers:
        assert await remembered(servers) == ["from the first start"] * 2


async def test_the_death_of_valkey_is_told(shared: Path) -> None:
    async with embedded_servers(shared, fast=True) as servers:
        assert not servers.died.done()
        next(process for process in servers_in(shared) if process.name() == "valkey-server").kill()
        assert "Valkey stopped (exit code -9)" in str(await asyncio.wait_for(servers.died, 10))


async def test_a_stop_is_a_clean_one_and_no_death(shared: Path) -> None:
    async with embedded_servers(shared, fast=True) as servers:
        pass
    assert not servers.died.done()
    assert "database system is shut down" in (shared / "postgres.log").read_text()
    assert "ready to exit" in (shared / "valkey.log").read_text()


async def test_a_server_that_ignores_the_gentle_signal_is_ended_all_the_same(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.embedded.valkey.STOPS", ((signal.SIGCONT, 0.05),))
    async with embedded_servers(shared, fast=True):
        pass
    assert servers_in(shared) == []


async def test_a_cancelled_first_start_leaves_nothing_half_made(new: Path) -> None:
    async def run() -> None:
        async with embedded_servers(new, fast=True):
            pass

    task = asyncio.create_task(run())
    await until(lambda: any(process.name() == "initdb" for process in servers_in(new)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert servers_in(new) == []
    assert names(new, "postgres*/") == []


async def test_a_first_start_that_was_killed_is_begun_again(new: Path, launch: Launcher) -> None:
    service = await launch(new)
    await until(lambda: any(new.glob("postgres.new-*/PG_VERSION")))
    await service.kill()
    assert not (new / "postgres").exists()
    async with embedded_servers(new, fast=True) as servers:
        await remember(servers, "works")
    assert names(new, "postgres.new-*") == []


async def test_a_pid_file_whose_number_is_another_programs_by_now_is_no_obstacle(shared: Path) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "60", user=NOBODY if AS_ROOT else None)
    file = shared / "postgres" / "postmaster.pid"
    file.write_text(f"{bystander.pid}\n{file.parent}\n")
    try:
        async with embedded_servers(shared, fast=True) as servers:
            assert await remembered(servers)
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()


async def test_a_lost_race_for_a_free_port_is_run_again() -> None:
    tried: list[int] = []

    async def start(port: int) -> str:
        tried.append(port)
        if len(tried) < ATTEMPTS:
            raise PortTakenError("PostgreSQL", port)
        return "started"

    assert await on_port(None, start) == "started"
    assert len(tried) == ATTEMPTS


# Refused


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


async def test_a_taken_postgres_port_is_named(shared: Path, taken: int) -> None:
    assert f"PostgreSQL cannot listen on 127.0.0.1:{taken}" in await refusal(shared, postgres_port=taken)
    await starts(shared)


async def test_a_taken_valkey_port_is_named(shared: Path, taken: int) -> None:
    assert f"Valkey cannot listen on 127.0.0.1:{taken}" in await refusal(shared, valkey_port=taken)
    await starts(shared)


async def test_another_major_is_refused_before_anything_is_touched(shared: Path) -> None:
    with containing(shared / "postgres" / "PG_VERSION", "17\n"):
        before = contents(shared)
        message = await refusal(shared)
        assert contents(shared) == before
    assert "made by PostgreSQL 17" in message
    assert "pg_dump 17" in message
    assert "pg_upgrade" in message


async def test_a_folder_that_is_no_cluster_is_refused_and_left_alone(shared: Path) -> None:
    with missing(shared / "postgres" / "PG_VERSION"):
        before = contents(shared / "postgres")
        assert "holds no PostgreSQL data" in await refusal(shared)
        assert contents(shared / "postgres") == before


async def test_a_second_service_on_the_folder_is_refused_and_the_first_goes_on(shared: Path, launch: Launcher) -> None:
    async with embedded_servers(shared, fast=True) as servers:
        second = await launch(shared)
        assert f"in use by pid {os.getpid()}" in (await second.says())["error"]
        assert await remembered(servers) == ["from the first start"] * 2
        assert not servers.died.done()


async def test_a_foreign_server_in_the_folder_is_named_and_not_harmed(shared: Path) -> None:
    foreign = await asyncio.create_subprocess_exec(
        *(postgres.binary(), "-D", shared / "postgres", "-k", "", "-p", str(free_port())),
        stderr=subprocess.DEVNULL,
        user=NOBODY if AS_ROOT else None,
    )
    pid_file = shared / "postgres" / "postmaster.pid"
    try:
        await until(lambda: pid_file.exists() and "ready" in pid_file.read_text())
        with pytest.raises(EmbeddedServerError, match=f"in use by pid {foreign.pid}"):
            async with embedded_servers(shared, fast=True):
                pass
        assert foreign.returncode is None
    finally:
        foreign.terminate()
        await foreign.wait()
    await starts(shared)


async def test_the_servers_own_words_are_in_the_error(shared: Path) -> None:
    with containing(shared / "postgres" / "postgresql.conf", "nonsense = 1\n"):
        assert 'unrecognized configuration parameter "nonsense"' in await refusal(shared)


async def test_valkeys_own_words_are_in_the_error(shared: Path) -> None:
    with containing(shared / "valkey" / "appendonlydir" / "appendonly.aof.manifest", "nonsense\n"):
        assert "AOF manifest" in await refusal(shared)


async def test_a_lost_password_file_is_named(shared: Path) -> None:
    with missing(shared / "postgres.password"):
        message = await refusal(shared)
        assert not (shared / "postgres.password").exists()
    assert f"{shared / 'postgres.password'}, the password of the database" in message


async def test_a_wrong_password_file_is_named(shared: Path) -> None:
    with containing(shared / "postgres.password", "another"):
        assert "postgres.password" in await refusal(shared)


async def test_a_data_folder_that_cannot_be_made_is_named(place: Path) -> None:
    (place / "file").touch()
    assert str(place / "file") in await refusal(place / "file" / "data")


@pytest.mark.skipif(not AS_ROOT, reason="only root has a user to drop to, who could be kept out")
async def test_a_parent_that_the_unprivileged_user_cannot_enter_is_named(place: Path) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    message = await refusal(private / "deep" / "data")
    assert f"nobody, who cannot enter {private} (mode 0700)" in message
    assert list(private.iterdir()) == []
    assert private.stat().st_mode & 0o777 == 0o700


async def test_a_first_start_without_room_leaves_nothing(new: Path, launch: Launcher) -> None:
    service = await launch(new, "1000000")  # no file above 1 MB: the first log segment has 16
    assert "initdb failed" in (await service.says())["error"]
    await service.close()
    assert names(new, "postgres*/") == []
    async with embedded_servers(new, fast=True):
        pass


async def test_a_later_start_without_room_loses_nothing(shared: Path, launch: Launcher) -> None:
    service = await launch(shared, "4000")  # the pid file can be written, pg_control (8 KB) cannot
    message = (await service.says())["error"]
    assert "PostgreSQL did not start" in message
    assert "File too large" in message
    await service.close()
    await starts(shared)


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    disk = place / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160m,mode=0711", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount a small disk; the tests with a file size limit above do run")
    yield disk
    subprocess.run(["umount", disk], check=True)


def fill(disk: Path, *, leave: int = 0) -> Path:
    filler = disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - leave)
    return filler


async def test_a_full_disk_at_the_first_start_is_told(small_disk: Path) -> None:
    filler = fill(small_disk, leave=20_000_000)
    assert "No space left on device" in await refusal(small_disk / "data")
    assert names(small_disk / "data", "postgres*/") == []
    filler.unlink()
    async with embedded_servers(small_disk / "data", fast=True):
        pass


async def test_a_full_disk_at_a_later_start_is_told_and_nothing_is_lost(shared: Path, small_disk: Path) -> None:
    folder = small_disk / "data"
    copy(shared, folder)
    for log in folder.glob("*.log*"):
        log.unlink()  # or their room would be free at the start
    filler = fill(small_disk)
    assert "is full (0 MiB free)" in await refusal(folder)
    filler.unlink()
    await starts(folder)
