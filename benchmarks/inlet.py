"""What the filter costs a request in a real Open WebUI 0.12.4, over a filter that does nothing.

A meter, itself a filter, runs inside Open WebUI's process. On the real body of a turn it calls the real filter and one
that does nothing, in turns, through Open WebUI's own `process_filter_functions`. With a fresh context, as in a request,
both read their valves from the database, and the ratios are of that; the filter's own work is the difference of two
calls whose valves were read before. Seen from outside, over HTTP, the rest of a turn takes hundreds of times as long as
what is to be measured.

Chats have 20, 200 and 1,000 messages: short ones, below the skip limit of 24,000 characters, and long ones of some 200
tokens each, which are served from a summary.

    python -m benchmarks.inlet          # needs Open WebUI: python -m tests.e2e
"""

import json
import random
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import stage
from benchmarks.conversation import prose
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Medians, best
from service.runtime import Runtime, running
from service.settings import load
from tests.e2e.model import MODELS, Reply, model_server
from tests.e2e.openwebui import User, open_webui
from tests.e2e.rig import story
from tests.e2e.tab import Tab, tab
from tests.e2e.versions import NEWEST, home
from tests.waiting import until

LENGTHS = (20, 200, 1000)
_TOKENS = 200  # of a message of a long chat
_FILLED = 0.82  # of the window: over `apply_at`, and not yet too long to be sent as it is
_NOTHING = """
from pydantic import BaseModel

class Filter:
    class Valves(BaseModel):
        priority: int = 0

    def __init__(self):
        self.valves = self.Valves()

    async def inlet(self, body: dict) -> dict:
        return body
"""
# Arguments of `meter.variant`, by name.
_BELOW = {
    "no-op": ("nothing",),
    "below": ("precis",),
    "no-op alone": ("nothing", True),
    "below alone": ("precis", True),
}
_LONG = {
    "no-op": ("nothing",),
    "known": ("precis",),
    "known, quiet": ("precis_quiet",),
}
_SHOWN = (
    ("below", "short", "below the skip limit"),
    ("known", "long", "with a summary and its status line"),
    ("known, quiet", "long", "with a summary, without the status line"),
)
_FILTER = stage.ROOT / "filter_stub" / "precis_filter.py"
_METER = stage.ROOT / "benchmarks" / "meter.py"
_NEEDED = "Open WebUI is not installed: run `python -m tests.e2e`, which takes 660 MB, and then this again"


def possible() -> bool:
    """Whether Open WebUI is installed; a benchmark does not download it."""
    return (home() / NEWEST / "installed").exists()


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    if not possible():
        raise SystemExit(_NEEDED)
    medians: Medians = {}
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="precis-inlet-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        urls = await stack.enter_async_context(stage.database(await stack.enter_async_context(stage.servers())))
        key, _ = await stage.filter_key(urls.database)
        port = await stack.enter_async_context(stage.service(urls))
        service = {"service_url": f"http://127.0.0.1:{port}", "api_key": key}
        settings = load(database_url=urls.database, redis_url=urls.redis)
        runtime = await stack.enter_async_context(running(settings, urls))
        model = await stack.enter_async_context(model_server())
        model.answer = lambda _: Reply("Noted.", usage={})  # so that tool specifications do not count
        server = await stack.enter_async_context(open_webui(NEWEST, folder, model.url))
        admin = await server.sign_up("admin")
        page = await stack.enter_async_context(tab(admin, MODELS[0]))
        rig = _Rig(admin, page, runtime, service, folder, 25 if quick else 100)
        await rig.install()
        for length in LENGTHS:
            for kind, variants in (("short", _BELOW), ("long", _LONG)):
                found = await rig.measure(kind, length, variants)
                medians |= {f"{name}, {kind} {length:,}": values for name, values in found.items()}
    return timed("The filter in Open WebUI", _figures(medians), medians)


