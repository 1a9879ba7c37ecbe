"""Commands that run often, or before anything is set up, import only what they need."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from service.runtime import Urls

HEAVY = ("sqlalchemy", "asyncpg", "alembic", "fastapi", "uvicorn", "arq", "tiktoken", "httpx", "service.runtime")
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
    program = [sys.executable, "-c", PROGRAM, command]
    return subprocess.run(program, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("command", ["--version", "version", "--help", "config", "healthcheck"])
def test_a_light_command_loads_neither_database_nor_server(command: str) -> None:
    environment = {"PRECIS_PORT": "1"}  # nobody answers on it
    ended = run(command, environment)
    assert (ended.returncode != 0) == (command == "healthcheck"), ended.stderr
    assert "service.cli.main" in ended.stderr
    assert not set(HEAVY) & set(ended.stderr.split())


HELP_OF_ALL = """
import json, sys
from typer.testing import CliRunner
from service.cli.main import _COMMANDS, _load, app

def helped(words, command, shown):
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0, words
    shown[" ".join(words)] = list(sys.modules)
    for name, part in getattr(command, "commands", {}).items():
        helped([*words, name], part, shown)

shown = {}
for name in _COMMANDS:
    helped([name], _load(name), shown)
print(json.dumps(shown))
"""


def test_the_help_of_no_command_loads_what_only_its_work_needs() -> None:
    ended = subprocess.run([sys.executable, "-c", HELP_OF_ALL], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    loaded = json.loads(ended.stdout)
    assert {"chats list", "keys rotate", "serve", "config"} <= loaded.keys()
    heavy = {*HEAVY, "msgspec", "pydantic_settings"}  # typer itself loads pydantic
    too_much = {command: heavy & set(modules) for command, modules in loaded.items()}
    assert {command: modules for command, modules in too_much.items() if modules} == {}


async def test_status_asks_a_running_database_with_little_loaded(urls: Urls) -> None:
    environment = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis}

    ended = await asyncio.to_thread(run, "status", environment)

    assert ended.returncode == 0, ended.stderr
    assert "0 due" in ended.stdout
    assert "asyncpg" in ended.stderr.split()
    assert not (set(HEAVY) - {"asyncpg"}) & set(ended.stderr.split())


def test_status_says_with_little_loaded_that_there_is_no_database(tmp_path: Path) -> None:
    ended = run("status", {"PRECIS_DATA_DIR": str(tmp_path)})

    assert "there is no database of Precis" in ended.stderr
    assert not (set(HEAVY) - {"asyncpg"}) & set(ended.stderr.split())
