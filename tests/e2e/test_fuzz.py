"""The random walks of `tests/filter`, on requests that Open WebUI's own functions make of the saved messages.

TEST_WALKS=700 scripts/e2e -k fuzz      # tries so many, each time others
"""

import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from service.embedded.urls import Urls
from tests.builders import Json
from tests.conftest import Service, fresh_database
from tests.e2e.versions import HERE, installed
from tests.filter.chat import no_log
from tests.filter.test_chat_trees import play, run_echoing, scripts, walks
from tests.filter.world import Setting

pytestmark = pytest.mark.since("0.12.0", "its functions are taken as they are there")

ENVIRONMENT = {"USE_SLIM_DOCKER": "true", "FROM_INIT_PY": "true", "OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1"}
ENVIRONMENT |= {"WEBUI_SECRET_KEY": "not-a-secret-of-tests", "ENABLE_DB_MIGRATIONS": "false"}


@contextlib.contextmanager
def functions_of(version: str, folder: Path) -> Iterator[Callable[..., list[Json]]]:
    """Open WebUI's own functions, in a process of its own: `native`."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "DATA_DIR": str(folder), **ENVIRONMENT}
    command = [installed(version) / "bin" / "python", HERE / "native.py"]
    pipes: Json = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, env=variables, **pipes) as process:

        def call(name: str, **given: object) -> list[Json]:
            assert process.stdin
            assert process.stdout
            process.stdin.write(json.dumps([name, given]) + "\n")
            process.stdin.flush()
            made: list[Json] = json.loads(process.stdout.readline())
            return made

        yield call
        process.kill()


@pytest.fixture(scope="module")
def openwebui(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[Json]]]:
    with functions_of(version, tmp_path_factory.mktemp("native")) as call:
        yield call


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def echoing(servers: Urls) -> AsyncIterator[Service]:
    async with fresh_database(servers) as urls, run_echoing(urls) as started:
        yield started


@walks
@scripts
async def test_nothing_is_wrong_with_any_request(
    echoing: Service,
    openwebui: Callable[..., list[Json]],
    setting: Setting,
    turns: int,
    steps: list[tuple[Any, ...]],
) -> None:
    with no_log():
        world = await play(echoing, setting, steps, turns, openwebui)
    assert world.requests
