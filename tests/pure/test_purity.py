"""The pure modules do no I/O and ask no clock; import-linter checks what they import, this what they call."""

import ast
from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "service"
WITH_IO = {"clients", "reading", "summarisers", "writing"}  # all but the first only name or await coroutines
PURE = [
    *sorted((SERVICE / "transcript").glob("*.py")),
    SERVICE / "intake.py",
    SERVICE / "texts" / "rounds.py",
    *(
        SERVICE / f"{name}.py"
        for name in ("tokens", "planning", "serving", "languages", "secrets", "correction", "edit", "windows")
    ),
    *(path for path in sorted((SERVICE / "summarising").rglob("*.py")) if path.stem not in WITH_IO),
    *sorted((SERVICE / "text").glob("*.py")),
]
BUILT_IN = {"open", "print", "input", "exec", "eval"}
METHODS = {
    "now",
    "utcnow",
    "today",
    "time",
    "time_ns",
    "monotonic",
    "perf_counter",
    "write_text",
    "write_bytes",
    "urandom",
}


def impurities(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            found.append(f"line {node.lineno}: async")
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(name) if name in BUILT_IN:
                    found.append(f"line {node.lineno}: {name}()")
                case ast.Attribute(attr=name) if name in METHODS:
                    found.append(f"line {node.lineno}: .{name}()")
    return found


@pytest.mark.parametrize("module", PURE, ids=lambda path: path.stem)
def test_pure_modules_do_no_io(module: Path) -> None:
    assert impurities(module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("source", ["async def f(): ...", "open('x')", "datetime.now()", "date.today()", "time.time()"])
def test_the_check_finds_what_it_looks_for(source: str) -> None:
    assert impurities(source)
