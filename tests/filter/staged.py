"""A short chat, and what a service may answer about it, for tests that need no real service.

`async with against(Answer({...})) as (chat, tap):` gives a chat of a few turns, whose filter talks to that wire;
`summarised()` gives one for which the service has a summary.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from filter_stub import precis_filter
from filter_stub.precis_filter import SUMMARY
from service.request import edit
from tests.filter.chat import PATIENCE, Chat, filter_of
from tests.filter.host import Host
from tests.filter.wire import PROPOSED, Answer, Behaviour, Wire, wire

Json = dict[str, Any]

NOT_NEEDED = Answer({"status": "not_needed", "known": None, "tokens": {"before": 100, "after": 100}})
UNKNOWN = Answer({"status": "unknown"})
MADE = SUMMARY + "2 messages]\nThey talked."


def chat_of(loaded: Any, turns: int = 3) -> Chat:
    """A short chat; its last message is a user's."""
    chat = Chat(Host(), loaded)
    for number in range(turns):
        chat.ask(f"Question {number}")
        chat.answer(f"Answer {number}")
    chat.ask("The last question")
    return chat


def good_answer(chat: Chat, until: str = "a2") -> Json:
    """What a service says when its summary covers the path up to `until`."""
    return {
        "status": "ready",
        "known": until,
        "checkpoint_id": 7,
        "covered_until": until,
        "covered_digest": precis_filter.chain(chat.path(until))[-1].digest,
        "covered_messages": len(chat.path(until)),
        "summary": MADE,
        "tokens": {"before": 9000, "after": 3000},
        "edit": PROPOSED,
        "status_text": edit.summarised(len(chat.path(until)), 9000, 3000),
    }


@contextlib.asynccontextmanager
async def against(
    behaviour: Behaviour,
    timeout: float = PATIENCE,  # noqa: ASYNC109 - a valve
    window: int | None = None,
    **valves: Any,
) -> AsyncIterator[tuple[Chat, Wire]]:
    """A chat whose filter talks to this service."""
    async with wire(behaviour) as tap, filter_of(tap.url, timeout=timeout, **valves) as loaded:
        chat = chat_of(loaded)
        chat.window = window
        yield chat, tap


@contextlib.asynccontextmanager
async def summarised(parts: Json | None = None, **valves: Any) -> AsyncIterator[tuple[Chat, Wire]]:
    """A chat whose first turn has a summary, and the wire to its service; `parts` are otherwise in the answer."""
    async with against(Answer({}), **valves) as (chat, tap):
        tap.behaviour = Answer(good_answer(chat) | (parts or {}))
        yield chat, tap
