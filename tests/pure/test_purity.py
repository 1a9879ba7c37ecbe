"""The pure modules do no I/O and ask no clock; import-linter checks what they import, this what they call."""

import ast
from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "service"
AWAITING = {"reading", "summarise"}  # name or await what a summariser does, and do nothing else
PACKAGES = ("transcript", "text", "planning", "summarising", "request")
MODULES = ("processes/intake.py", "processes/materials.py")
PURE = [
    *(SERVICE / name for name in MODULES),
    *(path for name in PACKAGES for path in sorted((SERVICE / name).rglob("*.py")) if path.stem not in AWAITING),
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


@pytest.mark.parametrize("module", PURE, ids=lambda path: str(path.relative_to(SERVICE)))
def test_pure_modules_do_no_io(module: Path) -> None:
    assert impurities(module.read_text(encoding="utf-8")) == []
