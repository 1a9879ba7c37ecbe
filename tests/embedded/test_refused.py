"""What stops a start: it is named, nothing is harmed, and what was there is still there."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.embedded import postgres
from service.embedded.folder import claim_folder, list_servers
from service.embedded.process import find_free_port
from service.embedded.servers import run_embedded_servers
from service.errors import EmbeddedServerError
from tests.embedded.folders import AS_ROOT, NOBODY, launched, names, remembered, said
from tests.waiting import until


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


async def refusal(folder: Path) -> str:
    with pytest.raises(EmbeddedServerError) as refused:
        async with run_embedded_servers(folder, fast=True):
            pass
    assert list_servers(folder) == []
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


async def test_another_major_is_refused_before_anything_is_touched(shared: Path) -> None:
    with containing(shared / "database" / "PG_VERSION", "17\n"):
        before = contents(shared)
        message = await refusal(shared)
        assert contents(shared) == before
    assert "made by PostgreSQL 17" in message
    assert "precis backup" in message


async def test_a_folder_that_is_no_cluster_is_refused_and_left_alone(shared: Path) -> None:
    with missing(shared / "database" / "PG_VERSION"):
        before = contents(shared / "database")
        assert "holds no PostgreSQL data" in await refusal(shared)
        assert contents(shared / "database") == before


async def test_a_folder_that_another_service_uses_is_refused(tmp_path: Path) -> None:
    async with claim_folder(tmp_path / "data"):
        with pytest.raises(EmbeddedServerError, match="another Precis"):
            async with claim_folder(tmp_path / "data"):
                pass


@pytest.mark.slow
async def test_a_foreign_server_in_the_folder_is_named_and_not_harmed(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.embedded.folder.STOPPING", 0.1)
    foreign = await asyncio.create_subprocess_exec(
        *(postgres.find_binary(), "-D", shared / "database", "-k", "", "-p", str(find_free_port())),
        stderr=subprocess.DEVNULL,
        user=NOBODY if AS_ROOT else None,
    )
    pid_file = shared / "database" / "postmaster.pid"
    try:
        await until(lambda: pid_file.exists() and "ready" in pid_file.read_text())
        with pytest.raises(EmbeddedServerError, match=f"in use by pid {foreign.pid}"):
            async with run_embedded_servers(shared, fast=True):
                pass
        assert foreign.returncode is None
    finally:
        foreign.terminate()
        await foreign.wait()
    async with run_embedded_servers(shared, fast=True) as servers:
        assert await remembered(servers) == ["from the first start"] * 2


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("database/postgresql.conf", "nonsense = 1\n", 'unrecognized configuration parameter "nonsense"'),
        ("valkey/appendonlydir/appendonly.aof.manifest", "nonsense\n", "AOF manifest"),
    ],
)
async def test_the_servers_own_words_are_in_the_error(shared: Path, file: str, content: str, told: str) -> None:
    with containing(shared / file, content):
        assert told in await refusal(shared)


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
    assert f"nobody, who cannot enter {private} " in message
    assert list(private.iterdir()) == []
    assert private.stat().st_mode & 0o777 == 0o700


async def test_a_first_start_without_room_leaves_nothing(new: Path) -> None:
    async with launched(new, 1_000_000) as service:  # no file above 1 MB: the first log segment has 16
        assert "initdb failed" in await said(service)
        await service.wait()
    assert names(new, "postgres*/") == []
    async with run_embedded_servers(new, fast=True):
        pass
