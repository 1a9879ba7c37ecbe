"""A client of Open WebUI's API, or a temporary chat: it sends its whole list each time, and no message has an id.

`Client(loaded).send(messages)` is one request through `inlet`; what came of it is a `Turn`, as for saved chats.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.demo.host import pass_hooks
from service.transcript import Native
from tests.builders import Json
from tests.filter.chat import MODEL, Turn, filler, ingested
from tests.filter.host import Host


@dataclass
class Client:
    """Who asks. `chat_id` is "" for API clients, and the same for all temporary chats of one tab."""

    filter: Any
    user: str | None = "user-1"
    chat_id: str = ""
    host: Host = field(default_factory=Host)
    window: int | None = None

    async def send(self, messages: Sequence[Native], **metadata: object) -> Turn:
        """One request, up to the model; Open WebUI gives no emitter to the filters of an API client."""
        told: Json = {"user_id": self.user, "chat_id": self.chat_id, "message_id": None, "user_message_id": None}
        told |= {"user_message": None} | metadata
        body: Json = {"model": MODEL, "stream": False, "messages": copy.deepcopy(list(messages)), "metadata": told}
        if self.window:
            body["num_ctx"] = self.window
        turn = Turn(copy.deepcopy(body["messages"]), body, told)
        with self.host.importable():
            await pass_hooks(self.filter, body, __metadata__=told, __model__={}, __event_emitter__=None)
        await ingested(self.filter)
        return turn

    async def reply(self, turn: Turn, text: str) -> None:
        """`outlet` as it is for chats that Open WebUI does not save: the list as sent, ids but for the answer null."""
        sent = [{"id": None, "role": one["role"], "content": one["content"] or ""} for one in turn.messages]
        answer = {"id": "msg_1", "role": "assistant", "content": text, "usage": {"prompt_tokens": 9}}
        body = {"model": MODEL, "messages": [*sent, answer], "chat_id": self.chat_id, "id": "msg_1"}
        assert await self.filter.outlet(body, __metadata__=turn.metadata, __user__={"id": self.user}) is body
        await ingested(self.filter)


def asks(text: str) -> Native:
    return {"role": "user", "content": text}


def says(text: str) -> Native:
    return {"role": "assistant", "content": text}


def step(identity: str, result: str, text: str | None = None) -> list[Native]:
    """One call of a tool, and what it returned."""
    function = {"name": "query", "arguments": '{"sql": "select 1"}'}
    return [
        {
            "role": "assistant",
            "content": text,
            "tool_calls": [{"id": identity, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": identity, "content": result},
    ]


def conversation(turns: int, tokens: int = 450, word: str = "w") -> list[Native]:
    """So many turns, each with a word of its own in question and answer, and a tool call in every second one."""
    out: list[Native] = [{"role": "system", "content": "You are a careful assistant."}]
    for number in range(turns):
        loop = step(f"{word}{number}", filler(f"{word}{number}r", tokens // 2)) if number % 2 else []
        out += [asks(filler(f"{word}{number}q", tokens)), *loop, says(filler(f"{word}{number}a", tokens))]
    return out
