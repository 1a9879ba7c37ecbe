"""The wheel alone: what `pip install .` and `uvx --from .` give somebody who has no checkout."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("service", "workers", "filter_stub", "migrations")  # docs/adr/0001-embedded-servers.md
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PRECIS_", "PYTHON"))}

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    ended = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def played(said: str) -> bool:
    """Whether the demonstration came to its end, with requests that fit."""
    largest = re.search(r"largest request with Precis +([\d,]+) tokens", said)
    return bool(largest and int(largest[1].replace(",", "")) < 100_000)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an empty environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


def test_it_has_every_file_of_its_four_packages_and_no_other_name(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    there = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == there


def test_it_installs_and_plays_the_demonstration_without_a_checkout(wheel: Path, python: Path, tmp_path: Path) -> None:
    # In the versions that are tested otherwise too; a hash in constraints would be asked of the wheel as well.
    pins = re.findall(r"(?m)^[a-z0-9][^\\\n]*", (ROOT / "requirements.runtime.lock").read_text(encoding="utf-8"))
    (tmp_path / "constraints").write_text("\n".join(re.sub(r"\[.*?\]", "", pin) for pin in pins))
    run(python, "-m", "pip", "install", "--quiet", "--constraint", tmp_path / "constraints", wheel, cwd=tmp_path)

    said = run(python.with_name("precis"), "demo", cwd=tmp_path)

    assert played(said), said


def test_uvx_runs_it_from_the_project(tmp_path: Path) -> None:
    uvx = Path(sys.executable).with_name("uvx")

    said = run(uvx, "--isolated", "--from", ROOT, "precis", "demo", cwd=tmp_path)

    assert played(said), said
