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


@pytest.mark.parametrize("command", ["--version", "--help", "healthcheck", "chats list", "status"])
async def test_a_light_command_loads_neither_database_nor_server_nor_settings(service: Service, command: str) -> None:
    environment = {"PRECIS_URL": service.url, "PRECIS_KEY": service.operator_key, "PRECIS_PORT": "1"}
    program = [sys.executable, "-c", PROGRAM, *command.split()]
    ended = await asyncio.to_thread(subprocess.run, program, capture_output=True, text=True, env=environment)
    # Nobody answers on the port.
    assert (ended.returncode != 0) == (command == "healthcheck"), ended.stderr
    assert "service.cli.main" in ended.stderr
    assert not HEAVY & set(ended.stderr.split())
