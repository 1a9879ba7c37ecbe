"""`precis install-filter` and `uninstall-filter` on an Open WebUI of their own, as an admin runs them."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from click.testing import CliRunner, Result

from filter_stub import precis_filter, precis_recall
from service.cli import app
from tests.builders import Json
from tests.e2e.openwebui import PASSWORD, OpenWebUI, RefusedError, User, open_webui
from tests.e2e.precis import Precis
from tests.e2e.rig import Rig, source
from tests.e2e.versions import since

REACHED = "the filter in Open WebUI reaches Precis"
UNTOUCHED = "nothing to change"


@dataclass
class Shop:
    """An Open WebUI without the filter, its admin, and the service."""

    server: OpenWebUI
    admin: User
    precis: Precis

    async def run(self, *arguments: str, answer: str = "") -> Result:
        """A command on the service's data, in this process: that saves two seconds each time."""
        ours = {"DATA_DIR": str(self.precis.folder / "data"), "PORT": str(self.precis.port)}
        environment = {f"PRECIS_{name}": value for name, value in ours.items()}
        return await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment, input=answer)

    async def install(self, *more: str) -> str:
        result = await self.run("install-filter", "--url", self.server.url, "--api-key", self.admin.token, *more)
        assert result.exit_code == 0, result.output
        return result.output

    async def refused(self, *more: str) -> str:
        result = await self.run("install-filter", "--url", self.server.url, "--api-key", self.admin.token, *more)
        assert result.exit_code == 1, result.output
        return result.stderr

    async def uninstall(self, *more: str) -> Result:
        return await self.run("uninstall-filter", "--url", self.server.url, "--api-key", self.admin.token, *more)

    async def functions(self) -> dict[str, Json]:
        return {one["id"]: one for one in await self.admin.get("/api/v1/functions/")}

    async def tool(self) -> Json | None:
        try:
            found: Json = await self.admin.get("/api/v1/tools/id/precis_recall")
        except RefusedError:
            return None
        return found

    async def valves(self, function: str = "precis") -> Json:
        valves: Json = await self.admin.get(f"/api/v1/functions/id/{function}/valves")
        return valves

    async def keys(self, scope: str = "filter") -> list[int]:
        """The keys of a scope that the installer made here and nobody has revoked."""
        listed = json.loads((await self.run("keys", "list", "--json")).stdout)["keys"]
        ours = [one for one in listed if self.server.url in one["name"] and one["scope"] == scope]
        return [one["id"] for one in ours if one["revoked_at"] is None]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def open_shop(running: Rig, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    async with open_webui(running.version, folder, running.model.url) as server:
        yield Shop(server, await server.sign_up("admin"), running.precis)


@pytest_asyncio.fixture(loop_scope="session")
async def shop(open_shop: Shop) -> AsyncIterator[Shop]:
    yield open_shop
    await open_shop.uninstall()


async def test_an_admin_with_a_password_installs_it_and_it_reaches_the_service(shop: Shop) -> None:
    who = ("--url", shop.server.url, "--email", shop.admin.email)
    result = await shop.run("install-filter", *who, answer=PASSWORD)

    assert REACHED in result.stdout, result.output
    functions = await shop.functions()
    events = {"precis_events"} if since(shop.server.version, "0.10") else set()
    assert set(functions) == {"precis", "precis_action"} | events
    assert all(one["is_active"] for one in functions.values())
    assert functions["precis"]["is_global"]
    assert functions["precis_action"]["is_global"]
    for name in {"precis"} | events:
        assert (await shop.valves(name))["service_url"] == shop.precis.url
    assert len(await shop.keys()) == 1


async def test_an_api_key_of_an_admin_is_enough_and_a_user_is_not(shop: Shop) -> None:
    key = (await shop.admin.post("/api/v1/auths/api_key"))["api_key"]
    assert REACHED in await shop.install("--api-key", key)

    user = await shop.server.add_user(shop.admin, "somebody")
    assert "admin" in await shop.refused("--api-key", user.token)
    result = await shop.run("install-filter", "--url", shop.server.url, "--email", user.email, answer=PASSWORD)
    assert "use an admin's account" in result.stderr


async def test_the_tool_is_there_for_everybody_and_an_uninstall_takes_all_of_it(shop: Shop) -> None:
    said = await shop.install()

    assert "tool precis_recall" in said
    tool = await shop.tool()
    assert tool
    (spec,) = tool["specs"]
    assert spec["name"] == "precis_recall"
    user = await shop.server.add_user(shop.admin, "reader")
    assert "precis_recall" in [one["id"] for one in await user.get("/api/v1/tools/")]
    assert UNTOUCHED in await shop.install()
    assert await shop.tool() == tool

    await shop.uninstall()

    assert await shop.tool() is None
    assert await shop.functions() == {}
    assert await shop.keys() + await shop.keys("events") == []
    assert "no function" in (await shop.uninstall()).stdout


async def test_older_texts_are_replaced_and_keep_key_name_and_who_may_use_them(shop: Shop) -> None:
    await shop.install()
    keys, tool = await shop.keys(), await shop.tool()
    assert tool
    for kind, name, text, more in (
        ("functions", "precis", source(precis_filter), {}),
        ("tools", "precis_recall", source(precis_recall), {"access_grants": tool["access_grants"]}),
    ):
        old = text.replace("version: ", "version: 0.", 1)
        form = {"id": name, "name": "By hand", "content": old, "meta": {"description": "mine", "manifest": {}}}
        await shop.admin.post(f"/api/v1/{kind}/id/{name}/update", form | more)

        said = await shop.install()

        assert f"{kind.removesuffix('s')} {name}: 0." in said
        now = await shop.admin.get(f"/api/v1/{kind}/id/{name}")
        assert (now["content"], now["name"], now["meta"]["description"]) == (text, "By hand", "mine")
    assert await shop.keys() == keys
    user = await shop.server.add_user(shop.admin, "second-reader")
    assert "precis_recall" in [one["id"] for one in await user.get("/api/v1/tools/")]


async def test_an_open_webui_without_accounts_needs_none(running: Rig, tmp_path: Path) -> None:
    off = {"WEBUI_AUTH": "false"}
    async with open_webui(running.version, tmp_path, running.model.url, environment=off) as server:
        assert REACHED in await running.precis.run("install-filter", "--url", server.url)
