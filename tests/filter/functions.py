"""The events function, the action and the tool, loaded as Open WebUI 0.12.4 does it."""

from pathlib import Path
from types import ModuleType
from typing import Any


def load(module: ModuleType, kind: str, **valves: object) -> Any:
    """The text is executed in a module of its own; valves are set before each call."""
    file = Path(str(module.__file__))
    own = ModuleType(f"function_{file.stem}")
    exec(compile(file.read_text("utf-8"), str(file), "exec"), own.__dict__)
    loaded = own.__dict__[kind]()
    if hasattr(loaded, "Valves"):
        loaded.valves = loaded.Valves(**valves)
    return loaded
