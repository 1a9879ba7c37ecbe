"""The compose file's processes, started by its own commands on a new database: from `migrate` to a summary."""

import asyncio
import os
import socket
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from click.testing import CliRunner, Result
from sqlalchemy import make_url

from service.cli import app
from service.runtime import Urls
from tests.conftest import drop_database, execute
from tests.constants import precis
from tests.service.talk import Talk
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
PRECIS = precis(debounce=0)
Environment = dict[str, str]


@pytest_asyncio.fixture(loop_scope="function")
async def environment(servers: Urls, tmp_path: Path) -> AsyncIterator[Environment]:
    """What the compose file sets, for an empty database of this test and a free port."""
    name = f"deploy_{uuid.uuid4().hex[:12]}"
    database = make_url(servers.database).set(database=name, drivername="postgresql")
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as another:
        port, worker_port = free.getsockname()[1], another.getsockname()[1]
    (tmp_path / "database_url").write_text(database.render_as_string(hide_password=False))
    (tmp_path / "redis_url").write_text(servers.redis)
    (tmp_path / "operator_key").write_text(f"precis_op_{uuid.uuid4().hex}{uuid.uuid4().hex}")
    ours = {
        "PRECIS_HOST": "127.0.0.1",
        "PRECIS_PORT": str(port),
        "PRECIS_DATABASE_URL_FILE": str(tmp_path / "database_url"),
        "PRECIS_REDIS_URL_FILE": str(tmp_path / "redis_url"),
        "PRECIS_KEY_FILE": str(tmp_path / "operator_key"),
    }
    assert set(ours) == set(SERVICES["api"]["environment"])
    ours["PRECIS_WORKER_PORT"] = str(worker_port)
    await execute(servers.database, f"create database {name}")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PRECIS_")}
    yield plain | ours | {"PYTHONUNBUFFERED": "1", "PRECIS_WINDOW": "8192"}
    await drop_database(servers.database, name)


async def started(environment: Environment, *words: str) -> asyncio.subprocess.Process:
    pipe = subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *PRECIS, *words, env=environment, cwd=ROOT, stdout=pipe, stderr=subprocess.STDOUT
    )


async def run(environment: Environment, *words: str) -> tuple[int | None, str]:
    process = await started(environment, *words)
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def in_process(environment: Environment, *words: str) -> Result:
    """The same without a process: a start takes a second."""
    return await asyncio.to_thread(CliRunner().invoke, app, words, env=environment)


async def until_greeted(stdout: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Its lines up to the greeting; none when it ends before."""
    seen: list[bytes] = []
    async for line in stdout:
        seen.append(line)
        if line.startswith(b"Precis "):
            for one in seen:
                yield one
            return


@asynccontextmanager
async def running(environment: Environment, *services: str) -> AsyncIterator[None]:
    """Services of the compose file; stopped as compose stops them, they end well."""
    processes = [await started(environment, *SERVICES[service]["command"]) for service in services]
    try:
        for process in processes:
            assert process.stdout
            # Lines of the log may come before it.
            lines = [line.decode() async for line in until_greeted(process.stdout)]
            assert lines, "it ended without a greeting"
        yield
    finally:
        for process in processes:
            process.terminate()
        said = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(services), said


@pytest.mark.slow
async def test_a_fleet_starts_in_the_order_of_the_compose_file_and_summarises(environment: Environment) -> None:
    health = SERVICES["api"]["healthcheck"]["test"][2:]
    early = await in_process(environment, *health)
    assert early.exit_code == 1
    assert early.stderr.startswith(f"precis: no answer from http://127.0.0.1:{environment['PRECIS_PORT']}/readyz")
    status, said = await run(environment, *SERVICES["migrate"]["command"])
    assert status == 0, said

    async with running(environment, "api", "worker"):
        everywhere = environment | {"PRECIS_HOST": SERVICES["api"]["environment"]["PRECIS_HOST"]}
        assert await run(everywhere, *health) == (0, "")
        assert await run(everywhere, *SERVICES["worker"]["healthcheck"]["test"][2:]) == (0, "")
        made = await in_process(environment, "keys", "create", "--scope", "filter")
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        url = f"http://127.0.0.1:{environment['PRECIS_PORT']}"
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120) as client:
            await summarised(client)


async def summarised(client: httpx.AsyncClient) -> None:
    """Hands a chat over and waits for the summary that the worker writes."""
    talk = Talk(client, window=8192)
    leaf = talk.turns(14)
    assert await talk.ingest(leaf)

    async def ready() -> bool:
        return bool((await talk.ask(leaf))["status"] == "ready")

    await until(ready)
