"""What the scenarios of this folder found on each version of Open WebUI, by file: JSON and a table.

A file passes when each of its scenarios passes or is not in that version. The JSON is {version: {file: result}};
`python -m tests.e2e.matrix` writes the table of `docs/compatibility.json` into `docs/compatibility.md`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
JSON, PAGE = DOCS / "compatibility.json", DOCS / "compatibility.md"

# The first of these that a scenario has is the result of its file.
FAIL, PASS, ABSENT = RESULTS = ("fail", "pass", "not in this version")
_SIGNS = {PASS: "✓", FAIL: "✗", ABSENT: "–", None: ""}
_BEGIN, _END = "<!-- by `python -m tests.e2e.matrix` -->", "<!-- end -->"

Results = Mapping[str, Mapping[str, str]]


def files() -> list[str]:
    """The names of all files of scenarios, such as `chat tree`."""
    return sorted(name(path) for path in HERE.glob("test_*.py"))


def name(path: Path) -> str:
    """What a file is called in the table."""
    return path.stem.removeprefix("test_").replace("_", " ")


def worse(one: str, other: str | None) -> str:
    """The result of two scenarios together."""
    return one if other is None else min(one, other, key=RESULTS.index)


def merged(old: Results, version: str, found: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The results with those of a run; files that it left out stay as they were."""
    rows = {**old.get(version, {}), **found}
    columns = {**old, version: {file: rows[file] for file in files() if file in rows}}
    return {one: dict(columns[one]) for one in sorted(columns, key=Version, reverse=True)}


def table(results: Results) -> str:
    """The results as a table in Markdown, the newest version first."""
    versions = sorted(results, key=Version, reverse=True)
    lines = [["scenarios", *versions], ["---", *[":-:"] * len(versions)]]
    ran = [file for file in files() if any(file in results[one] for one in versions)]
    lines += [[file, *(_SIGNS[results[one].get(file)] for one in versions)] for file in ran]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def page(text: str, results: Results) -> str:
    """The page with the table of these results in its place."""
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}\n{table(results)}\n{_END}{rest.partition(_END)[2]}"


def read(path: Path) -> dict[str, dict[str, str]]:
    """The results in a file; none when there is no file."""
    found: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(path: Path, results: Results) -> None:
    """Writes the results to a file."""
    path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8"), read(JSON)), "utf-8")
