"""A real, unpatched Open WebUI on loopback, in a process of its own.

    async with open_webui("0.12.4", folder, model.url) as server:
        admin = await server.sign_up("admin")           # the first user is the admin
        await admin.post("/api/v1/functions/create", {...})

In: a version, a folder for its data and its log, the URL of a model server (without /v1), environment variables.
Out: an `OpenWebUI`. Nothing is downloaded: models for embedding and speech are named as if they were elsewhere.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from service.embedded.process import HOST, Program, find_free_port, run_server
from tests.e2e.versions import installed, is_slim

BOOT = 400.0  # seconds: the first start after an install compiles some 100 MB of Python, on two busy cores
PASSWORD = "not-a-secret-of-tests-1"
_ENV = Program("open-webui", Path(shutil.which("env") or "/usr/bin/env"), None, signal.SIGTERM)
_SETTINGS = {
    "WEBUI_SECRET_KEY": "not-a-secret-of-tests",
    "WEBUI_AUTH": "true",
    "ENABLE_OLLAMA_API": "false",
    "ENABLE_OPENAI_API": "true",
    "OPENAI_API_KEYS": "not-a-secret",
    "ENABLE_PERSISTENT_CONFIG": "false",  # the environment decides, at every start
    "ENABLE_API_KEYS": "true",
    "ENABLE_CHANNELS": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "OFFLINE_MODE": "true",
    "HF_HUB_OFFLINE": "1",
    "RAG_EMBEDDING_ENGINE": "openai",
    "AUDIO_STT_ENGINE": "openai",
    "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",  # a slim one has no vector database; attached files go in whole
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "SCARF_NO_ANALYTICS": "true",
    "PYTHONUNBUFFERED": "1",
}


class RefusedError(Exception):
    """Open WebUI answered with an error."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.request.method} {response.request.url}: {response.status_code} {response.text}")


class User:
    """Somebody signed in: Open WebUI's API as JSON."""

    def __init__(self, server: "OpenWebUI", signed_in: Mapping[str, Any]) -> None:
        self.server = server
        self.id: str = signed_in["id"]
        self.name: str = signed_in["name"]
        self.email: str = signed_in["email"]
        self.token: str = signed_in["token"]

    async def get(self, path: str) -> Any:
        return await self.call("GET", path)

    async def post(self, path: str, body: object = None) -> Any:
        return await self.call("POST", path, json=body)

    async def call(self, method: str, path: str, **request: Any) -> Any:
        """Any request.

        Raises:
            RefusedError: the answer is an error.
        """
        return await self.server.call(method, path, headers={"Authorization": f"Bearer {self.token}"}, **request)


@dataclass
class OpenWebUI:
    version: str
    folder: Path
    url: str
    http: httpx.AsyncClient

    async def sign_up(self, name: str) -> User:
        """The first user; becomes the admin."""
        form = {"name": name, "email": f"{name}@example.org", "password": PASSWORD}
        return User(self, await self.call("POST", "/api/v1/auths/signup", json=form))

    async def add_user(self, admin: User, name: str) -> User:
        form = {"name": name, "email": f"{name}@example.org", "password": PASSWORD, "role": "user"}
        return User(self, await admin.post("/api/v1/auths/add", form))

    async def call(self, method: str, path: str, **request: Any) -> Any:
        """A request of nobody in particular; see `User.call`. The answer as JSON, or as text if it is none."""
        response = await self.http.request(method, self.url + path, **request)
        if response.is_error:
            raise RefusedError(response)
        return response.json() if "json" in response.headers.get("content-type", "") else response.text

    async def answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return (await self.http.get(f"{self.url}/health", timeout=2)).is_success
        return False


@asynccontextmanager
async def open_webui(
    version: str, folder: Path, model_url: str, *, environment: Mapping[str, str] | None = None
) -> AsyncIterator[OpenWebUI]:
    """A running server while the context is open.

    Raises:
        EmbeddedServerError: it ended, or took too long; with the last lines of its log.
    """
    port = find_free_port()
    variables = _variables(version, folder, port, model_url) | dict(environment or {})
    binary = installed(version) / "bin" / "open-webui"
    settings = [f"{name}={value}" for name, value in variables.items()]
    command: list[str | Path] = [*settings, binary, "serve", "--host", HOST, "--port", str(port)]
    workers = 0  # their process group
    async with httpx.AsyncClient(timeout=120, trust_env=False) as http:
        server = OpenWebUI(version, folder, f"http://{HOST}:{port}", http)
        try:
            async with run_server(_ENV, command, folder / "open-webui.log", server.answers, patience=BOOT) as started:
                workers = started.process.pid
                yield server
        finally:
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(workers, signal.SIGKILL)


def _variables(version: str, folder: Path, port: int, model_url: str) -> dict[str, str]:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    return _SETTINGS | {
        "HOME": str(folder),
        "DATA_DIR": str(folder / "data"),
        "OPENAI_API_BASE_URLS": f"{model_url}/v1",
        "RAG_OPENAI_API_BASE_URL": f"{model_url}/v1",
        "RAG_OPENAI_API_KEY": "not-a-secret",
        "CORS_ALLOW_ORIGIN": f"http://{HOST}:{port}",  # the page's socket is refused without its own
        "USE_SLIM_DOCKER": str(is_slim(version)).lower(),
    }
