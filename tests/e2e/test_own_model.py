"""The chat's own model writes its summaries: three commands on a fresh Open WebUI, and no setting.

What the model is asked for a summary is told from a chat's question by the temperature that Precis sends.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest_asyncio

from tests.builders import Json
from tests.e2e import recorder
from tests.e2e.model import MODELS, Model, Received, Reply, echo, model_server
from tests.e2e.openwebui import OpenWebUI, User, open_webui
from tests.e2e.precis import Precis, fact, keep_facts, precis
from tests.e2e.rig import filler, install_filter, source
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
        shown = await self.precis.show(str(tab.chat_id))
        return list((shown or {"checkpoints": []})["checkpoints"])

    async def has_written(self, tab: Tab) -> bool:
        return any(one["summariser"].startswith("openwebui:") for one in await self.made(tab))


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
            await install_filter(admin, "recorder", source(recorder))
            await admin.post("/api/v1/functions/id/recorder/valves/update", {"url": model.url})
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

    shown = await fresh.precis.show(str(tab.chat_id))
    assert shown
    assert shown["chat"]["title"] == "A scripted chat", "operators see the title that Open WebUI's own task has made"
    made = shown["checkpoints"]
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
