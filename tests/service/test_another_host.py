"""The client of `docs/howto/another-host.md`, exactly as the page has it, with the real service and a fake model."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import pytest_asyncio

from service.text import tokens
from tests.conftest import Service, drain, sending
from tests.fakes.scripted_llm import Message, OtherShape, Request, Say, ScriptedLLM, scripted_llm
from tests.service.talk import prose

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "another-host.md"
WINDOW, TURNS = 8192, 42
FACT = "The code of the blue door is KESTREL-7319."
RECORD = re.compile(r"\[Previous conversation summary: (\d+) messages")


def client_of_the_page() -> ModuleType:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module = ModuleType("host")
    exec(compile(code, PAGE.name, "exec"), vars(module))
    return module


@dataclass
class Talking:
    """A chat of the page's client with a fake model, and the words of its questions and answers in order."""

    chat: Any
    llm: ScriptedLLM
    words: list[str] = field(default_factory=list)

    async def say(self, text: str) -> Request:
        """Says something; returns the first request that the model was sent for it."""
        before = len(self.llm.requests)
        self.words.append(text)
        self.words.append(await asyncio.to_thread(self.chat.say, text))
        return self.llm.requests[before]


def answer(messages: list[Message]) -> str:
    return prose(350, str(messages[-1]["content"])[:60])


@pytest_asyncio.fixture(loop_scope="module")
async def talking(service: Service) -> AsyncIterator[Talking]:
    key = sending(service.filter_key)
    async with scripted_llm(answer) as llm:
        with (
            httpx.Client(base_url=service.url, headers=key, timeout=120) as precis,
            httpx.Client(base_url=llm.openai_url, timeout=120) as http,
        ):
            chat = client_of_the_page().Chat(precis, http, "chat-1", "anna", "model-1", "You are careful.")
            yield Talking(chat, llm)


def size(request: Request) -> int:
    """Tokens of a request, and of the answer that it may get."""
    texts = (json.dumps(part, ensure_ascii=False) for part in (request.messages, request.body["tools"]))
    return sum(map(tokens.count, texts)) + int(request.body["max_tokens"])


def shown(messages: list[Message]) -> tuple[int, list[Any]]:
    """How many messages a request's summary says that it covers, and the words of all others behind the prompt."""
    covered = RECORD.match(messages[1]["content"])
    behind = messages[3:] if covered else messages[1:]
    return int(covered[1]) if covered else 0, [message.get("content") for message in behind]


def asking(arguments: str) -> OtherShape:
    """An answer of the model that looks something up."""
    call = {"id": "c1", "type": "function", "function": {"name": "recall", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return OtherShape({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})


async def test_a_long_chat_stays_in_the_window_and_nothing_is_missing_that_no_summary_covers(
    service: Service, talking: Talking
) -> None:
    for turn in range(TURNS):
        request = await talking.say(f"{FACT if turn == 0 else ''} {prose(150, f'question {turn}')}")
        await drain(service.runtime)

        covered, words = shown(request.messages)
        assert size(request) <= WINDOW
        assert words == talking.words[covered:-1]
    assert covered > TURNS
    assert sum(map(tokens.count, talking.words)) > 2 * WINDOW

    talking.llm.script(asking("{"), asking('{"query": "code blue door", "ref": null}'), Say("It is KESTREL-7319."))
    await talking.say("What was the code of the blue door?")

    looked_up = talking.llm.requests[-1]
    *_, call, result = looked_up.messages
    assert size(looked_up) <= WINDOW
    assert FACT not in shown(looked_up.messages)[1]
    assert (call["tool_calls"][0]["id"], result["role"], result["tool_call_id"]) == ("c1", "tool", "c1")
    assert "KESTREL-7319" in result["content"]

    # The next turn has the call with its result, and the service has stored both.
    request = await talking.say("Thank you.")
    assert request.messages[-4:-1] == [call, result, {"role": "assistant", "content": "It is KESTREL-7319."}]
    stored = (await service.as_operator.get("/v1/chats/chat-1")).json()["chat"]
    assert stored["messages"] == len(talking.chat.path)
