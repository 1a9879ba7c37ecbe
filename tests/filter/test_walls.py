"""To whom the functions in Open WebUI send key and texts, and whose: no proxy, nobody on the way, no other user's."""

from types import ModuleType

import httpx
import pytest

from filter_stub import precis_events, precis_filter
from tests.filter.staged import NOT_NEEDED, against
from tests.filter.wire import Answer

FUNCTIONS = [precis_filter, precis_events]
each = pytest.mark.parametrize("module", FUNCTIONS, ids=lambda one: one.__name__)


@each
async def test_the_proxy_of_the_environment_is_not_used(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with httpx.AsyncClient(mounts=module.DIRECT) as http:
        for url in ("http://precis", "https://precis"):
            assert http._transport_for_url(httpx.URL(url)) is http._transport, url


# Whose chats: up to 0.10, Open WebUI lets anybody name any chat


EVIL = "user of another chat"
DELETED = Answer({"type": "urn:precis:problem:gone", "status": 410, "detail": "deleted"}, 410)


@pytest.mark.parametrize("version", ["0.9.6", "0.10.2"])
async def test_another_users_chat_is_neither_sent_nor_asked_for(version: str) -> None:
    async with against(NOT_NEEDED) as (chat, tap):
        chat.host.version = version
        chat.host.owners[chat.id] = chat.user
        turn = await chat.inlet(user_id=EVIL)
        await chat.reply(turn, "An answer")
        assert tap.seen == []
        assert turn.messages == turn.original


async def test_what_a_client_reports_of_an_answer_by_itself_is_not_sent() -> None:
    """`POST /api/chat/completed` runs outlet on any chat id and any messages, with metadata of its own."""
    async with against(NOT_NEEDED) as (chat, tap):
        turn = await chat.inlet()
        tap.seen.clear()
        turn.metadata = {"chat_id": chat.id, "message_id": chat.leaf, "session_id": "s", "user_id": chat.user}
        await chat.reply(turn, "An answer")
        assert tap.seen == []


async def test_since_0_11_open_webui_checks_it_itself_and_who_may_continue_a_chat_does() -> None:
    async with against(NOT_NEEDED) as (chat, tap):
        chat.host.owners[chat.id] = "who shares it"
        await chat.reply(await chat.inlet(), "An answer")
        assert tap.asked == ["POST context", "PUT transcript"]


async def test_a_chat_that_was_deleted_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with against(NOT_NEEDED) as (chat, tap):
        turn = await chat.inlet()
        tap.behaviour = DELETED
        await chat.reply(turn, "An answer")
        assert tap.asked == ["POST context", "PUT transcript"]
        assert caplog.records == []
