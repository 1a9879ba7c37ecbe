"""Filter and events function as files: what Open WebUI demands of them when an admin pastes them."""

import ast
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from filter_stub import precis_action, precis_events, precis_filter
from service.demo.host import load_filter

MODULES = (precis_filter, precis_events, precis_action)
SOURCES = {module: Path(str(module.__file__)).read_text("utf-8") for module in MODULES}
HOOKS = ("inlet", "request", "outlet")  # `stream` would be called for each chunk of an answer
either = pytest.mark.parametrize("module", SOURCES, ids=lambda module: module.__name__)


@either
def test_the_front_matter_is_complete_and_asks_for_no_packages(module: ModuleType) -> None:
    source = SOURCES[module]
    assert source.startswith('"""\n')  # Open WebUI reads it line by line from the very first line on
    lines = source.split('"""')[1].strip().splitlines()
    keys = dict(re.fullmatch(r"([a-z_]+): (.+)", line).groups() for line in lines)  # type: ignore[union-attr, misc]
    assert set(keys) == {"title", "author", "description", "version", "required_open_webui_version", "license"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", keys["version"])


@either
@pytest.mark.parametrize("phrase", ["from utils", "from main", "from config", "from apps"])
def test_no_phrase_that_open_webui_rewrites(module: ModuleType, phrase: str) -> None:
    """It replaces these in the whole text, comments and strings included."""
    assert phrase not in SOURCES[module]


def test_every_hook_is_a_coroutine_and_every_argument_that_open_webui_may_leave_out_has_a_default() -> None:
    loaded = load_filter("http://127.0.0.1:1", "key")
    assert not hasattr(loaded, "stream")
    for hook in (getattr(loaded, name) for name in HOOKS):
        assert inspect.iscoroutinefunction(hook)
        for name, parameter in inspect.signature(hook).parameters.items():
            assert name == "body" or (name.startswith("__") and parameter.default is None)


@either
def test_it_imports_only_what_every_open_webui_has(module: ModuleType) -> None:
    tree = ast.parse(SOURCES[module])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for name in names:
                root = name.partition(".")[0]
                if root == "open_webui":
                    assert node not in tree.body, "Open WebUI's modules are imported when they are needed"
                else:
                    assert root in sys.stdlib_module_names or root in ("httpx", "pydantic", "sqlalchemy")


def test_the_valves_are_a_model_with_defaults_and_descriptions() -> None:
    loaded = load_filter("http://127.0.0.1:1", "key")
    assert issubclass(loaded.Valves, BaseModel)
    loaded.Valves()
    for name, field in loaded.Valves.model_fields.items():
        assert field.description, name
    assert loaded.Valves.model_json_schema()["properties"]["api_key"]["input"] == {"type": "password"}
    assert not hasattr(loaded, "file_handler")
    assert not hasattr(loaded, "toggle")


@pytest.mark.parametrize(("module", "most"), [(precis_filter, 1355), (precis_events, 176), (precis_action, 330)])
def test_it_is_small_enough_to_be_read(module: ModuleType, most: int) -> None:
    assert len(SOURCES[module].splitlines()) <= most
