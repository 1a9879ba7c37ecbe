"""Whose chats the filter reads and sends: up to 0.10, Open WebUI lets anybody name any chat."""

import sys
import time
from types import ModuleType
from typing import Any

import pytest

from filter_stub.precis_filter import GONE
from tests.builders import said
from tests.filter.chat import Chat, ingested
from tests.filter.staged import NOT_NEEDED, against
from tests.filter.wire import Answer

EVIL = "user of another chat"
DELETED = Answer({"type": "urn:precis:problem:gone", "status": 410, "detail": "deleted"}, 410)


async def completed(chat: Chat, user: str) -> None:
    """`POST /api/chat/completed`, which runs outlet on any chat id and any messages."""
    mine: list[dict[str, Any]] = [{"id": "x1", "role": "user", "content": "Take it over."}]
    mine.append({"id": "x2", "role": "assistant", "content": "Done.", "output": [said("Done.")]})
    body = {"model": "m", "messages": mine, "chat_id": chat.id, "id": "x2", "session_id": "s"}
    metadata = {"chat_id": chat.id, "message_id": "x2", "session_id": "s", "filter_ids": [], "user_id": user}
    with chat.host.importable():
        assert await chat.filter.outlet(body, __metadata__=metadata, __user__={"id": user}) is body
        await ingested(chat.filter)


def running(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    module = ModuleType("open_webui.env")
    module.__dict__["VERSION"] = version
    monkeypatch.setitem(sys.modules, "open_webui.env", module)


@pytest.mark.parametrize("version", ["0.6.43", "0.7.2", "0.8.12", "0.9.6", "0.10.2"])
async def test_another_users_chat_is_neither_sent_nor_asked_for(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    running(monkeypatch, version)
    async with against(NOT_NEEDED) as (chat, tap):
        chat.host.owners[chat.id] = chat.user
        await completed(chat, EVIL)
        turn = await chat.inlet(user_id=EVIL)
        assert tap.seen == []
        assert turn.messages == turn.original


async def test_ones_own_chat_is_sent_and_open_webui_is_asked_once_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch, "0.9.6")
    async with against(NOT_NEEDED) as (chat, tap):
        chat.host.owners[chat.id] = chat.user
        await chat.reply(await chat.inlet(), "An answer")
        chat.host.owners[chat.id] = "nobody asks again"
        await chat.say("Next", "An answer")
        assert tap.asked == ["POST context", "PUT transcript"] * 2


async def test_since_0_11_open_webui_checks_it_itself_and_who_may_continue_a_chat_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running(monkeypatch, "0.12.4")
    async with against(NOT_NEEDED) as (chat, tap):
        chat.host.owners[chat.id] = "who shares it"
        await chat.reply(await chat.inlet(), "An answer")
        assert tap.asked == ["POST context", "PUT transcript"]


async def test_a_chat_that_was_deleted_is_left_alone_without_an_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with against(NOT_NEEDED) as (chat, tap):
        turn = await chat.inlet()
        tap.behaviour = DELETED
        await chat.reply(turn, "An answer")
        before = list(tap.asked)
        again = await chat.say("Still there?", "Yes.")
        assert tap.asked == before
        assert again.messages == again.original
        assert chat.host.statuses == []
        assert caplog.records == []
        real = time.monotonic
        monkeypatch.setattr("time.monotonic", lambda: real() + GONE)
        tap.behaviour = NOT_NEEDED
        await chat.say("And now?", "Yes.")
        assert len(tap.asked) > len(before)
