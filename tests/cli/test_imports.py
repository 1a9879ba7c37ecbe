"""Commands that run often, or before anything is set up, import only what they need."""

import subprocess
import sys

import pytest

HEAVY = ("sqlalchemy", "asyncpg", "alembic", "fastapi", "uvicorn", "arq", "tiktoken", "service.runtime")
PROGRAM = """
import sys
from service.cli import app
try:
    app()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["--version", "version", "--help", "config", "healthcheck"])
def test_a_light_command_loads_neither_database_nor_server(command: str) -> None:
    environment = {"PRECIS_PORT": "1"}  # nobody answers on it
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, command], capture_output=True, text=True, env=environment, check=False
    )
    assert (ended.returncode != 0) == (command == "healthcheck"), ended.stderr
    assert "service.cli.main" in ended.stderr
    assert not set(HEAVY) & set(ended.stderr.split())


def test_status_loads_no_server() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, "status", "--help"], capture_output=True, text=True, env={}, check=True
    )
    assert not {"fastapi", "workers.worker"} & set(ended.stderr.split())
