"""`precis install-filter`: what it says and does when something is in the way.

It talks to a fallback of Open WebUI (`tests/fakes/openwebui_api.py`); `tests/e2e/test_installer.py` drives real ones.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from click.testing import CliRunner, Result

from service.cli import app
from service.runtime import Urls
from service.usecases.install.addresses import is_private
from tests.cli.conftest import says
from tests.conftest import Service, fresh_database
from tests.fakes.openwebui_api import EMAIL, PASSWORD, TOKEN, OpenWebUIApi, openwebui_api
from tests.service.talk import rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]


@pytest_asyncio.fixture(loop_scope="module")
async def webui() -> AsyncIterator[OpenWebUIApi]:
    async with openwebui_api() as served:
        yield served


class Installer:
    """The commands, as an admin with a session runs them against the stand-in and a real service."""

    def __init__(self, webui: OpenWebUIApi, service: Service, newest: int) -> None:
        self.webui, self.service = webui, service
        self._newest = newest

    async def cli(self, command: str, *arguments: str, answer: str = "", **variables: str) -> Result:
        """A command with the settings of the service."""
        urls = self.service.runtime.urls
        environment = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis} | variables
        where = (command, "--url", self.webui.url, *arguments)
        return await asyncio.to_thread(CliRunner().invoke, app, where, env=environment, input=answer)

    async def __call__(self, *more: str, key: str = TOKEN, **variables: str) -> Result:
        who = ("--api-key", key) if key else ()
        return await self.cli("install-filter", *who, "--service-url", self.service.url, *more, **variables)

    async def keys(self, scope: str = "filter") -> list[bool]:
        """Of each key of a scope that the installer made for this stand-in, whether it works."""
        query = (
            "select revoked_at is null as works from api_keys"
            " where name = :name and id > :newest and scope = :scope order by id"
        )
        # The port of an earlier stand-in may be this one's, and so the name of its keys.
        name = f"install-filter {self.webui.url}"
        found = await rows(self.service.runtime, query, name=name, newest=self._newest, scope=scope)
        return [row.works for row in found]


@pytest_asyncio.fixture(loop_scope="module")
async def install(webui: OpenWebUIApi, shared_service: Service) -> Installer:
    [found] = await rows(shared_service.runtime, "select coalesce(max(id), 0) as newest from api_keys")
    return Installer(webui, shared_service, found.newest)


async def test_it_installs_and_says_who_answers_the_filter(install: Installer) -> None:
    result = await install()

    assert result.exit_code == 0, result.output
    assert "function precis 1." in result.stdout
    assert "as tenant 'default'" in result.stdout
    assert "tool precis_recall 1." in result.stdout
    assert "buttons on all models: on" in result.stdout
    for name in ("precis", "precis_action"):
        assert install.webui.functions[name]["is_global"]
        assert install.webui.functions[name]["is_active"]
    assert install.webui.tools["precis_recall"]["access_grants"] == EVERYBODY
    assert install.webui.functions["precis_events"]["is_active"]
    assert install.webui.valves["precis"]["service_url"] == install.service.url
    assert await install.keys() == [True]
    assert str(install.webui.valves["precis"]["api_key"]) not in result.output
    assert not {"precis_recall", "precis_action"} & install.webui.valves.keys(), "they need no key"
    writes = install.webui.writes
    assert writes.index("POST/id/precis/valves/update") < writes.index("POST/id/precis/toggle")


@pytest.mark.parametrize(
    ("option", "name"), [("--no-action", "function precis_action"), ("--no-recall", "tool precis_recall")]
)
async def test_what_is_not_wanted_is_not_installed_and_goes_if_it_is_there(
    install: Installer, option: str, name: str
) -> None:
    await install(option)
    stored = install.webui.functions | install.webui.tools
    assert name.split()[1] not in stored

    await install()
    assert f"{name}: deleted" in (await install(option)).stdout
    assert "nothing to change" in (await install(option)).stdout


@pytest.mark.parametrize("name", ["precis", "precis_action", "precis_recall"])
async def test_what_somebody_else_made_under_our_name_is_left_alone(install: Installer, name: str) -> None:
    stored = install.webui.tools if name == "precis_recall" else install.webui.functions
    kind = {"id": name, "name": "Mine", "type": "filter", "content": "", "access_grants": []}
    stored[name] = kind | {"meta": {"manifest": {"title": "Mine"}}, "is_active": True, "is_global": True}

    says(await install(), f"'{name}'", "'Mine'")
    says(await install.cli("uninstall-filter", "--api-key", TOKEN), "'Mine'")
    assert install.webui.writes == []


async def test_a_tool_that_was_made_manually_is_shared_and_one_that_some_groups_have_is_not(install: Installer) -> None:
    await install()
    mine = {"principal_type": "user", "principal_id": "u", "permission": "write"}
    install.webui.tools["precis_recall"]["access_grants"] = [mine]
    assert "shared with everybody" in (await install()).stdout
    assert install.webui.tools["precis_recall"]["access_grants"] == [mine, *EVERYBODY]

    some = [{"principal_type": "group", "principal_id": "g", "permission": "read"}]
    install.webui.tools["precis_recall"]["access_grants"] = some
    assert "nothing to change" in (await install()).stdout
    assert install.webui.tools["precis_recall"]["access_grants"] == some


async def test_each_chats_own_model_writes_unless_another_is_chosen_and_the_choice_stays(install: Installer) -> None:
    await run_sql(install.service.runtime, "update tenants set summariser = null")
    install.webui.models = ["model-1", "model-2"]

    result = await install()
    assert "summaries are written by each chat's own model, which reads a long chat once or twice" in result.stdout
    table = [line.split() for line in result.stdout.splitlines()[-3:]]
    assert table[0] == ["model", "window", "written", "by"]
    assert table[1] == ["model-1", "not", "known,", "131,072", "assumed", "itself"]

    result = await install("--summariser", "model-2", "--no-action")
    assert "summaries are written by model model-2" in result.stdout
    assert result.stdout.splitlines()[-2].endswith("model-2")
    result = await install()
    assert "summaries are written by model model-2" in result.stdout, "it stays as it is"

    assert "summaries are written by code alone" in (await install("--summariser", "none")).stdout
    assert "summaries are written by code alone" in (await install()).stdout
    (row,) = await rows(install.service.runtime, "select summariser from tenants where name = 'default'")
    assert row.summariser == ""


async def test_a_model_that_open_webui_does_not_have_writes_nothing(install: Installer) -> None:
    result = await install("--summariser", "model-9")
    assert result.exit_code == 1
    assert "has no model 'model-9' to write summaries; it has model-1, model-2" in result.stderr
    assert install.webui.writes == []


async def test_another_database_is_told_as_such_and_a_second_run_needs_none(install: Installer, servers: Urls) -> None:
    async with fresh_database(servers) as other:
        unknown = await install(PRECIS_DATABASE_URL=other.database)
        assert "does not know its key" in unknown.stderr
        assert "PRECIS_DATABASE_URL" in unknown.stderr
        await install()
        install.webui.writes.clear()

        result = await install(PRECIS_DATABASE_URL=other.database)

    assert result.exit_code == 0, result.output
    assert "nothing to change" in result.stdout
    assert install.webui.writes == []


async def test_what_was_set_by_hand_stays_and_only_a_working_new_key_revokes_the_old(install: Installer) -> None:
    await install()
    install.webui.valves["precis"] |= {"timeout": 2.0, "api_key": "lost"}

    install.webui.outlet = {}
    for _ in range(2):  # the service knows the new key, though the filter cannot use it yet
        assert (await install()).exit_code == 1
        assert await install.keys() == [True, True]

    install.webui.outlet = None
    install.webui.valves["precis"]["api_key"] = "lost again"
    assert (await install()).exit_code == 0
    assert await install.keys() == [False, False, True]
    assert install.webui.valves["precis"]["timeout"] == 2.0


async def test_the_events_function_gets_a_key_of_its_own_in_the_place_of_any_other(install: Installer) -> None:
    await install()
    valves = install.webui.valves
    first = valves["precis_events"]["api_key"]
    assert str(first).startswith("precis_ev_")
    assert await install.keys("events") == [True]

    valves["precis_events"]["api_key"] = valves["precis"]["api_key"]
    assert "events key for tenant 'default': made" in (await install()).stdout
    assert str(valves["precis_events"]["api_key"]).startswith("precis_ev_")
    assert valves["precis_events"]["api_key"] != first
    assert await install.keys("events") == [False, True]
    assert await install.keys() == [True], "the filter's works, and stays"


async def test_another_tenant_gets_a_key_of_its_own(install: Installer) -> None:
    await install()

    result = await install("--tenant", "second")

    assert "as tenant 'second'" in result.stdout
    assert await install.keys() == [False, True]
    assert "as tenant 'second'" in (await install()).stdout  # and keeps it


async def test_an_address_outside_is_refused_without_https_and_nothing_is_changed(install: Installer) -> None:
    inside = ["https://precis.example.org", "http://[::1]:8377", "http://10.1.2.3", "http://[fd00::7]:8377"]
    inside += ("http://api:8377", "http://precis.chat.svc.cluster.local:8377", "http://host.docker.internal:8377")
    outside = ["http://precis.example.org", "http://8.8.8.8:8377", "http://[2001:4860:4860::8888]"]
    outside += ("HTTP://precis.example.org:8377", "http://localhost.example.org", "http://10.1.2.3.example.org")
    assert [url for url in inside if not is_private(url)] == []
    assert [url for url in outside if is_private(url)] == []

    says(await install("--service-url", outside[0]), outside[0], "without https")
    assert install.webui.writes == []
    assert await install.keys() == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), ("--email", "API key")),
        (("--email", EMAIL), ("stdin", "PRECIS_OPENWEBUI_KEY")),
        (("--api-key", "sk-of-somebody"), ("rejected the API key", "not for you")),
        (("--api-key", TOKEN, "--url", "http://127.0.0.1:1"), ("http://127.0.0.1:1 does not answer",)),
    ],
)
async def test_what_was_given_wrongly_is_told(
    install: Installer, given: tuple[str, ...], told: tuple[str, ...]
) -> None:
    says(await install.cli("install-filter", *given), *told)


async def test_an_open_webui_in_which_it_cannot_run_is_told(install: Installer) -> None:
    webui = install.webui
    webui.version = "0.8.12"
    says(await install(), "0.8.12", "0.9.6 or newer")
    webui.version = "0.12.4"
    webui.features["enable_plugins"] = False
    says(await install(), "functions are switched off")


@pytest.mark.parametrize(
    ("path", "status", "said", "told"),
    [
        ("/api/v1/functions/create", 400, "Uh-oh! This id is already registered.", "already registered"),
        ("/api/chat/completed", 400, "Error: list index out of range", "list index out of range"),
    ],
)
async def test_what_open_webui_refuses_is_told_in_its_words(
    install: Installer, path: str, status: int, said: str, told: str
) -> None:
    install.webui.refuse["POST", path] = status, said

    assert told in (await install("--email", EMAIL, key="", answer=PASSWORD)).stderr


async def test_a_service_that_does_not_answer_the_filter_is_told(install: Installer) -> None:
    nobody = await install("--service-url", "http://127.0.0.1:1")
    assert nobody.exit_code == 1
    assert "--service-url" in nobody.stderr
    install.webui.outlet = {"precis_check": {"hello": "world"}}
    assert "is not Precis" in (await install()).stderr


async def test_a_service_of_another_version_is_named(install: Installer) -> None:
    install.webui.outlet = {"precis_check": {"version": "0.9.0", "tenant": "default", "models": {"small-model": 4096}}}
    assert "reaches Precis 0.9.0 as tenant 'default'" in (await install()).stdout


async def test_the_filter_under_another_id_is_told_because_both_would_run(install: Installer) -> None:
    await install()
    install.webui.functions["by_hand"] = {**install.webui.functions.pop("precis"), "id": "by_hand"}
    install.webui.writes.clear()

    says(await install(), "'by_hand'", "both would run")
    assert install.webui.writes == []


async def test_uninstalling_takes_functions_and_keys_and_a_second_time_finds_none(install: Installer) -> None:
    await install()

    result = await install.cli("uninstall-filter", "--api-key", TOKEN)

    assert "function precis: deleted" in result.stdout
    assert "tool precis_recall: deleted" in result.stdout
    assert install.webui.functions == {}
    assert install.webui.tools == {}
    assert await install.keys() == [False]
    (row,) = await rows(install.service.runtime, "select summariser from tenants where name = 'default'")
    assert row.summariser is None
    assert "no function of Precis" in (await install.cli("uninstall-filter", "--api-key", TOKEN)).stdout
