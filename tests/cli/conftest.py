"""Runs commands as a shell would, on the database of the test."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from service.cli import app, shell
from service.runtime import Urls

Cli = Callable[..., Coroutine[Any, Any, Result]]


@pytest.fixture
def cli(urls: Urls, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command with the settings of this test; keyword arguments are environment variables."""
    monkeypatch.setattr(shell.console, "width", 200)

    async def run(*arguments: str, answer: str = "", **variables: str) -> Result:
        environment = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis} | variables
        return await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment, input=answer)

    return run


def says(result: Result, *parts: str) -> None:
    """One clear line on stderr, and status 1."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("precis: ")
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for part in parts:
        assert part in result.stderr
