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
from service.usecases.install import is_private
from tests.cli.conftest import says
from tests.conftest import Service, fresh_database
from tests.fakes.openwebui_api import EMAIL, PASSWORD, TOKEN, OpenWebUIApi, openwebui_api
from tests.service.talk import Talk, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

FUNCTION = "/api/v1/functions"


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

    async def signing_in(self, **variables: str) -> Result:
        """With an account instead of a key."""
        return await self("--email", EMAIL, key="", PRECIS_OPENWEBUI_PASSWORD=PASSWORD, **variables)

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
    assert install.webui.functions["precis"]["is_global"]
    assert install.webui.functions["precis_events"]["is_active"]
    assert install.webui.valves["precis"]["service_url"] == install.service.url
    assert await install.keys() == [True]
    assert str(install.webui.valves["precis"]["api_key"]) not in result.output


EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]


async def test_it_installs_the_tool_for_everybody_and_gives_it_no_key(install: Installer) -> None:
    result = await install()

    assert "tool precis_recall 1." in result.stdout
    assert install.webui.tools["precis_recall"]["access_grants"] == EVERYBODY
    assert "precis_recall" not in install.webui.valves


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


async def test_it_installs_the_buttons_for_all_chats_and_gives_them_no_key(install: Installer) -> None:
    result = await install()

    assert "function precis_action 1." in result.stdout
    assert "buttons on all models: on" in result.stdout
    action = install.webui.functions["precis_action"]
    assert action["type"] == "action"
    assert action["is_active"]
    assert action["is_global"]
    assert "precis_action" not in install.webui.valves
    assert "nothing to change" in (await install()).stdout

    action["is_global"] = action["is_active"] = False
    await install()
    assert action["is_global"]
    assert action["is_active"]


async def test_without_action_there_are_no_buttons_and_those_that_are_there_go(install: Installer) -> None:
    await install("--no-action")
    assert "precis_action" not in install.webui.functions

    await install()
    assert "function precis_action: deleted" in (await install("--no-action")).stdout
    assert "precis_action" not in install.webui.functions
    assert "nothing to change" in (await install("--no-action")).stdout


@pytest.mark.parametrize("kind", ["action", "filter"])
async def test_an_action_of_somebody_else_is_left_alone(install: Installer, kind: str) -> None:
    title = {"action": "Mine", "filter": "Precis action"}[kind]
    theirs = {"id": "precis_action", "name": "Mine", "type": kind, "content": "", "is_active": True, "is_global": True}
    install.webui.functions["precis_action"] = theirs | {"meta": {"manifest": {"title": title}}}

    says(await install("--no-action"), "the function 'precis_action'", f"{title!r}")
    says(await install.cli("uninstall-filter", "--api-key", TOKEN), f"{title!r}")
    assert install.webui.writes == []


async def test_a_tool_of_somebody_else_is_left_alone(install: Installer) -> None:
    meta = {"manifest": {"title": "Mine"}}
    theirs = {"id": "precis_recall", "name": "Mine", "content": "", "meta": meta, "access_grants": []}
    install.webui.tools["precis_recall"] = theirs

    says(await install(), "the tool 'precis_recall'", "'Mine'")
    says(await install.cli("uninstall-filter", "--api-key", TOKEN), "'Mine'")
    assert install.webui.writes == []


async def test_without_recall_there_is_no_tool_and_one_that_is_there_goes(install: Installer) -> None:
    await install("--no-recall")
    assert install.webui.tools == {}

    await install()
    assert "tool precis_recall: deleted" in (await install("--no-recall")).stdout
    assert install.webui.tools == {}
    assert "nothing to change" in (await install("--no-recall")).stdout


async def test_the_key_is_there_before_the_filter_is_switched_on(install: Installer) -> None:
    await install()

    writes = install.webui.writes
    assert writes.index("POST/id/precis/valves/update") < writes.index("POST/id/precis/toggle")


