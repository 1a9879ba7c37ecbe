"""The matrix of versions and scenarios: what a run found, kept as JSON and shown as a table.

A scenario is a test of this folder; its result for a version is one of `RESULTS`. The JSON is
{version: {scenario: result}}. `python -m tests.e2e.matrix` writes the table of `docs/compatibility.json` into
`docs/compatibility.md`.
"""

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.version import Version

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
JSON, PAGE = DOCS / "compatibility.json", DOCS / "compatibility.md"

PASS, FAIL, ABSENT = RESULTS = ("pass", "fail", "not in this version")
_SIGNS = {PASS: "✓", FAIL: "✗", ABSENT: "–", None: ""}
_BEGIN, _END = "<!-- matrix: written by `python -m tests.e2e.matrix` -->", "<!-- end of matrix -->"

Results = Mapping[str, Mapping[str, str]]


def scenarios() -> list[str]:
    """The names of all scenarios, in the order of files and tests."""
    files = ((file, ast.parse(file.read_text("utf-8"))) for file in sorted(HERE.glob("test_*.py")))
    return [
        name(file, node.name)
        for file, tree in files
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def name(file: Path, test: str) -> str:
    """What a test is called in the matrix: `chat tree: a regenerated answer …`."""
    return f"{file.stem.removeprefix('test_')}: {test.removeprefix('test_')}".replace("_", " ")


def merged(old: Results, version: str, found: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The results with those of a run; a run of some scenarios leaves the others as they were."""
    known = scenarios()
    rows = {**old.get(version, {}), **found}
    mine = {one: rows[one] for one in known if one in rows}
    columns = {**old, version: mine}
    return {one: dict(columns[one]) for one in sorted(columns, key=Version, reverse=True)}


def table(results: Results) -> str:
    """The results as a table in Markdown, the newest version first."""
    columns = sorted(results, key=Version, reverse=True)
    lines = [_row("scenario", columns), _row("---", [":-:"] * len(columns))]
    lines += [_row(one, (_SIGNS[results[column].get(one)] for column in columns)) for one in scenarios()]
    return "\n".join(lines)


def page(text: str, results: Results) -> str:
    """The page with the table of these results in its place."""
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n{table(results)}\n{_END}{after}"


def _row(first: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"


def read(path: Path) -> dict[str, dict[str, str]]:
    """The results in a file; none when there is no file."""
    found: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(path: Path, results: Results) -> None:
    """Writes the results to a file."""
    path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8"), read(JSON)), "utf-8")
