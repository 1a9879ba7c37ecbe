"""What is written agrees with what is there: settings, routes, problems, links."""

import re
import runpy
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import lxml.html
import pytest

from filter_stub import precis_action, precis_events, precis_filter, precis_recall
from filter_stub.precis_filter import Filter
from service import __version__, errors
from service.app import create_app
from service.settings import OF_COMMANDS, PREFIX, Settings, load
from tests.conftest import Service

ROOT = Path(__file__).parents[2]
OPEN = {"/livez", "/metrics", "/readyz", "/version"}
PAGES = sorted(path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
API = create_app(load()).openapi()
OPERATIONS = [(path, method, one) for path, methods in API["paths"].items() for method, one in methods.items()]
NAMES = [f"{method} {path}" for path, method, _ in OPERATIONS]


@pytest.mark.parametrize(("make", "page"), [("as_markdown", "docs/settings.md"), ("as_env", ".env.example")])
def test_the_pages_of_settings_are_what_the_script_writes(make: str, page: str) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "settings.py"))

    written = (ROOT / page).read_text(encoding="utf-8")
    assert written == script[make](), "run scripts/settings"


def test_every_setting_that_a_page_names_exists() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in (*Settings.model_fields, *OF_COMMANDS)}
    for page in PAGES:
        named = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", page.read_text(encoding="utf-8")))
        unknown = {name for name in named if name.removesuffix("_FILE") not in known} - {f"{PREFIX}X_FILE", PREFIX}
        assert not unknown, page.name


def test_a_page_has_every_valve_with_its_default() -> None:
    page = (ROOT / "docs" / "howto" / "openwebui.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ?`?([^`|]*?)`? \|", page, re.MULTILINE))

    assert rows == {
        name: str(field.default).replace("True", "true").replace("False", "false")
        for name, field in Filter.Valves.model_fields.items()
    }


@pytest.mark.parametrize("function", [precis_filter, precis_events, precis_action, precis_recall])
def test_the_service_and_its_functions_have_one_version(function: ModuleType) -> None:
    manifest = re.search(r"^version: (.+)$", function.__doc__ or "", re.MULTILINE)

    assert manifest
    assert manifest[1] == __version__ == getattr(function, "VERSION", __version__)


def anchors(page: Path) -> set[str]:
    """What `#…` behind a link to this page may name: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_between_pages_leads_to_a_page_and_a_heading_of_it() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8"))
        for target, anchor in links:
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(there), f"{page.name} links to {target}#{anchor}"


def test_every_file_that_a_page_names_exists() -> None:
    rooms = "deploy|service|workers|filter_stub|migrations|tests|benchmarks|scripts"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        folders = re.findall(rf"`((?:{rooms})/[\w/]*)`", text)
        files = re.findall(rf"\b(?:{rooms})/[\w/]+\.py\b", text)
        for name in (*folders, *files):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=NAMES)
def test_every_route_says_what_it_does_and_needs_and_how_it_fails(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    assert operation["summary"]
    assert operation["description"], f"{method} {path} has no docstring"
    assert operation["tags"]
    if path not in OPEN:
        assert "application/problem+json" in operation["responses"]["4XX"]["content"]
    assert any(status.startswith("2") for status in operation["responses"])
    assert operation.get("security", []) == ([] if path in OPEN else [{"API key": []}]), "the page sends a key"
    if method in ("put", "patch") or path.endswith(("/compress", "/turns", "/recall", "/reset")):
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]
        assert schema["additionalProperties"] is False


async def test_the_page_of_the_api_shows_all_of_it_and_loads_nothing_from_elsewhere(service: Service) -> None:
    async with httpx.AsyncClient(base_url=service.url) as client:
        answer = await client.get("/docs")
        description = (await client.get("/openapi.json")).json()
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//|<script>|style=""", answer.text)
    shown = " ".join(lxml.html.fromstring(answer.text).text_content().split())
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in answer.text
            assert " ".join(operation["description"].replace("`", "").split()) in shown
            for one in operation.get("parameters", []):
                assert f"<code>{one['name']}</code>" in answer.text
    for name, schema in description["components"]["schemas"].items():
        assert f'id="{name}"' in answer.text
        for field in schema.get("properties", {}):
            assert f"<code>{field}</code>" in answer.text


def test_every_type_of_problem_is_its_own_and_on_the_page_of_the_api() -> None:
    words = {kind.value[0] for kind in errors.ProblemType}
    assert len(words) == len(errors.ProblemType)
    described = API["components"]["schemas"]["ProblemBody"]["properties"]["type"]["description"]
    assert all("`{}` ({})".format(*kind.value) in described for kind in errors.ProblemType)
