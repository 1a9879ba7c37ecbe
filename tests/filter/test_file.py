"""Filter, events function, action and tool as files: what Open WebUI demands of them when an admin pastes them."""

import ast
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from filter_stub import precis_action, precis_events, precis_filter, precis_recall
from tests.filter.functions import load

KINDS = {precis_filter: "Filter", precis_events: "Event", precis_action: "Action", precis_recall: "Tools"}
SOURCES = {module: Path(str(module.__file__)).read_text("utf-8") for module in KINDS}
HOOKS = {  # what Open WebUI calls, with the arguments that it always gives; `stream` it would call for each chunk
    precis_filter: (("inlet", "request", "outlet"), {"body"}),
    precis_events: (("event",), {"event"}),
    precis_action: (
        ("action",),
        {"body", "__id__", "__user__", "__model__", "__request__", "__event_call__", "__event_emitter__"},
    ),
    precis_recall: (("precis_recall",), set[str]()),
}
each = pytest.mark.parametrize("module", SOURCES, ids=lambda module: module.__name__)


@each
def test_the_front_matter_is_complete_and_asks_for_no_packages(module: ModuleType) -> None:
    source = SOURCES[module]
    assert source.startswith('"""\n')  # Open WebUI reads it line by line from the very first line on
    lines = source.split('"""')[1].strip().splitlines()
    keys = dict(re.fullmatch(r"([a-z_]+): (.+)", line).groups() for line in lines)  # type: ignore[union-attr, misc]
    assert set(keys) == {"title", "author", "description", "version", "required_open_webui_version", "license"}
    for phrase in ("from utils", "from main", "from config", "from apps"):  # Open WebUI rewrites these in the text
        assert phrase not in source


@each
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
                    assert root in sys.stdlib_module_names or root in ("httpx", "orjson", "pydantic", "sqlalchemy")


@each
def test_open_webui_finds_one_kind_of_function_in_it_and_calls_it_with_what_it_has(module: ModuleType) -> None:
    assert {"Pipe", *KINDS.values()} & set(vars(module)) == {KINDS[module]}
    loaded = load(module, KINDS[module])
    hooks, always = HOOKS[module]
    assert not {"stream", "file_handler", "toggle"} & set(dir(loaded))
    for hook in (getattr(loaded, name) for name in hooks):
        assert inspect.iscoroutinefunction(hook)
        for name, parameter in inspect.signature(hook).parameters.items():
            assert name in always or parameter.default is not parameter.empty


def test_a_model_is_offered_no_other_method_of_the_tool() -> None:
    loaded = load(precis_recall, "Tools")
    members = [getattr(loaded, name) for name in dir(loaded) if not name.startswith("_")]
    functions = [one.__name__ for one in members if callable(one) and not inspect.isclass(one)]
    assert functions == ["precis_recall"]


@pytest.mark.parametrize("module", [precis_filter, precis_events], ids=lambda module: module.__name__)
def test_every_valve_has_a_default_and_a_description_and_the_key_is_hidden(module: ModuleType) -> None:
    valves = load(module, KINDS[module]).Valves
    valves()
    for name, field in valves.model_fields.items():
        assert field.description, name
    assert valves.model_json_schema()["properties"]["api_key"]["input"] == {"type": "password"}


@pytest.mark.parametrize("module", [precis_filter, precis_events], ids=lambda module: module.__name__)
async def test_the_proxy_of_the_environment_is_not_used(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with httpx.AsyncClient(mounts=module.DIRECT) as http:
        for url in ("http://precis", "https://precis"):
            assert http._transport_for_url(httpx.URL(url)) is http._transport, url
