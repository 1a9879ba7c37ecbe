"""Folders that the servers' account can reach, one of them with data."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.embedded.folder import list_servers
from service.embedded.servers import run_embedded_servers
from tests.embedded.folders import remember
from tests.folders import temporary_folder


@pytest.fixture
def place() -> Iterator[Path]:
    with temporary_folder() as folder:
        yield folder


@pytest.fixture
def new(place: Path) -> Iterator[Path]:
    """Where a data folder can be made; no server may be left in it."""
    yield place / "precis data"
    assert list_servers(place) == []


@pytest.fixture(scope="session")
def _made() -> Iterator[Path]:
    async def make() -> None:
        async with run_embedded_servers(folder / "made", fast=True) as servers:
            await remember(servers, "from the first start")

    with temporary_folder() as folder:
        asyncio.run(make())
        yield folder / "made"


@pytest.fixture
def shared(_made: Path) -> Iterator[Path]:
    """A data folder in which `remember` has been called; no server runs in it between tests."""
    yield _made
    assert list_servers(_made) == []
