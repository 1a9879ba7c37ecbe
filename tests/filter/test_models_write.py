"""The filter has models of Open WebUI write what the service has planned, after a turn and in the background."""

import asyncio
import contextlib
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

from service.demo.host import make_outlet_body, replace_modules
from service.storage import keys
from tests.builders import Json
from tests.conftest import Service, drain
from tests.filter.chat import Chat, filter_of, ingested, working
from tests.filter.host import Host
from tests.filter.wire import Wire
from tests.service.harness import state
from tests.service.talk import rows, run_sql

TEXT = state("The river was crossed.")
GOOD = {"choices": [{"message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}]}


class RefusedError(Exception):
    """As FastAPI's error of a route has it."""

    status_code = 403


@dataclass
class Models:
    """`open_webui.utils.chat` and `models.users`: who is asked what, and what is answered."""

    answer: Callable[[], Any] = lambda: GOOD
    role: str = "user"
    owner: str = ""
    asked: list[Json] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    users: list[Any] = field(default_factory=list)
    thinking: Callable[[], Awaitable[None]] | None = None

    async def generate_chat_completion(
        self, request: Request, form: Json, user: Any, bypass_system_prompt: bool = False
    ) -> Any:
        assert bypass_system_prompt
        self.requests.append(request)
        self.asked.append(form)
        self.users.append(user)
        if self.thinking:
            await self.thinking()
        return self.answer()

    async def get_user_by_id(self, user: str) -> Any:
        return SimpleNamespace(id=user, role=self.role) if self.role else None

    async def is_chat_owner(self, _chat: str, user: str) -> bool:
        return user == self.owner

    @contextlib.contextmanager
    def importable(self, host: Host) -> Iterator[None]:
        """In the place of Open WebUI's modules."""
        with host.importable():
            chats: Any = sys.modules["open_webui.models.chats"]
            chats.Chats = SimpleNamespace(
                is_chat_owner=self.is_chat_owner, get_chat_title_by_id=host.get_chat_title_by_id
            )
            modules: dict[str, Any] = {
                name: ModuleType(name) for name in ("open_webui.models.users", "open_webui.utils.chat")
            }
            modules["open_webui.models.users"].Users = self
            modules["open_webui.utils.chat"].generate_chat_completion = self.generate_chat_completion
            with replace_modules(modules):
                yield


def request_of(owned_by: str = "openai") -> Request:
    """The request of a turn, whose state has what must not go along."""
    known = {"small-model": {"owned_by": owned_by}}
    app = SimpleNamespace(state=SimpleNamespace(MODELS=known))
    of_turn = {"token": "of the user", "metadata": {"chat_id": "chat of the turn"}}
    return Request({"type": "http", "app": app, "headers": [], "state": of_turn})


@pytest_asyncio.fixture(loop_scope="module")
async def writing(service: Service, tap: Wire, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chat]:
    """A chat of a tenant whose chats' own models write."""
    monkeypatch.setattr("service.usecases.prompts._LOOKS", 0.02)
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create_key(connection, "default", "filter", "of models that write")
        await keys.choose_summariser(connection, "default", "chat")
    async with filter_of(tap.url, key) as loaded:
        loaded.outlet.__globals__["IDLE"] = 0
        yield Chat(Host(), loaded, f"chat-{uuid.uuid4()}")
    await run_sql(service.runtime, "update tenants set summariser = null")
    await run_sql(service.runtime, "delete from endpoints")


async def finish(
    chat: Chat, models: Models, service: Service, request: Request | None = None, options: Json | None = None
) -> None:
    """A turn of a long chat, and all that follows in the background, beside a worker."""
    models.owner = models.owner or chat.user
    chat.grow(12)
    chat.ask("And then?")
    turn = chat.request(chat.leaf or "")
    if options:
        turn.body["options"] = options
    async with working(service.runtime):
        await chat.enter(turn)
        leaf = chat.answer("It went on.")
        body = make_outlet_body(chat.rows, leaf, chat=chat.id, model="small-model")
        told: Json = {"__metadata__": turn.metadata, "__user__": chat.asker}
        with models.importable(chat.host):
            assert await chat.filter.outlet(body, **told, __request__=request or request_of()) is body
            await ingested(chat.filter)
    # The filter asks so many times and no more, whatever has become of its last reply by then.
    await drain(service.runtime)


async def kinds(service: Service, chat: Chat) -> set[str]:
    query = "select distinct kind from checkpoints join chats on chats.id = chat_id where external_id = :chat"
    return {one.kind for one in await rows(service.runtime, query, chat=chat.id)}


async def causes(service: Service, chat: Chat) -> str:
    query = "select last_error from chats where external_id = :chat"
    return str((await rows(service.runtime, query, chat=chat.id))[0].last_error)


async def test_the_chats_model_writes_and_nothing_of_the_turn_goes_along(writing: Chat, service: Service) -> None:
    models = Models()

    await finish(writing, models, service)

    assert "llm" in await kinds(service, writing)
    for form, request, user in zip(models.asked, models.requests, models.users, strict=True):
        assert form["model"] == "small-model"
        assert form["metadata"]["chat_id"].startswith("local:")
        assert request.state._state == {"token": "of the user"}
        assert user.id == writing.user
    chats = [form["metadata"]["chat_id"] for form in models.asked]
    assert len(set(chats)) == len(chats), "a new one for each prompt"


async def test_ollama_is_asked_as_it_has_the_model_loaded_by_the_chat(writing: Chat, service: Service) -> None:
    models, options = Models(), {"num_ctx": 8192, "keep_alive": "1h", "seed": 7, "stop": ["x"]}
    await finish(writing, models, service, request_of("ollama"), options)
    (form, *_) = models.asked
    assert "max_tokens" not in form
    assert form["options"].pop("num_predict") > 256
    assert form["options"] == {"num_ctx": 8192, "keep_alive": "1h"}


DELTA = {"choices": [{"delta": {"content": f"{TEXT} Grüße."}}]}
STREAM = f"data: {json.dumps(DELTA, ensure_ascii=False)}\n\n".encode()


@pytest.mark.parametrize(
    "made",
    [lambda: JSONResponse(GOOD), lambda: StreamingResponse(bytes([byte]) for byte in STREAM)],
    ids=["a response", "a stream whose parts end within characters"],
)
async def test_an_answer_goes_to_the_service_as_it_came(writing: Chat, service: Service, made: Any) -> None:
    await finish(writing, Models(made), service)
    assert "llm" in await kinds(service, writing)


def refuse() -> None:
    raise RefusedError("no access")


def break_down() -> None:
    raise RuntimeError("a pipe of somebody")


@pytest.mark.parametrize(
    ("models", "owned_by", "cause"),
    [
        (Models(refuse), "openai", "HTTP 403"),
        (Models(break_down), "openai", "HTTP 500"),
        (Models(lambda: PlainTextResponse("slow down", 429)), "openai", "HTTP 429"),
        (Models(role="pending"), "openai", "HTTP 403"),
        (Models(role=""), "openai", "HTTP 500"),
        (Models(), "arena", "HTTP 403"),
    ],
    ids=["forbidden", "raising", "too many", "a user who may not", "a user who is gone", "an arena model"],
)
async def test_whatever_goes_wrong_is_told_to_the_service(
    writing: Chat, service: Service, models: Models, owned_by: str, cause: str
) -> None:
    writing.filter.outlet.__globals__["PROMPTS"] = 1  # else it asks again after each pause
    await finish(writing, models, service, request_of(owned_by))
    assert "llm" not in await kinds(service, writing)
    assert cause in await causes(service, writing)


async def test_a_user_who_goes_on_finds_the_model_free_and_the_next_turn_asks(writing: Chat, service: Service) -> None:
    async def go_on() -> None:
        models.thinking = None
        writing.ask("And another thing?")
        await writing.inlet()

    models = Models(thinking=go_on)
    await finish(writing, models, service)
    assert len(models.asked) == 1, "what is planned next waits"
    writing.answer("So it is.")

    await finish(writing, models, service)

    assert len(models.asked) > 1


async def test_nobody_but_a_chats_owner_has_its_prompts_written(writing: Chat, service: Service, tap: Wire) -> None:
    models = Models(owner="somebody else")
    await finish(writing, models, service)
    assert not models.asked
    assert not [one for one in tap.seen if one.path.startswith("/v1/prompts")]


async def test_a_model_that_takes_too_long_is_given_up(writing: Chat, service: Service) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    models = Models(thinking=never)
    writing.filter.outlet.__globals__["PROMPTS"] = 1
    settings = service.runtime.settings
    object.__setattr__(settings, "summariser_timeout", 0.05)
    try:
        await finish(writing, models, service)
    finally:
        object.__setattr__(settings, "summariser_timeout", 300.0)
    assert "HTTP 500" in await causes(service, writing)