async def test_a_second_run_writes_nothing_and_does_not_even_open_the_database(install: Installer) -> None:
    await install()
    install.webui.writes.clear()

    result = await install(PRECIS_DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")

    assert result.exit_code == 0, result.output
    assert "nothing to change" in result.stdout
    assert install.webui.writes == []


async def test_it_names_models_whose_tools_leave_little_room(install: Installer) -> None:
    talk = Talk(install.service.as_filter)
    await talk.ingest(talk.turns(2), beside=6415)

    result = await install()

    assert "tools and system prompts take 6.4k of its 8.2k window" in result.stdout


async def test_a_dry_run_writes_nothing(install: Installer) -> None:
    result = await install("--dry-run")

    assert result.exit_code == 0
    assert "would be done: function precis" in result.stdout
    assert install.webui.writes == []
    assert await install.keys() == []


async def test_what_was_set_by_hand_stays_and_only_a_working_new_key_revokes_the_old(install: Installer) -> None:
    await install()
    install.webui.valves["precis"] |= {"timeout": 2.0, "api_key": "lost"}

    install.webui.outlet = {}
    assert (await install()).exit_code == 1
    assert await install.keys() == [True, True]

    install.webui.outlet = None
    install.webui.valves["precis"]["api_key"] = "lost again"
    assert (await install()).exit_code == 0
    assert await install.keys() == [False, False, True]
    assert install.webui.valves["precis"]["timeout"] == 2.0


async def test_a_key_that_the_service_knows_is_kept_although_the_filter_cannot_use_it_yet(install: Installer) -> None:
    install.webui.outlet = {}
    assert (await install()).exit_code == 1
    assert (await install()).exit_code == 1

    assert await install.keys() == [True]


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


INSIDE = [
    "https://precis.example.org",
    "http://127.0.0.1:8377",
    "http://localhost:8377",
    "http://[::1]:8377",
    "http://10.1.2.3",
    "http://192.168.1.7:80/x",
    "http://172.17.0.1",
    "http://[fd00::7]:8377",
    "http://api:8377",
    "http://precis.chat.svc.cluster.local:8377",
    "http://host.docker.internal:8377",
]
OUTSIDE = [
    "http://precis.example.org",
    "http://8.8.8.8:8377",
    "http://[2001:4860:4860::8888]",
    "HTTP://precis.example.org:8377",
    "http://localhost.example.org",
    "http://10.1.2.3.example.org",
]


@pytest.mark.parametrize("url", INSIDE)
async def test_https_and_what_is_inside_may_be_set(url: str) -> None:
    assert is_private(url)


@pytest.mark.parametrize("url", OUTSIDE)
async def test_a_public_address_without_https_is_refused_and_nothing_is_changed(install: Installer, url: str) -> None:
    says(await install("--service-url", url), url, "without https")
    assert install.webui.writes == []
    assert await install.keys() == []


async def test_one_that_was_set_by_hand_is_refused_too(install: Installer) -> None:
    await install()
    install.webui.valves["precis"]["service_url"] = OUTSIDE[0]
    install.webui.outlet = {}

    result = await install.cli("install-filter", "--api-key", TOKEN)

    says(result, OUTSIDE[0], "without https")


async def test_an_open_webui_that_is_too_old_is_told(install: Installer) -> None:
    install.webui.version = "0.8.12"

    says(await install(), "0.8.12", "0.9.6 or newer")


async def test_the_password_may_come_from_a_pipe(install: Installer) -> None:
    result = await install.cli(
        *("install-filter", "--service-url", install.service.url, "--email", EMAIL), answer=f"{PASSWORD}\n"
    )

    assert result.exit_code == 0, result.output
    assert PASSWORD not in result.output


async def test_without_a_terminal_it_is_told_where_the_password_may_stand(install: Installer) -> None:
    says(await install("--email", EMAIL, key=""), "PRECIS_OPENWEBUI_PASSWORD", "PRECIS_OPENWEBUI_KEY")


async def test_a_wrong_password_is_told_with_the_other_ways_to_sign_in(install: Installer) -> None:
    says(await install("--email", EMAIL, key="", PRECIS_OPENWEBUI_PASSWORD="wrong"), EMAIL, "API key")


async def test_too_many_sign_ins_are_told_apart_from_a_wrong_password(install: Installer) -> None:
    install.webui.refuse["POST", "/api/v1/auths/signin"] = 429, "API rate limit exceeded"

    says(await install.signing_in(), "wait")


async def test_a_second_factor_is_told(install: Installer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fakes.openwebui_api.TOKEN", "")

    says(await install.signing_in(), "second factor", "API key")


async def test_a_key_that_is_no_admins_is_told(install: Installer) -> None:
    says(await install(key="sk-of-somebody"), "rejected this as an admin's key", "not for you")


async def test_without_account_and_key_it_says_what_to_give(install: Installer) -> None:
    says(await install(key=""), "--email", "API key")


@pytest.mark.parametrize("switch", ["enable_functions", "enable_plugins"])
async def test_functions_that_are_switched_off_are_told(install: Installer, switch: str) -> None:
    install.webui.features[switch] = False

    says(await install(), "functions are switched off")


async def test_a_function_that_does_not_load_is_told_in_open_webuis_words(install: Installer) -> None:
    install.webui.refuse["POST", f"{FUNCTION}/create"] = 400, "Uh-oh! This id is already registered."

    result = await install()

    assert "already registered" in result.stderr
    assert result.exit_code == 1


async def test_a_function_of_somebody_else_is_left_alone(install: Installer) -> None:
    manifest = {"manifest": {"title": "Mine"}}
    install.webui.functions["precis"] = {
        **{"id": "precis", "name": "Mine", "type": "filter", "content": "", "meta": manifest},
        **{"is_active": True, "is_global": True},
    }

    says(await install(), "'Mine'")
    assert install.webui.writes == []


async def test_the_filter_under_another_id_is_told_because_both_would_run(install: Installer) -> None:
    await install()
    install.webui.functions["by_hand"] = {**install.webui.functions.pop("precis"), "id": "by_hand"}
    install.webui.writes.clear()

    says(await install(), "'by_hand'", "both would run")
    assert install.webui.writes == []


async def test_no_model_yet_is_told(install: Installer) -> None:
    install.webui.models.clear()

    assert "no model yet" in (await install()).stderr


async def test_another_filter_that_fails_is_told(install: Installer) -> None:
    install.webui.refuse["POST", "/api/chat/completed"] = 400, "Error: list index out of range"

    assert "list index out of range" in (await install()).stderr


async def test_a_service_that_is_not_there_is_told_with_what_to_do(install: Installer) -> None:
    result = await install("--service-url", "http://127.0.0.1:1")

    assert result.exit_code == 1
    assert "--service-url" in result.stderr
    assert "PRECIS_HOST" in result.stderr


async def test_a_service_on_another_database_is_told_as_such(install: Installer, servers: Urls) -> None:
    async with fresh_database(servers) as other:
        result = await install(PRECIS_DATABASE_URL=other.database)

    assert "does not know its key" in result.stderr
    assert "PRECIS_DATABASE_URL" in result.stderr


async def test_an_answer_that_is_not_of_precis_is_told(install: Installer) -> None:
    install.webui.outlet = {"precis_check": {"hello": "world"}}

    assert "is not Precis" in (await install()).stderr


async def test_nobody_at_the_address_is_told(install: Installer) -> None:
    says(await install("--url", "http://127.0.0.1:1"), "http://127.0.0.1:1 does not answer")


@pytest.mark.parametrize("url", ["nonsense", "ftp://example.org", "http://127.0.0.1:port"])
async def test_an_address_that_is_none_is_told(install: Installer, url: str) -> None:
    says(await install("--url", url), url)


async def test_something_else_at_the_address_is_told(install: Installer) -> None:
    says(await install("--url", f"{install.service.url}/docs?"), "not as Open WebUI does")


async def test_uninstalling_takes_functions_and_keys_and_a_second_time_finds_none(install: Installer) -> None:
    await install()

    result = await install.cli("uninstall-filter", "--api-key", TOKEN)

    assert "function precis: deleted" in result.stdout
    assert "tool precis_recall: deleted" in result.stdout
    assert install.webui.functions == {}
    assert install.webui.tools == {}
    assert await install.keys() == [False]
    assert "no function of Precis" in (await install.cli("uninstall-filter", "--api-key", TOKEN)).stdout


async def test_a_dry_run_of_uninstalling_takes_nothing(install: Installer) -> None:
    await install()
    install.webui.writes.clear()

    result = await install.cli("uninstall-filter", "--api-key", TOKEN, "--dry-run")

    assert "would be done: function precis: deleted" in result.stdout
    assert install.webui.writes == []
    assert await install.keys() == [True]
