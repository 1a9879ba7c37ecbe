"""Commands start fast: they import only what they need."""

import asyncio
import json
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


@pytest.mark.parametrize("command", ["chats list", "status", "keys list", "stats"])
async def test_a_command_that_asks_the_service_loads_as_little(service: Service, command: str) -> None:
    asking = {"PRECIS_URL": service.url, "PRECIS_KEY": service.operator_key}
    ended = await asyncio.to_thread(run, command, asking)
    assert ended.returncode == 0, ended.stderr
    assert not HEAVY & set(ended.stderr.split())


HELP_OF_ALL = """
import json, sys
from click.testing import CliRunner
from service.cli import app

def helped(words, command, shown):
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0, words
    shown[" ".join(words)] = list(sys.modules)
    for name, part in getattr(command, "commands", {}).items():
        helped([*words, name], part, shown)

shown = {}
helped([], app, shown)
print(json.dumps(shown))
"""


def test_the_help_of_no_command_loads_what_only_its_work_needs() -> None:
    ended = subprocess.run([sys.executable, "-c", HELP_OF_ALL], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    loaded = json.loads(ended.stdout)
    assert {"chats list", "keys rotate", "serve", "config"} <= loaded.keys()
    too_much = {command: HEAVY & set(modules) for command, modules in loaded.items()}
    assert {command: modules for command, modules in too_much.items() if modules} == {}
