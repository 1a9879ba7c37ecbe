"""`precis serve` as a process of its own, with embedded servers: its start, its end, and its neighbours."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from service.embedded.folder import list_servers
from service.embedded.urls import find_announcement, read_announcement
from service.runtime import Urls as ServerUrls
from tests.constants import precis as precis_with
from tests.folders import temporary_folder
from tests.service.talk import Talk
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PRECIS = precis_with(debounce=0)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A data folder, shared by the tests of this file."""
    with temporary_folder() as place:
        yield place / "data"
        assert list_servers(place) == []


def environment(folder: Path, **more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PRECIS_")}
    ours = {"PRECIS_DATA_DIR": str(folder), "COLUMNS": "200"}
    return plain | ours | {"PYTHONWARNINGS": "error::ResourceWarning"} | more


@dataclass
class Precis:
    """A running `precis serve`."""

    process: asyncio.subprocess.Process
    url: str = ""
    said: str = ""

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal; returns the exit status, with what else was said kept in `said`."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(120):
            rest, _ = await self.process.communicate()
        self.said += rest.decode()
        assert self.process.returncode is not None
        return self.process.returncode


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Precis]:
    process = await asyncio.create_subprocess_exec(
        *(*PRECIS, "serve", "--port", "0"),
        env=environment(folder),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    precis = Precis(process)
    try:
        assert process.stdout
        async with asyncio.timeout(120):
            while not precis.url and (line := (await process.stdout.readline()).decode()):
                precis.said += line
                if found := re.search(r"on (http://\S+),", line):
                    precis.url = found[1]
        assert precis.url, precis.said
        yield precis
    finally:
        await precis.end()


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PRECIS, *arguments], env=environment(folder, **more), cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def keys_in(said: str) -> list[str]:
    return re.findall(r"precis_\w{2}_\S{43}", said)


def one_line(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 1, finished.stdout + finished.stderr
    lines = [line for line in finished.stderr.splitlines() if line.startswith("precis: ")]
    assert len(lines) == 1, finished.stderr
    assert "Traceback" not in finished.stderr
    return lines[0]


@pytest.mark.slow
async def test_commands_find_a_service_by_its_folder_and_starts_make_no_more_keys(folder: Path) -> None:
    """The story of a first day, in one test because a first start takes seconds."""
    async with serving(folder) as precis:
        async with httpx.AsyncClient(base_url=precis.url, timeout=120) as http:
            state = await http.get("/readyz")
            assert (state.status_code, state.json()["status"]) == (200, "ok")
        at_work = list_servers(folder)
        assert at_work
        about = find_announcement(folder)
        assert about
        assert about["address"] == precis.url, "what `precis install-filter` takes"
        assert stat.S_IMODE((folder / "running.json").stat().st_mode) == 0o600, "it has passwords"

        # Commands on the folder find the service and a key.
        path = folder / "operator-key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await asyncio.to_thread(keys_listed, folder) == ["the file operator-key"]

        # A second service on the same folder is refused, and the first goes on.
        second = one_line(await asyncio.to_thread(run, folder, "serve", "--port", "0"))
        assert str(folder) in second
        assert "in use" in second

        assert await precis.end() == 0
    assert f"{path} has an operator key" in precis.said
    assert "`precis install-filter` installs the filter" in precis.said
    assert keys_in(precis.said) == []
    (operator,) = keys_in(path.read_text())
    assert operator.startswith("precis_op_")
    assert list_servers(folder) == []
    assert not (folder / "running.json").exists()
    left = await asyncio.to_thread(run, folder, "chats", "list")
    assert f"no Precis runs on {folder}" in one_line(left)

    # The second start keeps the key, and with one for the filter chats are worked on.
    async with serving(folder) as precis:
        assert path.read_text().strip() == operator
        made = await asyncio.to_thread(run, folder, "keys", "create", "--scope", "filter")
        (key,) = keys_in(made.stdout)
        async with httpx.AsyncClient(
            base_url=precis.url, headers={"Authorization": f"Bearer {key}"}, timeout=120
        ) as http:
            talk = Talk(http, window=8192)
            leaf = talk.turns(20)
            assert await talk.ingest(leaf)

            async def ready() -> bool:
                return bool((await talk.ask(leaf))["status"] == "ready")

            await until(ready)
        assert (await asyncio.to_thread(run, folder, "keys", "revoke", "1")).returncode == 0
        assert await precis.end(signal.SIGINT) == 0
    assert "operator key" not in precis.said
    assert "Traceback" not in precis.said

    # One that was revoked is replaced.
    async with serving(folder) as precis:
        assert path.read_text().strip() != operator
        assert (await asyncio.to_thread(keys_listed, folder)).count("the file operator-key") == 2


def keys_listed(folder: Path) -> list[str]:
    listed = run(folder, "keys", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    return [one["name"] for one in json.loads(listed.stdout)["keys"]]


async def test_a_taken_port_is_one_clear_line(tmp_path: Path, urls: ServerUrls) -> None:
    given = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        line = one_line(await asyncio.to_thread(run, tmp_path, "serve", "--port", str(port), **given))

    assert f"127.0.0.1:{port}" in line
    assert "PRECIS_PORT" in line


@pytest.mark.slow
async def test_an_end_of_an_embedded_server_ends_the_service_with_a_clear_line(folder: Path) -> None:
    async with serving(folder) as precis:
        next(one for one in list_servers(folder) if "valkey" in one.name()).kill()
        async with asyncio.timeout(120):
            rest, _ = await precis.process.communicate()
    assert precis.process.returncode == 1
    (line,) = [one for one in rest.decode().splitlines() if one.startswith("precis: ")]
    assert "Valkey" in line
    assert list_servers(folder) == []


@pytest.mark.slow
async def test_a_command_without_a_running_service_starts_servers_for_its_time(folder: Path) -> None:
    made = await asyncio.to_thread(run, folder, "keys", "create", "--first")

    assert made.stdout.startswith("precis_op_")
    assert list_servers(folder) == []


def test_what_a_killed_service_left_behind_announces_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = {"pid": ended.pid, "database": "postgresql://db", "redis": "redis://queue"}
    (tmp_path / "running.json").write_text(json.dumps(left))

    assert read_announcement(tmp_path) is None
