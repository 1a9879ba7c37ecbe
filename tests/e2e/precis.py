"""Precis as people run it: `precis serve`, a process of its own with embedded servers, that can be killed and started.

    async with precis(summariser_url, window) as precis:
        await precis.settled(chat_id, answer_id)       # handed over, and all work done
        await precis.kill(); await precis.start()      # on the same port and data

`Checkpoint` is a stored summary as operators see it: its text and the messages that it covers.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from service.embedded.process import Program, find_free_port
from tests.builders import Json
from tests.constants import NEVER
from tests.constants import precis as precis_with
from tests.folders import reachable_folder
from tests.waiting import until

ROOT = Path(__file__).parents[2]
COMMAND = precis_with(debounce=0.05, fallback_after=NEVER)  # every summary is the scripted one
FACT = re.compile(r"The code of gate \w+ is [a-z]+-\d+\.")
_ENV = Program("precis", Path(shutil.which("env") or "/usr/bin/env"), None, signal.SIGTERM)
_GREETING = re.compile(r"on http://\S+, summaries")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A stored summary, down to the message `until`."""

    id: int
    until: str
    messages: int
    summary: str


def fact(gate: object) -> str:
    """A fact that a summary must keep, different for each gate."""
    number = int.from_bytes(str(gate).encode()) % 89_989 + 10_000
    return f"The code of gate {gate} is {('quartz', 'basalt', 'flint', 'slate')[number % 4]}-{number}."


def keep_facts(messages: list[Json]) -> str:
    """The scripted summariser: every fact that it has read, in order, and nothing else."""
    facts = dict.fromkeys(FACT.findall("\n".join(str(message["content"]) for message in messages)))
    if not facts:
        return "## State\n- No gate was named so far."
    lines = [f"- {one}" for one in facts]
    return "\n".join(["## State", *lines])


@dataclass
class Precis:
    """The running service. `keys` are by scope."""

    folder: Path
    settings: dict[str, str]
    port: int = field(default_factory=find_free_port)
    keys: dict[str, str] = field(default_factory=dict)
    _process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "precis.log").read_text(errors="replace")

    async def start(self) -> None:
        """Returns when it answers. At the first start it has a key made for the filter."""
        greetings = len(_GREETING.findall(self.log)) if (self.folder / "precis.log").exists() else 0
        with (self.folder / "precis.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command("serve"), cwd=ROOT, stdout=log, stderr=log
            )
        process = self._process

        def ready() -> bool:
            return process.returncode is not None or len(_GREETING.findall(self.log)) > greetings

        await until(ready, 120)
        assert process.returncode is None, self.log
        if not self.keys:
            made = {scope: await self.run("keys", "create", "--scope", scope) for scope in ("filter", "operator")}
            self.keys = {scope: said.split()[-1] for scope, said in made.items()}

    async def kill(self) -> None:
        """Kill -9; its servers end with it."""
        await self.end(signal.SIGKILL)

    @contextlib.asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """It is killed, and started again on the way out."""
        await self.kill()
        try:
            yield
        finally:
            await self.start()

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process and self._process.returncode is None:
            self._process.send_signal(number)
            async with asyncio.timeout(60):
                await self._process.wait()

    async def run(self, *arguments: str) -> str:
        """Runs another command of Precis on the same data; returns what it said."""
        command = await asyncio.create_subprocess_exec(
            *self._command(*arguments),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(120):
            said = (await command.communicate())[0].decode()
        assert command.returncode == 0, said
        return said

    async def show(self, chat_id: str, what: str = "") -> Json | None:
        """What the operator sees of a chat; None when Precis does not know it."""
        async with self.client("operator") as http:
            answer = await http.get(f"/v1/chats/{chat_id}{what}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return answer.raise_for_status().json()  # type: ignore[no-any-return]

    async def chats(self) -> list[str]:
        async with self.client("operator") as http:
            answer = (await http.get("/v1/chats", params={"limit": 200})).raise_for_status().json()
        return [one["chat_id"] for one in answer["chats"]]

    async def checkpoints(self, chat_id: str) -> list[Checkpoint]:
        """The stored summaries of a chat, oldest first."""
        shown = await self.show(chat_id)
        found = [
            await self.show(chat_id, f"/checkpoints/{one['id']}")
            for one in (shown or {"checkpoints": []})["checkpoints"]
        ]
        return [_checkpoint(one) for one in found if one]

    async def settled(self, chat_id: str, leaf: str | None = None) -> None:
        """Waits until a chat was handed over up to this message, and nothing is left to do for it."""

        async def done() -> bool:
            shown = await self.show(chat_id)
            chat = (shown or {}).get("chat") or {}
            handed = bool(chat) and leaf in (None, chat["leaf_id"])
            return handed and chat["due_at"] is None and not chat["working"]

        try:
            await until(done, 60)
        except TimeoutError:
            raise AssertionError(f"chat {chat_id} up to {leaf}: {await self.show(chat_id)}") from None

    @contextlib.asynccontextmanager
    async def client(self, scope: str) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"Authorization": f"Bearer {self.keys[scope]}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, trust_env=False) as http:
            yield http

    def _command(self, *arguments: str) -> list[str]:
        variables = [f"{name}={value}" for name, value in self._environment().items()]
        return _ENV.command([*variables, *COMMAND, *arguments])

    def _environment(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PRECIS_")}
        ours = {"DATA_DIR": str(self.folder / "data"), "PORT": str(self.port)}
        return plain | {f"PRECIS_{name}": value for name, value in (ours | self.settings).items()} | {"COLUMNS": "200"}


def _checkpoint(shown: Json) -> Checkpoint:
    made = shown["checkpoint"]
    return Checkpoint(made["id"], made["covered_until"], made["covered_messages"], shown["summary"])


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = reachable_folder("precis-e2e-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def precis(summariser_url: str | None, window: int) -> AsyncIterator[Precis]:
    """A running service whose summaries this OpenAI-compatible server writes, or code does.

    `window` is that of models of which nobody tells it, such as those of the workspace.
    """
    scripted = {"SUMMARISER": "openai", "SUMMARISER_URL": str(summariser_url), "SUMMARISER_MODEL": "scripted"}
    summariser = scripted if summariser_url else {}
    with _folder() as folder:
        made = Precis(folder, summariser | {"WINDOW": str(window)})
        await made.start()
        try:
            yield made
        finally:
            await made.end()
