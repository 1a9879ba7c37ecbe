"""Counts what is to be kept small, and compares it with `sizes.toml`: see `scripts/size`."""

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from service.settings import Settings

SIZES = Path("sizes.toml")
ROOMS = ("service", "workers", "filter_stub", "migrations", "tests", "benchmarks")


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
        counted[path.parts[0]] += number
        if path.parts[0] == "service":
            room = path.parts[1] if len(path.parts) > 2 else "."
            counted[f"service/{room}"] += number
    return dict(sorted(counted.items()))


def counts() -> dict[str, int]:
    """Words of all Markdown, settings, and what an installation needs."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    return {
        "words": sum(len(path.read_text().split()) for path in tracked("*.md")),
        "settings": len(Settings.model_fields),
        "dependencies": len(project["dependencies"]),
    }


def written(sizes: dict[str, int]) -> str:
    """`sizes.toml`."""
    head = "# What scripts/size allows, and its rule.\n"
    return head + "".join(f'"{name}" = {number}\n' for name, number in sizes.items())


def main(lower: bool) -> int:
    """The exit status: 1 when something is larger than it may be."""
    allowed = tomllib.loads(SIZES.read_text()) if SIZES.exists() else {}
    sizes = lines() | counts()
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
