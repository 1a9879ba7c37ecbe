"""The chat's own model writes its summaries: three commands on a fresh Open WebUI, and no setting.

What the model is asked for a summary is told from a chat's question by the temperature that Precis sends.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest_asyncio

from tests.builders import Json
from tests.e2e import recorder
from tests.e2e.model import MODELS, Model, Received, Reply, echo, model_server
from tests.e2e.openwebui import OpenWebUI, User, open_webui
from tests.e2e.precis import Precis, fact, keep_facts, precis
from tests.e2e.rig import filler, source
from tests.e2e.tab import Tab
from tests.e2e.tab import tab as open_tab
from tests.waiting import until

WINDOW = 16_384
BY_MODEL = f"openwebui:{MODELS[0]}"


@dataclass
class Fresh:
    """A fresh Open WebUI with the filter, its model, and a Precis without any setting of a summariser."""

    model: Model
    precis: Precis
    server: OpenWebUI
    admin: User
    said: str

    def script(self, write: Callable[[Received], Reply]) -> list[Received]:
        """How the model answers when it is asked for a summary; what it is asked is in the list."""
        asked: list[Received] = []

        def answer(received: Received) -> Reply:
            if not is_for_summary(received):
                return Reply(f"{echo(received).text}\n\n{filler('a', 600)}")
            asked.append(received)
            return write(received)

        self.model.reset()
        self.model.answer = answer
        return asked

    async def talk(self, tab: Tab, turns: int, word: str) -> None:
        """So many turns of a user who names a gate in each; chats with equal words would share their summaries."""
        for number in range(turns):
            await tab.send(f"{fact(f'{word}{number}')} {filler('q', 120)} What was that?")

    async def made(self, tab: Tab) -> list[Json]:
        """The checkpoints of a chat, the oldest first."""
        shown = await self.precis.show(str(tab.chat_id))
        return list((shown or {"checkpoints": []})["checkpoints"])

    async def has_written(self, tab: Tab) -> bool:
        return any(one["summariser"].startswith("openwebui:") for one in await self.made(tab))

    async def last_error(self, tab: Tab) -> str:
        shown = await self.precis.show(str(tab.chat_id))
        return str(((shown or {}).get("chat") or {}).get("last_error"))


async def install_recorder(admin: User, url: str) -> None:
    """A filter that runs on all models, and tells what it sees."""
    form = {"id": "recorder", "name": "recorder", "content": source(recorder)}
    await admin.post("/api/v1/functions/create", {**form, "meta": {"description": "recorder", "manifest": {}}})
    await admin.post("/api/v1/functions/id/recorder/valves/update", {"url": url})
    await admin.post("/api/v1/functions/id/recorder/toggle")
    await admin.post("/api/v1/functions/id/recorder/toggle/global")


def is_for_summary(received: Received) -> bool:
    return received.body.get("temperature") == 0.3


def writes(received: Received) -> Reply:
    return Reply(keep_facts(received.messages))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fresh(version: str, tmp_path_factory) -> AsyncIterator[Fresh]:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("own-model")
    async with model_server() as model, precis(None, WINDOW) as service:
        model.window = WINDOW
        async with open_webui(version, folder, model.url) as server:
            admin = await server.sign_up("admin")
            said = await service.run("install-filter", "--url", server.url, "--api-key", admin.token)
            await install_recorder(admin, model.url)
            yield Fresh(model, service, server, admin, said)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(fresh: Fresh) -> AsyncIterator[Tab]:
    async with open_tab(fresh.admin) as opened:
        yield opened


async def test_after_three_commands_the_chats_own_model_has_written_what_its_chat_is_served(
    fresh: Fresh, tab: Tab
) -> None:
    assert "summaries are written by each chat's own model" in fresh.said
    asked = fresh.script(writes)

    await fresh.talk(tab, 30, "north")
    await until(lambda: fresh.has_written(tab), 60)
    await fresh.precis.settled(str(tab.chat_id), tab.current)

    made = await fresh.made(tab)
    assert {one["summariser"] for one in made if one["kind"] != "interim"} == {BY_MODEL}
    deepest = max(made, key=lambda one: one["covered_messages"])
    assert deepest["covered_messages"] >= 40
    await tab.send(f"{filler('q', 120)} And then?")
    newest = [one for one in fresh.model.received if not is_for_summary(one)][-1]
    assert fact("north0") in str(newest.messages), "the model has kept it"
    assert all(one.tokens + one.tool_tokens <= WINDOW for one in fresh.model.received)
    assert not [one for one in fresh.model.built if len(one.messages) == 2 and one.messages[0] in asked[0].messages]
    # Nothing of Open WebUI goes along, and nothing of the call is kept there.
    assert all("tools" not in one.body and len(one.messages) in (2, 4) for one in asked)
    chats = await fresh.admin.get("/api/v1/chats/")
    assert [one["id"] for one in chats] == [tab.chat_id]
    tasks = [one for one in fresh.model.tasks if "Previous state" in str(one.messages)]
    assert not tasks, "no title, tag or follow-up is made of a summary"


async def test_a_model_that_always_fails_is_not_noticed_and_its_cause_is_shown(fresh: Fresh, tab: Tab) -> None:
    asked = fresh.script(lambda _: Reply(status=500))

    await fresh.talk(tab, 12, "east")

    async def is_told() -> bool:
        return "HTTP 500" in await fresh.last_error(tab) or "HTTP 400" in await fresh.last_error(tab)

    await until(is_told, 60)
    assert asked
    requests = [one for one in fresh.model.received if not is_for_summary(one)]
    assert len(requests) == 12
    assert all(one.tokens + one.tool_tokens <= WINDOW for one in requests)
    assert not await fresh.has_written(tab)
    assert {one["summariser"] for one in await fresh.made(tab)} == {"extractive"}
    assert BY_MODEL in await fresh.precis.run("status")


async def test_a_model_that_takes_its_time_holds_up_nobody_and_is_used_at_last(fresh: Fresh) -> None:
    slow = asyncio.Event()

    def takes_long(received: Received) -> Reply:
        return Reply(keep_facts(received.messages), hold=slow)

    asked = fresh.script(takes_long)

    def count_of_chat() -> int:
        return sum("gate south" in str(one.messages) for one in asked)

    # Another model: the one that failed may be left alone for a while.
    async with open_tab(fresh.admin, MODELS[1]) as tab:
        try:
            await fresh.talk(tab, 14, "south")
            await until(lambda: count_of_chat() == 1, 120)
            await fresh.talk(tab, 3, "west")
            assert count_of_chat() == 1, "one prompt of a chat at a time, whatever its user does"
            assert not await fresh.has_written(tab)
        finally:
            slow.set()
        await until(lambda: fresh.has_written(tab), 60)


async def test_a_button_has_the_model_write_at_once(fresh: Fresh) -> None:
    fresh.script(writes)
    async with open_tab(fresh.admin, MODELS[1]) as tab:
        await fresh.talk(tab, 12, "up")
        await until(lambda: fresh.has_written(tab), 60)
        await fresh.precis.settled(str(tab.chat_id))
        await fresh.precis.run("chats", "reset", str(tab.chat_id), "--yes")
        assert not await fresh.has_written(tab)

        await tab.click("precis_action.now", True)

        await until(lambda: fresh.has_written(tab), 60)
