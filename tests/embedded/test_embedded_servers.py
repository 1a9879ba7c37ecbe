"""Both servers for real: what they are like, and what is left when all is over."""

import asyncio
import os
import pwd
import stat
from pathlib import Path

import asyncpg
import psutil
import pytest
from redis.asyncio import Redis

from service.embedded.account import choose_account
from service.embedded.folder import list_servers
from service.embedded.postgres import MAJOR
from service.embedded.servers import run_embedded_servers
from tests.embedded.folders import AS_ROOT, NOBODY, database, launched, names, remember, remembered, said
from tests.waiting import until


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def groups(pid: int) -> list[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(gid) for line in lines if line.startswith("Groups:") for gid in line.split()[1:]]


async def test_a_first_start_makes_a_database_that_the_role_owns(place: Path) -> None:
    os.chmod(place, 0o751)
    async with run_embedded_servers(place) as servers:
        connection = await database(servers.database)
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


async def test_the_queue_keeps_every_job_or_refuses_it(shared: Path) -> None:
    async with (
        run_embedded_servers(shared) as servers,
        Redis.from_url(servers.redis, decode_responses=True) as queue,
    ):
        found = await queue.config_get("appendonly", "appendfsync", "maxmemory-policy")
    assert found == {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}


async def test_only_loopback_listens(shared: Path) -> None:
    async with run_embedded_servers(shared, fast=True):
        listening = [
            connection.laddr.ip
            for process in list_servers(shared)
            for connection in process.net_connections("all")
            if connection.status == psutil.CONN_LISTEN
        ]
    assert listening == ["127.0.0.1"] * 2


async def test_strangers_and_the_superuser_cannot_log_in(shared: Path) -> None:
    async with run_embedded_servers(shared, fast=True) as servers:
        own = servers.database.split("//")[1].split("@")[0]
        for other in ("precis:wrong", "postgres:postgres", "postgres:" + own.split(":")[1]):
            with pytest.raises(asyncpg.InvalidPasswordError):
                await database(servers.database.replace(own, other))


@pytest.mark.slow
async def test_passwords_and_files_are_private_and_what_lies_above_is_left_alone(
    new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_API_KEY", "a key of the service")
    before = mode(new.parent), new.parent.stat().st_uid
    async with run_embedded_servers(new, fast=True) as servers:
        running = list_servers(new)
        seen = " ".join(f"{process.cmdline()} {process.environ()}" for process in running)
    assert (mode(new.parent), new.parent.stat().st_uid) == before
    assert [mode(new / name) for name in ("database", "valkey")] == [0o700] * 2
    assert [mode(new / f"{name}.password") for name in ("postgres", "valkey")] == [0o600] * 2
    assert mode(new) == (0o711 if AS_ROOT else 0o700)
    logs = "".join((new / name).read_text() for name in names(new, "*.log"))
    assert len(running) >= 2
    assert "a key of the service" not in seen
    for name in ("postgres", "valkey"):
        password = (new / f"{name}.password").read_text()
        assert len(password) >= 32
        assert password not in seen + logs + repr(servers)


@pytest.mark.skipif(not AS_ROOT, reason="only root has a user to drop to")
async def test_as_root_the_servers_are_unprivileged(shared: Path) -> None:
    own_groups = os.getgroups()
    os.setgroups([0, 4])
    try:
        async with run_embedded_servers(shared, fast=True):
            running = list_servers(shared)
            uids = {uid for process in running for uid in process.uids()}
            gids = {gid for process in running for gid in (*process.gids(), *groups(process.pid))}
    finally:
        os.setgroups(own_groups)
    assert uids == {NOBODY}
    assert gids == {pwd.getpwuid(NOBODY).pw_gid}


def test_a_folder_first_used_by_an_ordinary_user_stays_with_that_user(tmp_path: Path) -> None:
    user = 12_345 if AS_ROOT else os.geteuid()
    os.chown(tmp_path, user, -1)

    account = choose_account(tmp_path)

    assert (account.uid if account else os.geteuid()) == user


async def test_after_kill_9_of_the_service_both_servers_vanish_and_the_data_is_there(shared: Path) -> None:
    async with launched(shared) as service:
        await said(service)
        assert {process.name() for process in list_servers(shared)} == {"postgres", "valkey-server"}
    async with run_embedded_servers(shared, fast=True) as servers:  # at once: it must wait for the old ones
        assert await remembered(servers) == ["from the first start"] * 2
    await until(lambda: not list_servers(shared))


async def test_a_killed_server_is_told_and_postgres_recovers_at_the_next_start(shared: Path) -> None:
    async with run_embedded_servers(shared, fast=True) as servers:
        psutil.Process(int((shared / "database" / "postmaster.pid").read_text().split()[0])).kill()
        assert servers.died
        error = await asyncio.wait_for(servers.died, 120)
        assert "PostgreSQL stopped (exit code -9)" in str(error)
    async with run_embedded_servers(shared, fast=True) as servers:
        assert await remembered(servers) == ["from the first start"] * 2
        next(process for process in list_servers(shared) if process.name() == "valkey-server").kill()
        assert servers.died
        assert "Valkey stopped (exit code -9)" in str(await asyncio.wait_for(servers.died, 120))


async def test_a_stop_is_a_clean_one_and_no_death(shared: Path) -> None:
    async with run_embedded_servers(shared, fast=True) as servers:
        pass
    assert servers.died
    assert servers.died.cancelled()
    assert "database system is shut down" in (shared / "postgres.log").read_text()
    assert "ready to exit" in (shared / "valkey.log").read_text()


async def test_a_server_that_ignores_the_gentle_signal_is_ended_all_the_same(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.embedded.process.STOP", 0.05)
    async with run_embedded_servers(shared, fast=True):
        next(process for process in list_servers(shared) if process.name() == "valkey-server").suspend()
    await until(lambda: list_servers(shared) == [])


async def test_a_cancelled_first_start_leaves_nothing_half_made(new: Path) -> None:
    async def run() -> None:
        async with run_embedded_servers(new, fast=True):
            pass

    task = asyncio.create_task(run())
    await until(lambda: any(process.name() == "initdb" for process in list_servers(new)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list_servers(new) == []
    assert names(new, "postgres*/") == []


@pytest.mark.slow
async def test_a_first_start_that_was_killed_is_begun_again(new: Path) -> None:
    async with launched(new):
        await until(lambda: (new / "postgres.new" / "PG_VERSION").exists())
    assert not (new / "database").exists()
    async with run_embedded_servers(new, fast=True) as servers:
        await remember(servers, "works")
    assert names(new, "postgres.new") == []


async def test_a_pid_file_whose_number_is_another_programs_by_now_is_no_obstacle(shared: Path) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "60", user=NOBODY if AS_ROOT else None)
    file = shared / "database" / "postmaster.pid"
    file.write_text(f"{bystander.pid}\n{file.parent}\n")
    try:
        async with run_embedded_servers(shared, fast=True) as servers:
            assert await remembered(servers)
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()
