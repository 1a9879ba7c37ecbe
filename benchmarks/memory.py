"""What a request costs in memory: bytes of the service's peak above its rest, for each byte of the body.

Each case has a `precis serve` of its own, which has counted tokens once before, so that the vocabulary is no part of
the result. The peak is the kernel's (`VmHWM`), of the process and of what it has started. A case that the service
refuses is measured as well: refusing must not be dear either.

    python -m benchmarks.memory
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import stage
from benchmarks.conversation import prose
from benchmarks.report import Figure, Report, command
from benchmarks.wire import Line, request
from service.runtime import Urls
from service.transcript import unfold_messages

SIZE = 8 * 2**20 - 2**15  # bytes of a body: the largest that is taken, but for what stands around the messages
MOST = 12  # bytes for each byte
_VALUES = 190_000  # a little less than a body may have
_TOGETHER = 3
_DEAREST = "one question with an emoji"  # of those that are taken
_MOST_TOGETHER = 600  # MB, of the whole process
_MB = 1e6
_STORED = 5  # seconds after which is stored what a request has shown
_TURNS, _COMPRESS = "/v1/turns", "/v1/compress"

Json = dict[str, Any]
Messages = Iterator[tuple[str, Json]]
"""Role, and what else a message has."""
Sent = tuple[str, bytes]
"""A route, and the body that it is sent."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Resident bytes of a service: after its start, and at most; and what it answered."""

    rest: int
    most: int
    sent: int
    statuses: list[int]

    @property
    def ratio(self) -> float:
        """Bytes above the rest for each byte that was sent."""
        return (self.most - self.rest) / self.sent


def _passages(size: int) -> Iterator[str]:
    """Texts of some size in characters, cut from one long passage."""
    source, chance = prose(random.Random(1), 60_000), random.Random(2)
    while True:
        start = chance.randrange(len(source) - size)
        yield source[start : start + size]


def _ordinary() -> Messages:
    """Questions, and answers that have called a tool: some 12 KB a turn."""
    results, answers = _passages(8000), _passages(3000)
    while True:
        yield "user", {"content": next(answers)[:600]}
        call = {"type": "function_call", "call_id": "c", "name": "query", "arguments": '{"table": "orders"}'}
        result = [{"type": "input_text", "text": next(results)}]
        said = [{"type": "output_text", "text": next(answers)}]
        output = [call | {"status": "completed"}, {"type": "function_call_output", "call_id": "c", "output": result}]
        yield "assistant", {"content": "", "output": [*output, {"type": "message", "content": said}]}


