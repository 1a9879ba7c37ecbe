"""The Dockerfile and the .dockerignore, read by BuildKit's rules. No Docker engine is needed."""

import tomllib
from pathlib import Path

import pytest
from e2b_dockerfile_utils import PatternMatcher, parse_dockerfile_ast

ROOT = Path(__file__).parents[2]
FILE = ROOT / "Dockerfile"
INSTRUCTIONS = parse_dockerfile_ast(FILE.read_text(encoding="utf-8")).instructions
IGNORED = PatternMatcher(
    [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
)


SOURCES = [source for one in INSTRUCTIONS if one.name == "COPY" and not one.flags for source in one.args[:-1]]


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_copied_exists_and_is_not_ignored(source: str) -> None:
    place = ROOT / source
    files = [place] if place.is_file() else list(place.rglob("*.py"))

    assert files
    assert not [one for one in files if IGNORED.matches(one.relative_to(ROOT).as_posix())]


def test_everything_that_the_wheel_is_made_of_is_copied() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = told["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    wanted += [told["project"]["readme"], *told["project"]["license-files"], "pyproject.toml"]

    assert {file.partition("/")[0] for file in wanted} <= set(SOURCES)
