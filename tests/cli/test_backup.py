"""`precis backup` and `precis restore`: the whole database in one file, and all of it or nothing."""

import asyncio
import os
import stat
from pathlib import Path

from alembic import command

from service.storage.database import alembic_config
from service.storage.reading import newest
from tests.cli.conftest import Cli, says
from tests.conftest import Service, drain
from tests.service.talk import Talk, row


async def test_a_backup_brings_everything_back_also_over_an_older_schema(
    cli: Cli, service: Service, tmp_path: Path
) -> None:
    talk = Talk(service.as_filter)
    leaf = talk.turns(14)
    assert await talk.ingest(leaf)
    await drain(service.runtime)
    before = await talk.ask(leaf)
    file = tmp_path / "precis.dump"

    made = await cli("backup", str(file))
    assert made.exit_code == 0, made.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    says(await cli("backup", str(file)), "is there already")

    assert (await cli("chats", "delete", "chat-1", "--yes")).exit_code == 0
    assert (await talk.ask(leaf))["status"] == "unknown"
    assert (await cli("restore", str(file), answer="n\n")).exit_code == 1
    assert (await talk.ask(leaf))["status"] == "unknown"
    restored = await cli("restore", str(file), "--yes")
    assert restored.exit_code == 0, restored.output
    assert await talk.ask(leaf) == before
    assert os.listdir(tmp_path) == ["precis.dump"]


async def test_a_backup_of_an_older_version_is_migrated(cli: Cli, service: Service, tmp_path: Path) -> None:
    url, file = service.runtime.urls.database, tmp_path / "old.dump"
    await asyncio.to_thread(command.downgrade, alembic_config(url), "0012")
    assert "0012" in (await cli("chats", "list")).stderr
    made = await cli("backup", str(file))
    assert made.exit_code == 0, made.output

    restored = await cli("restore", str(file), "--yes")

    assert restored.exit_code == 0, restored.output
    assert (await row(service.runtime, "select version_num from alembic_version")).version_num == newest()


async def test_what_is_no_backup_changes_nothing(cli: Cli, service: Service, tmp_path: Path) -> None:
    talk = Talk(service.as_filter)
    await talk.ingest(talk.turns(3))
    file = tmp_path / "no.dump"
    file.write_text("something else")

    says(await cli("restore", str(file), "--yes"), "pg_restore failed")

    assert "chat-1" in (await cli("chats", "list")).stdout
