"""Runs commands as a shell would: on the database of the test, or asking its service."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from click.testing import CliRunner, Result

from service.cli import app
from service.runtime import Urls
from tests.conftest import Service

Cli = Callable[..., Coroutine[Any, Any, Result]]


async def run(environment: dict[str, str], *arguments: str, answer: str = "") -> Result:
    """Runs a command with these variables."""
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment, input=answer)


@pytest.fixture
def cli(urls: Urls) -> Cli:
    """Runs a command on the database of this test; keyword arguments are environment variables."""

    async def on_database(*arguments: str, answer: str = "", **variables: str) -> Result:
        environment = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis}
        return await run(environment | variables, *arguments, answer=answer)

    return on_database


@pytest.fixture
def precis(service: Service) -> Cli:
    """Runs a command that asks the service of this test, as an operator."""

    async def asking(*arguments: str, answer: str = "", **variables: str) -> Result:
        environment = {"PRECIS_URL": service.url, "PRECIS_KEY": service.operator_key}
        return await run(environment | variables, *arguments, answer=answer)

    return asking


def says(result: Result, *parts: str) -> None:
    """One clear line on stderr, and status 1."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("precis: ")
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for part in parts:
        assert part in result.stderr
