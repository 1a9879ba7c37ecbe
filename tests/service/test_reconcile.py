"""What Open WebUI has no more is deleted here: only when that is certain, and never much at once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from click.testing import CliRunner
from pydantic import SecretStr

from service.cli import app
from tests.conftest import Service
from tests.fakes.openwebui_api import ADMIN, TOKEN, OpenWebUIApi, openwebui_api
from tests.service.harness import Harness
from tests.service.talk import Talk, row, rows
from workers.jobs import compare

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def stored(service: Service) -> dict[str, str]:
    """Ten chats of two users, and one that Open WebUI never has."""
    owners = {f"chat-{number}": f"user-{number % 2}" for number in range(10)}
    for chat, user in [*owners.items(), ("content:4711", "user-0")]:
        talk = Talk(service.as_filter, chat, user=user)
        await talk.ingest(talk.turns(1, 60))
    return owners


@pytest_asyncio.fixture(loop_scope="module")
async def webui() -> AsyncIterator[OpenWebUIApi]:
    """One that shows its admin the chats of others."""
    async with openwebui_api() as running:
        running.features["enable_admin_chat_access"] = True
        yield running


async def left(service: Service) -> list[str]:
    return [one.external_id for one in await rows(service.runtime, "select external_id from chats order by 1")]


async def reconciled(service: Service, webui: OpenWebUIApi, *options: str) -> str:
    """The output of the command."""
    urls = service.runtime.urls
    environment = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis}
    environment |= {"PRECIS_OPENWEBUI_URL": webui.url, "PRECIS_OPENWEBUI_KEY": TOKEN}
    done = await asyncio.to_thread(CliRunner().invoke, app, ["reconcile", *options], env=environment)
    return done.output


async def test_chats_that_open_webui_has_no_more_are_deleted_and_do_not_come_back(
    service: Service, webui: OpenWebUIApi
) -> None:
    owners = await stored(service)
    webui.chats = {chat: user for chat, user in owners.items() if chat not in ("chat-3", "chat-4")}

    assert "2 of 10 chats would be deleted" in await reconciled(service, webui, "--dry-run")
    assert len(await left(service)) == 11
    assert "2 of 10 chats were deleted" in await reconciled(service, webui)

    assert await left(service) == sorted([*webui.chats, "content:4711"])
    again = Talk(service.as_filter, "chat-3", user="user-1")
    assert (await again.put(again.turn(again.turns(1)))).status_code == 410
    assert (await row(service.runtime, "select distinct actor, action from audit")) == ("cli", "chat.delete")


async def test_more_than_a_fifth_is_not_deleted_unless_the_operator_says_so(
    service: Service, webui: OpenWebUIApi
) -> None:
    owners = await stored(service)
    webui.chats = dict(list(owners.items())[3:])
    assert "more than 20 %" in await reconciled(service, webui)
    assert len(await left(service)) == 11
    assert "3 of 10 chats were deleted" in await reconciled(service, webui, "--most", "30")


@pytest.mark.parametrize("status", [404, 503])
async def test_after_an_error_nothing_is_deleted(service: Service, webui: OpenWebUIApi, status: int) -> None:
    owners = await stored(service)
    webui.chats = {chat: user for chat, user in owners.items() if chat != "chat-3"}
    webui.refuse["GET", "/api/v1/chats/chat-9"] = status, "something else"
    assert "refuses" in await reconciled(service, webui)
    assert len(await left(service)) == 11


async def test_an_admin_who_is_shown_no_chats_of_others_deletes_none_of_theirs(
    service: Service, webui: OpenWebUIApi
) -> None:
    await stored(service)
    own = Talk(service.as_filter, "own", user=ADMIN)
    await own.ingest(own.turns(1))
    webui.chats = {"own": ADMIN}
    assert "no chat of other users" in await reconciled(service, webui, "--most", "100")
    assert len(await left(service)) == 12


async def test_a_worker_does_it_where_address_and_key_are_set(harness: Harness, webui: OpenWebUIApi) -> None:
    owners = await stored(harness.service)
    webui.chats = {chat: user for chat, user in owners.items() if chat != "chat-3"}
    context = harness.worker_context()
    await compare({"context": context})
    assert len(await left(harness.service)) == 11
    update = {"openwebui_url": webui.url, "openwebui_key": SecretStr(TOKEN)}
    configured = replace(context, settings=context.settings.model_copy(update=update))
    await compare({"context": configured})
    assert len(await left(harness.service)) == 10
