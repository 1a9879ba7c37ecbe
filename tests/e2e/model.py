"""The model that Open WebUI talks to: OpenAI's API on loopback, in this process, with answers from a script.

    async with model_server() as model:
        model.script.append(Reply(calls=(Call("c1", "look_up", {"topic": "pumps"}),)))
        ...  # Open WebUI asks model.url for an answer
        assert model.received[-1].messages[-1]["role"] == "user"

Each chat request takes the next `Reply` of the script, or `answer` writes one. What Open WebUI asks for itself (title,
tags, follow-ups, its own summary) is answered at once, takes nothing of the script and is kept in `tasks`.

`recorder.py`, a filter that runs before Precis, posts here what Open WebUI built; it is kept in `built`, and each
request knows the one that it came from. So what Precis changed is what differs between the two.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from service.api.server import open_listener, run_server
from service.text.tokens import count
from service.transcript import count_sent_tokens
from tests.builders import Json

MODELS = ("scripted", "scripted-b")
OWN_SUMMARY = "OPEN WEBUI'S OWN SUMMARY"
_TASK = "### Task:"
_QUESTION_WITH_FILES = "using the provided context"  # Open WebUI's template around a user's question begins like a task
_TASKS = {
    '"follow_ups"': {"follow_ups": ["And then?"]},
    '"tags"': {"tags": ["test"]},
    '"title"': {"title": "A scripted chat"},
}


@dataclass(frozen=True, slots=True)
class Call:
    """A native tool call."""

    id: str
    name: str
    arguments: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    Attributes:
        text: what it says, before its tool calls.
        hold: half of the text is sent, and the rest when this event is set.
        breaks: the connection breaks after half of the text.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    hold: asyncio.Event | None = None
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """What Open WebUI had built when its first filter was called."""

    metadata: Json
    messages: list[Json]
    model: str


@dataclass(frozen=True, slots=True)
class Received:
    """A request that reached the model, and what it was before Precis saw it; None when no filter was called."""

    body: Json
    built: Built | None = None

    @property
    def messages(self) -> list[Json]:
        messages: list[Json] = self.body["messages"]
        return messages

    @property
    def model(self) -> str:
        return str(self.body["model"])

    @property
    def tokens(self) -> int:
        """Tokens of the messages alone."""
        return count_sent_tokens(self.messages)

    @property
    def tool_tokens(self) -> int:
        """Tokens of the tool specifications, which Open WebUI adds after a filter's `inlet`."""
        return count(json.dumps(self.body["tools"])) if self.body.get("tools") else 0

    @property
    def question(self) -> str:
        return question_of(self.messages)


def question_of(messages: Sequence[Json]) -> str:
    """The text of the newest user message."""
    return next((plain(one["content"]) for one in reversed(messages) if one["role"] == "user"), "")


def plain(content: object) -> str:
    """The text of a content, which may be a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if part.get("type") == "text")
    return str(content or "")


def echo(received: Received) -> Reply:
    """An answer that names its question."""
    return Reply(f"That was: {received.question.splitlines()[-1][:120] if received.question else 'nothing'}")


@dataclass
class Model:
    """The running server. `arrived` is told of each chat request.

    `window` is what it says of the window of its models; None: nothing.
    """

    url: str = ""
    window: int | None = None
    script: deque[Reply] = field(default_factory=deque)
    answer: Callable[[Received], Reply] = echo
    received: list[Received] = field(default_factory=list)
    tasks: list[Received] = field(default_factory=list)
    built: list[Built] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def reset(self) -> None:
        """Forgets everything, for the next test."""
        self.script.clear()
        self.received.clear()
        self.tasks.clear()
        self.built.clear()
        self.answer = echo

    async def take(self, body: Json) -> Reply:
        """What to answer to a request."""
        received = Received(body)
        if canned := _canned(received):
            self.tasks.append(received)
            return canned
        received = Received(body, self._built_for(received))
        self.received.append(received)
        async with self.arrived:
            self.arrived.notify_all()
        return self.script.popleft() if self.script else self.answer(received)

    def _built_for(self, received: Received) -> Built | None:
        """What this request was; a model made in the workspace has another name before Open WebUI sends it on."""
        asked = [one for one in reversed(self.built) if question_of(one.messages)[:60] in received.question]
        return next((one for one in asked if one.model == received.model), asked[0] if asked else None)


@asynccontextmanager
async def model_server() -> AsyncIterator[Model]:
    """Listens on a free port of 127.0.0.1 while the context is open."""
    model = Model()
    listener = open_listener("127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with run_server(_app(model), listener):
        yield model


def _app(model: Model) -> FastAPI:
    app = FastAPI()
    app.state.runtime = None  # what `listening` gives its caller

    @app.get("/v1/models")
    async def models() -> Json:
        about = {"object": "model", "owned_by": "tests", "max_model_len": model.window}
        return {"object": "list", "data": [{"id": one, **about} for one in MODELS]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await request.json()
        reply = await model.take(body)
        usage = _usage(Received(body), reply)
        if body.get("stream"):
            return StreamingResponse(_stream(reply, usage), media_type="text/event-stream")
        return JSONResponse(_whole(reply, usage))

    @app.post("/built")
    async def built(request: Request) -> Json:
        model.built.append(Built(**await request.json()))
        return {}

    return app


def _canned(received: Received) -> Reply | None:
    """The answer to what Open WebUI asks for itself; None for a question of a chat."""
    question = received.question.lstrip()
    if not question.startswith(_TASK) or _QUESTION_WITH_FILES in question[:200]:
        return None
    told = next((answer for mark, answer in _TASKS.items() if mark in question), None)
    return Reply(json.dumps(told) if told else OWN_SUMMARY)


def _usage(received: Received, reply: Reply) -> Json:
    prompt, answer = received.tokens + received.tool_tokens, count(reply.text) + 1
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _calls(reply: Reply) -> list[Json]:
    return [
        {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(reply.calls)
    ]


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _whole(reply: Reply, usage: Json) -> Json:
    message: Json = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {"id": "scripted", "object": "chat.completion", "choices": [choice], "usage": usage}


async def _stream(reply: Reply, usage: Json) -> AsyncIterator[bytes]:
    half = len(reply.text) // 2
    yield _chunk({"role": "assistant", "content": reply.text[:half]})
    if reply.hold:
        await reply.hold.wait()
    if reply.breaks:
        raise ConnectionAbortedError("scripted")
    yield _chunk({"content": reply.text[half:]})
    if reply.calls:
        yield _chunk({"tool_calls": _calls(reply)})
    yield _chunk({}, _finish(reply))
    yield _chunk(None, usage=usage)
    yield b"data: [DONE]\n\n"


def _chunk(delta: Json | None, finish: str | None = None, **more: object) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "scripted", "object": "chat.completion.chunk", "choices": choices, **more}
    return f"data: {json.dumps(chunk)}\n\n".encode()