def _figures(medians: Medians) -> list[Figure]:
    figures = []
    for length in LENGTHS:
        own = best(medians, f"below alone, short {length:,}") - best(medians, f"no-op alone, short {length:,}")
        meaning = f"own work below the skip limit, {length:,} messages, ms"
        figures.append(Figure(f"inlet_below_{length}_ms", meaning, own / 1000, 0.2))
    for name, kind, meaning in _SHOWN:
        for length in LENGTHS:
            ratio = best(medians, f"{name}, {kind} {length:,}") / best(medians, f"no-op, {kind} {length:,}")
            slug = re.sub(r"\W+", "_", name)
            figures.append(Figure(f"inlet_{slug}_{length}", f"{meaning} ÷ no-op filter, {length:,} messages", ratio))
    return figures


@dataclass(frozen=True, slots=True)
class _Rig:
    """Open WebUI with the filters, and the service with a way to do its work."""

    admin: User
    page: Tab
    runtime: Runtime
    service: Mapping[str, str]
    folder: Path
    rounds: int

    async def install(self) -> None:
        """The meter, the filter under two names, and one that does nothing. The filter's outlet runs for each."""
        sources = {"meter": _METER.read_text(), "nothing": _NOTHING}
        for name in ("meter", "nothing", "precis", "precis_quiet"):
            content = sources.get(name) or _FILTER.read_text()
            form = {"id": name, "name": name, "content": content}
            await self.admin.post("/api/v1/functions/create", {**form, "meta": {"description": name}})
            await self.admin.post(f"/api/v1/functions/id/{name}/toggle")
            await self.admin.post(f"/api/v1/functions/id/{name}/toggle/global")

    async def measure(self, kind: str, length: int, variants: Mapping[str, tuple[object, ...]]) -> Medians:
        """A chat that goes on for a turn, so that it is handed over; in the next turn the meter measures."""
        size = _TOKENS if kind == "long" else 4
        window = int(length * size / _FILLED) if kind == "long" else 131_072
        self.page.choices.params = {"num_ctx": window}
        await self.valves("precis", self.service)
        await self.valves("precis_quiet", {**self.service, "show_status": False})
        chat = story(length // 2, MODELS[0])
        rng = random.Random(length)
        for message in chat["history"]["messages"].values():
            message["content"] = prose(rng, size)
        made = await self.admin.post("/api/v1/chats/new", {"chat": chat})
        await self.page.open(made["id"])
        await self.page.send("Go on.")
        if kind == "long":
            await until(lambda: self._summarised(made["id"]), 300)
        out = self.folder / "measured.json"
        order = {"root": str(stage.ROOT), "out": str(out), "variants": variants, "calls": 2, "rounds": self.rounds}
        if kind == "short":  # there microseconds count
            order |= {"calls": 4, "rounds": 4 * self.rounds}
        await self.valves("meter", {"order": json.dumps(order)})
        turn = await self.page.send("And on.", wait=False)
        await until(out.exists, 900)
        await self.page.finished(turn)
        await self.valves("meter", {})
        found = json.loads(out.read_text())
        out.unlink()
        _check(found["lengths"])
        return dict(found["medians"])

    async def valves(self, function: str, values: Mapping[str, object]) -> None:
        """Sets a function's valves; the others have their defaults."""
        await self.admin.post(f"/api/v1/functions/id/{function}/valves/update", values)

    async def _summarised(self, chat: str) -> bool:
        await stage.work(self.runtime)
        async with stage.plain(self.runtime.urls.database) as connection:
            query = "select 1 from checkpoints join chats on chats.id = chat_id where external_id = $1"
            return bool(await connection.fetchval(query, chat))


def _check(lengths: Mapping[str, int]) -> None:
    """A summary was used where one is said to be, and nowhere else."""
    for name, length in lengths.items():
        served = name.startswith("known")
        assert (length < lengths["no-op"]) is served, lengths


if __name__ == "__main__":
    command(measure)
