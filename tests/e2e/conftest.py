"""One Open WebUI with Precis for all scenarios of a run, and the matrix at its end.

These tests run by `scripts/e2e`; pytest does not come here by itself.
"""

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from packaging.version import Version
from playwright.async_api import Browser, Page, async_playwright
from pytest_asyncio import is_async_test

from tests.e2e import matrix
from tests.e2e.browser import CHROMIUM, FLAGS, PATIENCE
from tests.e2e.model import model_server
from tests.e2e.openwebui import open_webui
from tests.e2e.precis import keep_facts, precis
from tests.e2e.rig import WINDOW, Rig
from tests.e2e.tab import Tab
from tests.e2e.tab import tab as open_tab
from tests.e2e.versions import NEWEST
from tests.fakes.scripted_llm import scripted_llm

SETTINGS = {"BYPASS_MODEL_ACCESS_CONTROL": "true", "ENABLE_CHANNELS": "true"}  # for users who are no admins
_FOUND = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--openwebui", metavar="VERSION", default=NEWEST, help="The Open WebUI to run the scenarios on.")
    parser.addoption("--matrix", metavar="PATH", type=Path, help="A JSON file to write the results into.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FOUND] = {}
    config.addinivalue_line("markers", "since(version, why): the scenario exists from this Open WebUI on.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All in one event loop, with the servers; what a version does not have is skipped by its declared reason."""
    running = Version(config.getoption("--openwebui"))
    for item in items:
        if is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        for mark in item.iter_markers("since"):
            version, why = mark.args
            # A version of Open WebUI cannot show what it has not; the table says so of each file.
            if running < Version(version):
                item.add_marker(pytest.mark.skip(reason=f"{matrix.ABSENT}: since {version}, {why}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    found = item.config.stash[_FOUND]
    file = matrix.name(item.path)
    if report.skipped and matrix.ABSENT in str(report.longrepr):
        found[file] = matrix.worse(matrix.ABSENT, found.get(file))
    elif report.failed or report.skipped:
        found[file] = matrix.FAIL
    elif report.when == "call":
        found[file] = matrix.worse(matrix.PASS, found.get(file))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    version, found, path = config.getoption("--openwebui"), config.stash[_FOUND], config.getoption("--matrix")
    results = matrix.merged(matrix.read(path) if path else {}, version, found)
    if path:
        matrix.write(path, results)
    terminalreporter.section("Open WebUI versions, by file of scenarios")
    terminalreporter.write_line(matrix.table(results))


@pytest.fixture(scope="session")
def version(pytestconfig: pytest.Config) -> str:
    """The version of Open WebUI that is running."""
    return str(pytestconfig.getoption("--openwebui"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(version: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """Everything, started once, with the filter installed."""
    folder = tmp_path_factory.mktemp("openwebui")
    async with scripted_llm() as summariser, model_server() as model, precis(summariser.openai_url, WINDOW) as service:
        summariser.default = keep_facts
        async with open_webui(version, folder, model.url, environment=SETTINGS) as server:
            rig = Rig(version, model, summariser, service, server, await server.sign_up("admin"))
            await rig.install()
            yield rig


@pytest_asyncio.fixture(loop_scope="session")
async def rig(running: Rig) -> AsyncIterator[Rig]:
    """Everything, as it was at the beginning but for the chats of earlier tests."""
    running.model.reset()
    running.summariser.requests.clear()
    yield running
    await running.valves()
    await running.window()
    assert "error" not in await running.reach()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(rig: Rig) -> AsyncIterator[Tab]:
    """A browser tab of the admin."""
    async with open_tab(rig.admin) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, rig: Rig) -> AsyncIterator[Page]:
    """A page of the admin, without what is new in this version."""
    context = await browser.new_context(viewport={"width": 1100, "height": 720})
    opened = await context.new_page()
    opened.set_default_timeout(PATIENCE)
    await opened.goto(rig.server.url)
    await opened.evaluate("token => localStorage.setItem('token', token)", rig.admin.token)
    await rig.admin.post("/api/v1/users/user/settings/update", {"ui": {"version": rig.version}})
    yield opened
    await context.close()
    await rig.admin.post("/api/v1/users/user/settings/update", {"ui": {}})  # the page keeps more in it


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("E2E_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
