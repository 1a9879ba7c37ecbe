"""Commands start fast: they import only what they need."""

import asyncio
import subprocess
import sys

import pytest

from tests.conftest import Service

HEAVY = {
    *("sqlalchemy", "asyncpg", "alembic", "fastapi", "uvicorn", "arq", "tiktoken", "httpx", "asyncio", "rich"),
    *("pydantic", "msgspec", "service.runtime", "service.settings"),
}
PROGRAM = """
import sys
from service.cli import app
try:
    app()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def run(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own; stderr ends with the modules that it loaded."""
    program = [sys.executable, "-c", PROGRAM, *command.split()]
    return subprocess.run(program, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("command", ["--version", "--help", "healthcheck"])
def test_a_light_command_loads_neither_database_nor_server_nor_settings(command: str) -> None:
    ended = run(command, {"PRECIS_PORT": "1"})  # nobody answers on it
    assert (ended.returncode != 0) == (command == "healthcheck"), ended.stderr
    assert "service.cli.main" in ended.stderr
    assert not HEAVY & set(ended.stderr.split())


@pytest.mark.parametrize("command", ["chats list", "status"])
async def test_a_command_that_asks_the_service_loads_as_little(service: Service, command: str) -> None:
    asking = {"PRECIS_URL": service.url, "PRECIS_KEY": service.operator_key}
    ended = await asyncio.to_thread(run, command, asking)
    assert ended.returncode == 0, ended.stderr
    assert not HEAVY & set(ended.stderr.split())
