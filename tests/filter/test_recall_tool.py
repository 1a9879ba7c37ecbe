"""The tool with which a model looks up what a summary covers, and when it is offered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from filter_stub import precis_filter, precis_recall
from tests.builders import Json
from tests.filter.chat import PATIENCE, filter_of
from tests.filter.functions import load
from tests.filter.test_filter_requests import against, answer
from tests.filter.wire import Answer, Behaviour, HangUp, Silence, Wire, wire

FOUND = {"status": "found", "text": "It is 42.", "content": "", "references": ["M1"], "line": None}


@dataclass
class Tool:
    tools: Any
    filter: Any

    async def precis_recall(self, **given: Any) -> str:
        functions = SimpleNamespace(FUNCTIONS={"precis": self.filter})
        request = SimpleNamespace(app=SimpleNamespace(state=functions))
        answer = await self.tools.precis_recall(**{"__request__": request} | given)
        assert isinstance(answer, str)
        return answer


@contextlib.asynccontextmanager
async def tool(behaviour: Behaviour, key: str = "key", patience: float = PATIENCE) -> AsyncIterator[tuple[Tool, Wire]]:
    async with wire(behaviour) as tap, filter_of(tap.url, key) as loaded:
        tools = load(precis_recall, "Tools")
        type(tools).precis_recall.__globals__["TIMEOUT"] = patience
        yield Tool(tools, loaded), tap


def metadata(**changed: object) -> Json:
    """Open WebUI's metadata of a request that the service has seen, as the filter leaves them."""
    return {"precis": {"id": "f" * 32, "state": {"turn": 1}} | changed}


# What it sends


async def test_it_sends_the_note_of_the_turn_and_the_question_with_the_key_and_the_version() -> None:
    async with tool(Answer(FOUND), "a key\n”") as (loaded, tap):
        told = metadata()
        said = await loaded.precis_recall(query="what\ud800", __metadata__=told)

        assert said == "It is 42."
        (seen,) = tap.seen
        assert (seen.method, seen.path) == ("POST", "/v1/recall")
        assert seen.headers["authorization"] == "Bearer akey"
        assert seen.headers["precis-filter"] == precis_filter.VERSION
        assert seen.headers["x-request-id"] == "f" * 32
        assert seen.body == {"state": {"turn": 1}, "query": "what?", "ref": "", "line": 1, "grep": ""}
        assert told["precis"]["recalls"] == 1


@pytest.mark.parametrize("told", [None, {}, {"precis": None}, metadata(state=None)], ids=repr)
async def test_without_a_summary_in_the_request_it_says_so_and_asks_nobody(told: Json | None) -> None:
    async with tool(Answer(FOUND)) as (loaded, tap):
        assert "No summary" in await loaded.precis_recall(query="what", __metadata__=told)
        assert tap.seen == []


async def test_a_turn_has_five_look_ups_also_when_they_run_at_once() -> None:
    async with tool(Answer(FOUND)) as (loaded, tap):
        told = metadata()
        answers = await asyncio.gather(*(loaded.precis_recall(query="what", __metadata__=told) for _ in range(7)))

        assert answers.count("It is 42.") == len(tap.seen) == 5
        assert all("answer with what you have" in one for one in answers if one != "It is 42.")
        assert await loaded.precis_recall(query="what", __metadata__=metadata()) == "It is 42.", "another turn"


@pytest.mark.parametrize("request_", [None, SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(FUNCTIONS={})))])
async def test_without_the_filter_in_this_process_the_model_gets_a_sentence(request_: object) -> None:
    async with tool(Answer(FOUND)) as (loaded, tap):
        said = await loaded.precis_recall(ref="M1", __metadata__=metadata(), __request__=request_)

        assert said == precis_recall.FAILED
        assert tap.seen == []


# Whatever goes wrong


@pytest.mark.parametrize(
    "behaviour",
    [
        Silence(),
        HangUp(),
        Answer("<html>It works!</html>"),
        Answer({"status": "found"}),
        Answer("", 401),
        Answer([], 426),
        Answer({"status": 503, "detail": "looking this up took too long"}, 503),
    ],
    ids=repr,
)
async def test_the_model_gets_a_sentence_and_the_log_no_text(
    behaviour: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    async with tool(behaviour, "secret-key", patience=0.3) as (loaded, _):
        said = await loaded.precis_recall(query="words of somebody", __metadata__=metadata())

    assert said == precis_recall.FAILED
    assert "fewer words" in said, "as the service asks for, when a look-up takes too long"
    assert "a look-up" in caplog.text
    assert "words of somebody" not in caplog.text
    assert "secret-key" not in caplog.text + said


@pytest.mark.parametrize(
    "reason",
    ["", "not installed", "valve", "user", "short chat", "client's own tools", "calls in the prompt", "nobody calls"],
)
async def test_the_tool_is_offered_only_where_it_may_be_needed_and_can_be_called(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get_tool_by_id(_: str) -> object:
        return None if reason == "not installed" else object()

    least = 24_000 if reason == "short chat" else 0
    async with against(Answer(answer()), offer_recall=reason != "valve", skip_below_chars=least) as (chat, tap):
        monkeypatch.setattr(chat.host, "get_tool_by_id", get_tool_by_id)
        chat.wanted = chat.filter.UserValves(compress=reason != "user")
        turn = chat.request(str(chat.leaf))
        turn.metadata["params"] = {"function_calling": "legacy" if reason == "calls in the prompt" else "native"}
        if reason == "client's own tools":
            turn.body["tools"] = [{"type": "function", "function": {"name": "f"}}]
        if reason == "nobody calls":  # an API client without an answer in Open WebUI
            turn.metadata["message_id"] = None
        await chat.enter(turn)
        assert turn.body.get("tool_ids", []) == ([] if reason else [precis_filter.RECALL])
        assert all(body["recall"] is not bool(reason) for body in tap.bodies("POST"))
