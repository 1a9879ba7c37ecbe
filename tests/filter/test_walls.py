"""To whom the functions in Open WebUI send key and texts, and whose: no proxy, nobody on the way, no other user's."""

from types import ModuleType

import httpx
import pytest

from filter_stub import precis_events, precis_filter
from tests.conftest import Service
from tests.filter.chat import Chat
from tests.service.events import tell
from tests.service.talk import rows

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


async def test_who_names_another_users_chat_plants_nothing_in_it(chat: Chat, service: Service) -> None:
    await chat.say("One", "1")
    await chat.say("Two", "2")
    evil = Chat(chat.host, chat.filter, chat.id, user="user of another chat", numbers=100)
    evil.ask("Words of somebody else")
    evil.answer("Yes.")
    await evil.say("And these", "Yes.")
    await service.stored()
    query = "select host_id, user_id from messages join chats on chats.id = chat_id where external_id = :chat"
    stored = await rows(service.runtime, query, chat=chat.id)
    assert {(one.host_id, one.user_id) for one in stored} == {(f, chat.user) for f in ("u1", "a2", "u3", "a4")}


async def test_who_may_continue_a_shared_chat_does(chat: Chat, service: Service) -> None:
    """Since 0.11, Open WebUI itself checks who may."""
    await chat.say("One", "1")
    chat.user = "with whom it is shared"
    await chat.say("Two", "2")
    query = "select host_id from messages join chats on chats.id = chat_id where external_id = :chat"
    stored = await rows(service.runtime, query, chat=chat.id)
    assert {one.host_id for one in stored} == {"u1", "a2", "u3", "a4"}


async def test_a_chat_that_was_deleted_is_not_stored_again_and_is_no_outage(chat: Chat, service: Service) -> None:
    await chat.say("One", "1")
    await tell(service, "chat.deleted", chat_id=chat.id)
    await chat.say("Two", "2")
    await service.stored()
    assert not await rows(service.runtime, "select 1 from chats where external_id = :chat", chat=chat.id)
    assert chat.filter._failures == 0
