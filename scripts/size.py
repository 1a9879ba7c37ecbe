"""Counts what is to be kept small, and compares it with `sizes.toml`: see `scripts/size`."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from statistics import median_high

from service.settings import Settings

SIZES = Path("sizes.toml")
ROOMS = ("service", "workers", "filter_stub", "migrations", "tests", "benchmarks")
PRODUCT = ("service", "workers", "filter_stub")


def tracked(pattern: str) -> list[Path]:
    """The files of this pattern that git knows and that are still there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        check=True,
        capture_output=True,
        text=True,
    )
    return [Path(name) for name in listed.stdout.splitlines() if Path(name).exists()]


def lines() -> dict[str, int]:
    """Lines of Python and SQL by top-level folder, and by room of `service`."""
    counted: Counter[str] = Counter()
    for path in [*tracked("*.py"), *tracked("*.sql")]:
        if path.parts[0] not in ROOMS:
            continue
        number = len(path.read_text().splitlines())
        for room in rooms_of(path):
            counted[room] += number
    return dict(sorted(counted.items()))


def rooms_of(path: Path) -> list[str]:
    """The top-level folder of a file, and its room in `service`."""
    top = path.parts[0]
    if top != "service":
        return [top]
    room = path.parts[1] if len(path.parts) > 2 else "."
    return [top, f"{top}/{room}"]


def densities() -> dict[str, float]:
    """How dense the code of each room is: two numbers.

    The first is the number of syntax nodes that the middle function has in its body, without its
    docstring. The second is the number of such nodes for each line of all bodies. Nested functions
    count by themselves too.
    """
    functions: dict[str, list[tuple[int, int]]] = {}
    for path in tracked("*.py"):
        if path.parts[0] not in PRODUCT:
            continue
        measured = [
            measure(node)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for room in rooms_of(path):
            functions.setdefault(room, []).extend(measured)
    sizes: dict[str, float] = {}
    for room, measured in sorted(functions.items()):
        nodes = [number for number, _ in measured]
        body_lines = [number for _, number in measured]
        sizes[f"nodes a function, {room}"] = median_high(nodes)
        sizes[f"nodes a line, {room}"] = round(sum(nodes) / sum(body_lines), 1)
    return sizes


def measure(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """The syntax nodes and the lines of a function's body without its docstring."""
    has_docstring = ast.get_docstring(function) is not None and len(function.body) > 1
    body = function.body[1:] if has_docstring else function.body
    nodes = sum(1 for statement in body for _ in ast.walk(statement))
    end = function.end_lineno or body[0].lineno
    return nodes, end - body[0].lineno + 1


def counts() -> dict[str, int]:
    """Words of all Markdown, settings, and what an installation needs."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    return {
        "words": sum(len(path.read_text().split()) for path in tracked("*.md")),
        "settings": len(Settings.model_fields),
        "dependencies": len(project["dependencies"]),
    }


def written(sizes: dict[str, float]) -> str:
    """`sizes.toml`."""
    head = "# What scripts/size allows, and its rule.\n"
    return head + "".join(f'"{name}" = {number}\n' for name, number in sizes.items())


def main(lower: bool) -> int:
    """The exit status: 1 when something is larger than it may be."""
    allowed = tomllib.loads(SIZES.read_text()) if SIZES.exists() else {}
    sizes: dict[str, float] = lines() | counts() | densities()
    if lower:
        kept = {name: min(number, allowed.get(name, number)) for name, number in sizes.items()}
        SIZES.write_text(written(kept))
    over = [name for name, number in sizes.items() if number > allowed.get(name, number)]
    for name in over:
        print(
            f"precis: {name} has {sizes[name]}, sizes.toml allows {allowed[name]}", file=sys.stderr
        )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(lower="--lower" in sys.argv[1:]))
