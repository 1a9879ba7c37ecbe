"""One Open WebUI with Precis for all scenarios of a run, and the matrix at its end.

These tests run by `scripts/e2e` alone: without its option `--openwebui VERSION` nothing here is collected.
"""

from collections.abc import Generator
from pathlib import Path

import pytest
from packaging.version import Version
from pytest_asyncio import is_async_test

from tests.e2e import matrix

_FOUND = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--openwebui", metavar="VERSION", help="The version of Open WebUI to run the scenarios on.")
    parser.addoption("--matrix", metavar="PATH", type=Path, help="A JSON file to write the results into.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FOUND] = {}
    config.addinivalue_line("markers", "since(version, why): the scenario exists from this Open WebUI on.")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.getoption("--openwebui", default=None) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All in one event loop, with the servers; what a version does not have is skipped by its declared reason."""
    running = Version(config.getoption("--openwebui"))
    for item in items:
        if is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        for mark in item.iter_markers("since"):
            version, why = mark.args
            if running < Version(version):
                item.add_marker(pytest.mark.skip(reason=f"{matrix.ABSENT}: since {version}, {why}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    found = item.config.stash[_FOUND]
    name = matrix.name(item.path, getattr(item, "originalname", item.name))
    if report.skipped and matrix.ABSENT in str(report.longrepr):
        found.setdefault(name, matrix.ABSENT)
    elif report.failed or report.skipped:
        found[name] = matrix.FAIL
    elif report.when == "call":
        found.setdefault(name, matrix.PASS)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    version, found, path = config.getoption("--openwebui"), config.stash[_FOUND], config.getoption("--matrix")
    results = matrix.merged(matrix.read(path) if path else {}, version, found)
    if path:
        matrix.write(path, results)
    terminalreporter.section("Open WebUI versions and scenarios")
    terminalreporter.write_line(matrix.table(results))