def _one(role: str, more: str = "") -> Messages:
    """One text as large as a body."""
    text = prose(random.Random(3), 60_000)
    yield role, {"content": (text * (SIZE // len(text) + 1))[: SIZE * 19 // 20] + more}


def _items(item: str) -> Messages:
    """One answer of as many small items as a body holds."""
    yield "assistant", {"content": "", "output": json.loads(f"[{','.join([item] * (SIZE // (len(item) + 2) - 100))}]")}


def _bounded() -> Messages:
    """As many small objects as are taken in one body, and a text beside them."""
    objects = [{"type": "a", "b": [{}]}] * (_VALUES // 5)
    text = prose(random.Random(3), 60_000)
    yield "assistant", {"content": (text * 40)[: SIZE * 19 // 20 - 24 * len(objects)], "output": objects}


# Branches that are handed over, by name.
CASES: dict[str, Callable[[], Messages]] = {
    "ordinary branch": _ordinary,
    "one question": lambda: _one("user"),
    "one question with an emoji": lambda: _one("user", "\N{GRINNING FACE}"),
    "one answer": lambda: _one("assistant"),
    "one tool result": lambda: _one("tool"),
    "tiny items": lambda: _items("[]"),
    "objects up to the bound": _bounded,
    "small objects": lambda: _items('{"type": "a", "b": [{}]}'),
}


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    cases = {name: [_branch(CASES[name]())] for name in (list(CASES)[:2] if quick else CASES)}
    cases["ordinary request"] = [_request(_ordinary())]
    if not quick:
        cases["deep nesting"] = [_nested()]
        empty = b'{"model": "m", "chat": "c", "messages": [%b[]]}' % (b"[]," * (SIZE // 3))
        cases["empty messages"] = [(_TURNS, empty)]
    together = f"{_TOGETHER} at once"
    cases[together] = [_branch(CASES[_DEAREST](), f"chat-{number}") for number in range(_TOGETHER)]
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        peaks = {name: await _peak(servers, sent) for name, sent in cases.items()}
    figures = [
        Figure(f"memory_{name.replace(' ', '_')}", f"bytes for each byte: {name}", peak.ratio, MOST)
        for name, peak in peaks.items()
        if name != together
    ]
    whole = peaks[together].most / _MB
    figures.append(Figure("memory_together_mb", f"{_DEAREST}, {together}: MB in all", whole, _MOST_TOGETHER))
    facts = [
        f"{name}: {peak.sent / _MB:.1f} MB, answered {sorted(set(peak.statuses))};"
        f" {peak.rest / _MB:.0f} MB at rest, {peak.most / _MB:.0f} MB at most"
        for name, peak in peaks.items()
    ]
    return Report("Memory of a request", figures, facts)


async def _peak(servers: Urls, sent: Sequence[Sent]) -> Peak:
    async with AsyncExitStack() as stack:
        urls = await stack.enter_async_context(stage.database(servers))
        key, _ = await stage.filter_key(urls.database)
        port = await stack.enter_async_context(stage.service(urls))
        # At once, and long enough for both text processes: what they take at rest is no part of the result.
        warm = [("user", {"content": "A few words. " * 20_000})]
        await asyncio.gather(*(_status(port, key, make(iter(warm))) for make in (_branch, _request)))
        await asyncio.sleep(_STORED)
        processes = _service_on(port)
        rest = _rest(processes)
        statuses = await asyncio.gather(*(_status(port, key, one) for one in sent))
        await asyncio.sleep(_STORED)
        return Peak(rest, _resident(_service_on(port)), sum(len(body) for _, body in sent), statuses)


async def _status(port: int, key: str, sent: Sent) -> int:
    path, body = sent

    def send() -> int:
        head = request("POST", path, key).replace(b"Length: 0", b"Length: %d" % len(body))
        with closing(Line(port, seconds=600)) as line:
            return line.send(head + body)[0]

    return await asyncio.to_thread(send)


def _service_on(port: int) -> list[int]:
    """The process that listens there, and those that it has started."""
    service = stage.listener(port)
    return [service.pid, *(below.pid for below in service.children(recursive=True))]


def _rest(processes: list[int]) -> int:
    """What they have resident, in bytes; from here on, the peak is what comes."""
    for one in processes:
        Path(f"/proc/{one}/clear_refs").write_text("5")
    return _resident(processes)


def _resident(processes: list[int]) -> int:
    """The most that they had resident, in bytes."""
    lines = (line for one in processes for line in Path(f"/proc/{one}/status").read_text().splitlines())
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _branch(messages: Messages, chat: str = "chat") -> Sent:
    """The hand-over of a branch of as many messages as a body holds."""
    return _sent(_TURNS, _rows(messages), chat)


def _request(messages: Messages) -> Sent:
    """A request that shows as many messages as a body holds."""
    return _sent(_COMPRESS, unfold_messages(_rows(messages)), "chat")


def _rows(messages: Messages) -> list[Json]:
    rows: list[Json] = []
    size = 0
    for number, (role, more) in enumerate(messages):
        row = {"id": f"m{number}", "role": role} | more
        size += len(json.dumps(row, ensure_ascii=False).encode()) + 200
        if size > SIZE and rows:
            break
        rows.append(row)
    return rows


def _sent(path: str, messages: list[Json], chat: str) -> Sent:
    body = {"chat": chat, "user": "user", "model": stage.MODEL, "window": 131_072, "messages": messages}
    return path, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _nested() -> Sent:
    """A message whose answer is nothing but nested lists."""
    path, whole = _branch(iter([("assistant", {"content": "", "output": ["here"]})]))
    return path, whole.replace(b'"here"', b"[" * (SIZE // 2) + b"]" * (SIZE // 2))


if __name__ == "__main__":
    command(measure)
