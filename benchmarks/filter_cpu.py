"""What a turn costs Open WebUI's own process: the CPU time of the filter's hooks, with a real service beside it.

The filter is loaded as Open WebUI loads it, and called with a body as Open WebUI makes it. A turn is `inlet`, `request`
and `outlet`, with what `outlet` does in the background. The service is another process, so its time does not count.
Long chats are served from a summary; a short one is below the filter's skip limit.

    python -m benchmarks.filter_cpu
"""

import asyncio
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import msgspec

from benchmarks import stage
from benchmarks.compress import WINDOW
from benchmarks.conversation import grown, turns
from benchmarks.filling import Chat, Wanted, fill
from benchmarks.report import Figure, Report, command
from service.demo.host import Host, load_filter, pass_hooks

_TURNS = 60, 15  # and with --quick
_CHECKPOINTS = 1000
# By name: messages of a chat, tokens of each, and the milliseconds that are wanted.
_KINDS = {"20_5kb": (20, 60, None), "200_600kb": (200, 735, 3.5), "2000_600kb": (2000, 68, 6)}


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    wanted = [Wanted(count, size + 4, WINDOW, size) for count, size, _ in _KINDS.values()]
    times: dict[str, list[float]] = {}
    host = Host()
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        urls = await stack.enter_async_context(stage.database(servers))
        key, tenant = await stage.filter_key(urls.database)
        chats = await fill(urls.database, tenant, _CHECKPOINTS, wanted)
        port = await stack.enter_async_context(stage.service(urls))
        stack.enter_context(host.importable())
        stack.enter_context(_packages())
        loaded = load_filter(f"http://127.0.0.1:{port}", key, timeout=30)
        for name, chat in zip(_KINDS, chats, strict=True):
            taken = [await _turn(loaded, host, chat) for _ in range(_TURNS[quick] + 1)]
            times[name] = taken[1:]  # the first one connects, and the service counts all messages
    figures = [
        Figure(
            f"filter_cpu_ms_{name}", "CPU ms in Open WebUI's process for a turn", statistics.median(times[name]), bound
        )
        for name, (_, _, bound) in _KINDS.items()
    ]
    spread = [f"{name}: {min(taken):.2f} to {max(taken):.2f} ms" for name, taken in times.items()]
    return Report("The filter", figures, spread)


@contextmanager
def _packages() -> Iterator[None]:
    """Puts what every supported Open WebUI has, and Precis has not, in its place; msgspec is as fast as orjson."""
    needed = {
        "orjson": SimpleNamespace(dumps=msgspec.json.encode),
        "sniffio": SimpleNamespace(current_async_library=lambda: "asyncio"),
    }
    missing = {name: module for name, module in needed.items() if importlib.util.find_spec(name) is None}
    sys.modules.update(missing)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


async def _turn(loaded: Any, host: Host, chat: Chat) -> float:  # noqa: ANN401 - of no known class
    """Milliseconds of CPU for a turn that follows the stored path."""
    question, answer = grown(random.Random(chat.name), chat.path[-1].node, sizes=turns(1, 20, 300))
    metadata: dict[str, Any] = {"user_id": chat.name, "chat_id": chat.name}
    messages = [one.native for one in (*chat.path, question)]
    body: dict[str, Any] = {"model": stage.MODEL, "messages": list(messages), "metadata": metadata}
    finished = {"chat_id": chat.name, "messages": [one.stored for one in (*chat.path, question, answer)]}
    given = {
        "__metadata__": metadata,
        "__user__": {"id": chat.name, "name": "User"},
    }
    model = {"info": {"params": {"num_ctx": WINDOW}}}
    began = time.process_time()
    await pass_hooks(loaded, body, **given, __model__=model, __event_emitter__=host.emit)
    await loaded.outlet(finished, **given)
    await asyncio.gather(*loaded._in_background)
    took = time.process_time() - began
    is_long = sum(len(one["content"]) for one in messages) >= loaded.valves.skip_below_chars
    assert (len(body["messages"]) < len(messages)) is is_long, "a summary stands in a long request"
    return took * 1000


if __name__ == "__main__":
    command(measure)
