"""A language model on loopback that does what a script says, over real HTTP.

    async with scripted_llm() as llm:
        llm.script(Fail(500), Say("the summary"))
        ...  # point the code under test at llm.openai_url or llm.ollama_url
        assert [request.path for request in llm.requests] == ["/v1/chat/completions"] * 2

It serves `/v1/chat/completions` (OpenAI) and `/api/chat` (Ollama). Each request takes the next behaviour of the
script; when the script is used up, `default` answers: a behaviour, or a function of the messages. It does not stream,
and answers 400 when it is asked to. `thinking` is awaited before each answer: a model that takes its time, or one that
a test lets go.
"""

import asyncio
import contextlib
import functools
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes import http_server

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """An answer; with `finish` "length", it met the limit."""

    text: str
    finish: str = "stop"


@dataclass(frozen=True, slots=True)
class ReasoningOnly:
    """The model thought until the end and wrote no answer."""

    reasoning: str


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error; `body` is sent as it is when it is text, and as JSON otherwise."""

    status: int
    body: object = field(default_factory=lambda: {"error": {"message": "scripted failure"}})
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherShape:
    """200 with something that is not a chat answer; `body` is sent as it is when it is text."""

    body: object = field(default_factory=lambda: {"hello": "world"})


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing is answered until the client gives up."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The connection is closed without an answer."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A good answer, `pause` seconds between its bytes. With `pause=0` it only comes in many small pieces."""

    text: str
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Endless:
    """200 and bytes without end, until the client goes away."""


Behaviour = Say | ReasoningOnly | Fail | OtherShape | Hang | Disconnect | Slow | Endless
Default = Behaviour | Callable[[list[Message]], str]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent. Header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[Message]:
        messages: list[Message] = self.body.get("messages", [])
        return messages

    @property
    def text(self) -> str:
        """The contents of all messages."""
        return "\n".join(str(message.get("content")) for message in self.messages)


@dataclass(slots=True)
class ScriptedLLM:
    """The server's script and its records; made by `scripted_llm`."""

    url: str = ""
    default: Default = Say("A scripted summary.")
    requests: list[Request] = field(default_factory=list)  # chat requests, oldest first
    thinking: Callable[[Request], Awaitable[object]] | None = None
    _script: deque[Behaviour] = field(default_factory=deque)
    _arrival: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI clients."""
        return f"{self.url}/v1"

    @property
    def ollama_url(self) -> str:
        """The base URL for Ollama clients."""
        return self.url

    def script(self, *behaviours: Behaviour) -> None:
        """Add behaviours for the next chat requests."""
        self._script.extend(behaviours)

    async def received(self, count: int) -> None:
        """Wait until `count` chat requests have come in, answered or not."""
        while len(self.requests) < count:
            self._arrival.clear()
            await self._arrival.wait()

    def behaviour(self, request: Request) -> Behaviour:
        """What to do now."""
        self.requests.append(request)
        self._arrival.set()
        if self._script:
            return self._script.popleft()
        return Say(self.default(request.messages)) if callable(self.default) else self.default


@contextlib.asynccontextmanager
async def scripted_llm(default: Default = Say("A scripted summary.")) -> AsyncIterator[ScriptedLLM]:
    """Serve on a free port of 127.0.0.1 until the block ends; then hanging requests are cut."""
    llm = ScriptedLLM(default=default)
    async with http_server.serving(functools.partial(_answer, llm)) as llm.url:
        yield llm


async def _answer(
    llm: ScriptedLLM, raw: http_server.Raw, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer one request; False when the connection is done with."""
    if raw.path not in ("/v1/chat/completions", "/api/chat"):
        return await _send(writer, 404, {"error": f"no such path: {raw.path}"})
    request = Request(raw.path, raw.headers, json.loads(raw.content))
    behaviour = llm.behaviour(request)
    if request.body.get("stream", request.path == "/api/chat"):  # Ollama streams unless told not to
        return await _send(writer, 400, {"error": "the scripted model does not stream"})
    if llm.thinking:
        await llm.thinking(request)
    match behaviour:
        case Hang():
            await reader.read()
            return False
        case Disconnect():
            return False
        case Endless():
            writer.write(b"HTTP/1.1 200 Scripted\r\nContent-Type: application/json\r\n\r\n")
            while True:
                writer.write(b" " * 65_536)
                await writer.drain()
        case Slow(text, pause):
            return await _send(writer, *_reply(request, Say(text)), pause=pause)
        case _:
            return await _send(writer, *_reply(request, behaviour))


def _reply(request: Request, behaviour: Behaviour) -> tuple[int, object, Mapping[str, str]]:
    """Status, body and headers of a behaviour that answers normally."""
    match behaviour:
        case Say(text, finish):
            return 200, _chat(request, text, tokens=len(text) // 4, finish=finish), {}
        case ReasoningOnly(reasoning):
            return 200, _chat(request, "", reasoning=reasoning, tokens=len(reasoning) // 4), {}
        case Fail(status, body, headers):
            return status, body, headers
        case OtherShape(body):
            return 200, body, {}
    raise AssertionError(f"not an answer: {behaviour}")


def _chat(
    request: Request, content: object, *, reasoning: str | None = None, tokens: int = 0, finish: str = "stop"
) -> dict[str, object]:
    """A chat answer in the words of the API that was asked."""
    message = {"role": "assistant", "content": content}
    prompt_tokens = len(request.text) // 4
    model = request.body.get("model")
    if request.path == "/api/chat":
        return {
            "model": model,
            "message": message if reasoning is None else {**message, "thinking": reasoning},
            "done": True,
            "done_reason": finish,
            "prompt_eval_count": prompt_tokens,
            "eval_count": tokens,
        }
    if reasoning is not None:  # llama.cpp and DeepSeek say the one, vLLM and OpenRouter the other
        message = {**message, "content": None, "reasoning_content": reasoning, "reasoning": reasoning}
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": prompt_tokens + tokens,
        },
    }


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: object,
    headers: Mapping[str, str] | None = None,
    *,
    pause: float | None = None,
) -> bool:
    """Send a whole answer, byte by byte when there is a `pause`."""
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    writer.write(http_server.head(status, len(content), headers or {}))
    for piece in [content] if pause is None else [content[at : at + 1] for at in range(len(content))]:
        writer.write(piece)
        await writer.drain()
        if pause is not None:  # what a script says of this model; no test waits for it to be over
            await asyncio.sleep(pause)
    return True
