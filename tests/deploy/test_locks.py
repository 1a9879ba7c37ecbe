"""The lock files: what the image installs is what was tested, and no more than it needs."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def locked(name: str) -> dict[str, str]:
    """Package → the whole pin: version, markers and hashes."""
    pins = re.split(r"(?m)^(?=\w)", (ROOT / name).read_text(encoding="utf-8"))[1:]
    return {canonicalize_name(re.split(r"[=\[]", pin)[0]): re.sub(r"(?m)^ *#.*\n?", "", pin) for pin in pins}


@pytest.mark.parametrize("name", ["requirements.runtime.lock", "requirements.build.lock"])
def test_the_image_gets_the_versions_and_hashes_that_are_tested(name: str) -> None:
    tested = locked("requirements.lock")

    for package, pin in locked(name).items():
        head, _, hashes = pin.partition("\\\n")
        assert head.split(" ")[0] == tested[package].split(" ")[0], "run ./scripts/lock"
        assert hashes == tested[package].partition("\\\n")[2], "run ./scripts/lock"


@pytest.mark.parametrize(
    ("name", "group"),
    [("requirements.lock", "dev"), ("requirements.build.lock", "build"), ("requirements.runtime.lock", None)],
)
def test_every_dependency_is_locked_in_a_version_that_it_allows(name: str, group: str | None) -> None:
    pins, project = locked(name), tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = project["dependency-groups"][group] if group else project["project"]["dependencies"]

    for wanted in (Requirement(one) for one in named if isinstance(one, str)):
        pin = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(re.findall(r"==([^\s;]+)", pin)[0]), "run ./scripts/lock"


def test_nothing_of_the_tests_gets_into_the_image() -> None:
    assert not {"hatchling", "mypy", "pytest", "ruff"} & set(locked("requirements.runtime.lock"))
