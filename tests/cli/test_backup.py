"""`precis backup` and `precis restore`: the whole database in one file, and all of it or nothing."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from service.embedded import dumps
from service.errors import ConfigurationError
from service.runtime import open_servers
from service.settings import load
from service.storage import database
from tests.cli.conftest import Cli, says
from tests.conftest import Service, connected, drain
from tests.folders import temporary_folder
from tests.service.talk import Talk, row

Upgrade = Callable[[], tuple[str, str]]
NEXT = """
from alembic import op

revision, down_revision = "999", "{older}"


def upgrade():
    op.execute("alter table audit add column later text")
"""


@pytest.fixture
def upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upgrade]:
    """Called, this release becomes a later one with a migration more; returns the older revision and its own."""

    def to_the_next_release() -> tuple[str, str]:
        older, folder = database.find_newest_revision(), tmp_path / "migrations"
        shutil.copytree(database.MIGRATIONS, folder)
        (folder / "versions" / "999_later.py").write_text(NEXT.format(older=older))
        monkeypatch.setattr(database, "MIGRATIONS", folder)
        database.find_newest_revision.cache_clear()
        return older, database.find_newest_revision()

    yield to_the_next_release
    database.find_newest_revision.cache_clear()


async def revision(url: str) -> str:
    async with connected(url) as connection:
        return str(await connection.fetchval("select version_num from alembic_version"))


async def test_a_backup_brings_everything_back(cli: Cli, service: Service, tmp_path: Path) -> None:
    talk = Talk(service.as_filter)
    leaf = talk.turns(20)
    assert await talk.ingest(leaf)
    await drain(service.runtime)
    before = await talk.ask(leaf)
    file = tmp_path / "precis.dump"

    made = await cli("backup", str(file))
    assert made.exit_code == 0, made.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    says(await cli("backup", str(file)), "exists already")

    assert (await service.as_operator.delete("/v1/chats/chat-1")).status_code == 204
    assert (await talk.ask(leaf))["status"] == "pending"
    assert (await cli("restore", str(file), answer="n\n")).exit_code == 1
    assert (await talk.ask(leaf))["status"] == "pending"
    await service.stored()
    restored = await cli("restore", str(file), "--yes")
    assert restored.exit_code == 0, restored.output
    assert await talk.ask(leaf) == before
    assert os.listdir(tmp_path) == ["precis.dump"]


async def test_a_backup_of_an_older_version_is_migrated(
    cli: Cli, service: Service, tmp_path: Path, upgrade: Upgrade
) -> None:
    file = tmp_path / "old.dump"
    older, newest = upgrade()
    assert older in (await cli("retention")).stderr
    made = await cli("backup", str(file))
    assert made.exit_code == 0, made.output

    restored = await cli("restore", str(file), "--yes")

    assert restored.exit_code == 0, restored.output
    assert (await row(service.runtime, "select version_num from alembic_version")).version_num == newest


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with temporary_folder() as folder:
        yield folder / "data"


async def test_an_embedded_database_is_dumped_before_it_is_migrated_and_not_migrated_without(
    data_dir: Path, upgrade: Upgrade
) -> None:
    settings, backups = load(data_dir=data_dir), data_dir / "backups"
    async with open_servers(settings):
        pass
    older, newest = upgrade()
    assert not backups.exists(), "a new database has nothing to dump"
    backups.write_text("in the way")
    with pytest.raises(ConfigurationError, match=f"Make room in {backups}"):
        async with open_servers(settings):
            raise AssertionError("it was migrated")
    backups.unlink()
    backups.mkdir()
    earlier = [backups / f"2020010{day}T000000Z-0001-before-0002.dump" for day in range(1, 4)]
    for file in [*earlier, backups / "my own.dump"]:
        file.touch()

    with capture_logs() as logs:
        async with open_servers(settings) as urls:
            assert await revision(urls.database) == newest
            (told,) = [line for line in logs if line["event"] == "migration.dumped"]
            file = Path(told["file"])
            await dumps.load(urls.database, file)
            assert await revision(urls.database) == older, "the dump is of the time before"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.name.endswith(f"-{older}-before-{newest}.dump")
    kept = {path.name for path in backups.iterdir()}
    assert kept == {"my own.dump", file.name, earlier[1].name, earlier[2].name}


async def test_what_is_no_backup_changes_nothing(cli: Cli, service: Service, tmp_path: Path) -> None:
    talk = Talk(service.as_filter)
    await talk.ingest(talk.turns(3))
    file = tmp_path / "no.dump"
    file.write_text("something else")

    says(await cli("restore", str(file), "--yes"), "pg_restore failed")

    assert (await service.as_operator.get("/v1/chats")).json()["chats"][0]["chat_id"] == "chat-1"
