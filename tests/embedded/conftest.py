"""Folders that the servers' account can reach, one of them with data, and services that run in them."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from service.embedded.folder import list_servers
from service.embedded.servers import run_embedded_servers
from tests.embedded.folders import Launcher, remember


@pytest.fixture
async def launch() -> AsyncIterator[Launcher]:
    launcher = Launcher()
    yield launcher
    await launcher.close()


@pytest.fixture(scope="session")
def _workshop() -> Iterator[Path]:
    """A folder that everybody can pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="precis-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(_workshop: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=_workshop))
    folder.chmod(0o711)
    return folder


@pytest.fixture
def new(place: Path) -> Iterator[Path]:
    """Where a data folder can be made; no server may be left in it."""
    yield place / "precis data"
    assert list_servers(place) == []


@pytest.fixture(scope="session")
def _made(_workshop: Path) -> Path:
    async def make() -> None:
        async with run_embedded_servers(_workshop / "made", fast=True) as servers:
            await remember(servers, "from the first start")

    asyncio.run(make())
    return _workshop / "made"


@pytest.fixture
def shared(_made: Path) -> Iterator[Path]:
    """A data folder in which `remember` has been called; no server runs in it between tests."""
    yield _made
    assert list_servers(_made) == []
