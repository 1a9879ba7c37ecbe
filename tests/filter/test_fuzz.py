"""Random bodies, metadata, models, users and answers of the service through the hooks: nothing raises.

What comes back is the same body. Only its messages may differ, and what Open WebUI has in its metadata.
"""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import Json
from tests.effort import examples
from tests.filter.chat import Chat, filter_of, ingested, no_log
from tests.filter.host import Host
from tests.filter.test_filter_requests import answer as answered

ODD: list[object] = [
    *(None, True, False, 0, 1, -1, 7, 10**30, 1.5, float("nan"), float("inf")),
    *("", "x", "u1", "auto", "\x00", "\ud800", "a2\n", "{", " "),
    *([], [None], [1, "x"], [{}], [[]], {}, {"a": 1}, {"": None}, {"id": "u1"}, {"text": 5}, {"x": float("nan")}),
]
JSON = st.sampled_from(ODD).map(copy.deepcopy)  # combined at random; making each at random takes most of the time
WORDS = st.text(max_size=20) | st.sampled_from(
    ["", "[Previous conversation summary: x]", "a long one " * 900, "长" * 5000, "[CONVERSATION SUMMARY]\nx"]
)
CALL = st.fixed_dictionaries({"id": st.just("c1") | JSON, "function": st.just({"name": "f", "arguments": "{}"}) | JSON})
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["u1", "a2", "u3", ""]) | JSON,
        "role": st.sampled_from(["system", "user", "user", "assistant", "tool", "developer"]) | JSON,
        "content": WORDS | JSON | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": WORDS | JSON})),
        "tool_calls": st.lists(CALL, max_size=2) | JSON,
        "tool_call_id": st.just("c1") | JSON,
        "output": st.lists(st.fixed_dictionaries({"type": st.just("function_call_output"), "output": JSON})) | JSON,
        "files": JSON,
    },
)
IDS = st.sampled_from(["u1", "u3", "u5", "u7", "a2"]) | JSON
QUESTION = st.fixed_dictionaries({"id": IDS, "parentId": IDS, "role": st.just("user"), "content": JSON}) | JSON
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "chat_id": st.sampled_from(["chat-1", "", "temporary:x", "channel:x", "gone"]) | JSON,
        "user_id": st.just("user-1") | JSON,
        "user_message_id": IDS,
        "parent_message_id": IDS,
        "message_id": IDS,
        "user_message": QUESTION,
        "regeneration_message_id": IDS,
        "precis": JSON,
    },
)
WINDOWS = st.sampled_from([2048, 8192]) | JSON
MODELS = st.fixed_dictionaries(
    {},
    optional={
        "openai": st.fixed_dictionaries({"max_model_len": WINDOWS, "meta": JSON}) | JSON,
        "info": st.fixed_dictionaries({"params": st.fixed_dictionaries({"num_ctx": WINDOWS}) | JSON}) | JSON,
    },
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "model": st.text(max_size=5) | JSON,
        "messages": st.lists(MESSAGE | JSON, max_size=6) | JSON,
        "metadata": METADATA | JSON,
        "chat_id": st.just("chat-1") | JSON,
        "options": st.fixed_dictionaries({"num_ctx": WINDOWS}) | JSON,
        "num_ctx": WINDOWS,
        "max_tokens": JSON,
        "tools": JSON,
        "transforms": JSON,
        "truncation": st.just("auto") | JSON,
        "id": IDS,
        "precis_check": JSON,
    },
)
FIELDS = st.fixed_dictionaries(
    {"messages": st.lists(st.integers(-1, 6) | MESSAGE | JSON, max_size=5) | JSON},
    optional={
        "state": JSON,
        "tokens": st.fixed_dictionaries({"window": JSON}) | JSON,
        "whole": JSON,
        "summary": JSON,
        "status_text": JSON,
        "left_out": JSON,
    },
)
ANSWERS = JSON | FIELDS.map(lambda fields: answered() | fields)


class Service:
    """In place of the network, which would take most of the time."""

    answer: object = None

    def __call__(self, _: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=json.dumps(self.answer))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def staged() -> AsyncIterator[tuple[Chat, Service]]:
    service = Service()
    async with filter_of("http://service", temporary_hours=1) as loaded:
        loaded._http = httpx.AsyncClient(transport=httpx.MockTransport(service))
        yield Chat(Host(), loaded), service


@settings(max_examples=examples(1000), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    body=BODIES,
    metadata=METADATA | JSON,
    model=MODELS | JSON,
    user=st.just({"role": "admin"}) | JSON,
    answer=ANSWERS,
)
async def test_no_body_makes_a_hook_raise_or_give_back_another_one(
    staged: tuple[Chat, Service], body: Json, metadata: Any, model: Any, user: Any, answer: object
) -> None:
    chat, service = staged
    service.answer = jsonable(answer)
    chat.filter._failures = 0
    original = copy.deepcopy(body)
    with no_log(), chat.host.importable():
        assert await chat.filter.inlet(body, metadata, user, model, chat.host.emit) is body
        assert await chat.filter.request(body, metadata, user, model, chat.host.emit) is body
        assert same(body, original, but=("messages", "metadata"))
        before = copy.deepcopy(body)
        assert await chat.filter.outlet(body, metadata, user) is body
        await ingested(chat.filter)
        assert same(body, before, but=("precis_check", "metadata"))


def same(one: Json, other: Json, but: tuple[str, ...]) -> bool:
    """Whether they are equal but for these keys; NaN is equal to itself."""
    return repr({key: value for key, value in one.items() if key not in but}) == repr(
        {key: value for key, value in other.items() if key not in but}
    )


def jsonable(answer: object) -> object:
    """JSON on the wire has no NaN."""
    return None if "nan" in repr(answer) or "inf" in repr(answer) else answer
