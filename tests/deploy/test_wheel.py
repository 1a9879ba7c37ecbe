"""The wheel alone: what `pip install .` and `uvx --from .` give somebody who has no checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
PACKAGES = ("service", "workers", "filter_stub", "migrations")  # docs/adr/0001-embedded-servers.md
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PRECIS_", "PYTHON"))}

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    ended = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_it_has_every_file_of_its_four_packages_and_no_other_name(tmp_path: Path) -> None:
    run(UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    there = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == there


def test_it_plays_the_demonstration_without_a_checkout(tmp_path: Path) -> None:
    said = run(UV, "tool", "run", "--isolated", "--from", ROOT, "precis", "demo", cwd=tmp_path)

    assert "largest request with Precis" in said
