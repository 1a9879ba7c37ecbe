"""Commands on this machine: settings, the schema, first keys, and what is said where there is no database."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli import app
from service.cli.output import print_object, print_page, say
from service.runtime import Urls
from service.storage import keys
from service.text.characters import escape_hidden
from tests.cli.conftest import Cli, says
from tests.conftest import Service, execute
from tests.service.talk import row, rows, run_sql

KEY = f"precis_op_{'0123456789abcdef' * 4}"


async def test_a_first_key_is_made_in_the_database_and_a_new_tenant_with_it(cli: Cli, service: Service) -> None:
    made = await cli("keys", "create", "--first", "--tenant", "second", "--name", "of its operator")

    key = made.stdout.strip()
    assert key.startswith("precis_op_")
    stored = await row(
        service.runtime,
        "select api_keys.*, tenants.name as tenant from api_keys join tenants on tenants.id = tenant_id"
        " where api_keys.name = 'of its operator'",
    )
    assert (stored.tenant, stored.scope, stored.hash) == ("second", "operator", keys.hash_key(key))
    audited = await row(service.runtime, "select actor, action from audit")
    assert tuple(audited) == ("precis keys", "key.create")
    opened = await service.as_filter.get("/v1/chats", headers={"Authorization": f"Bearer {key}"})
    assert (opened.status_code, opened.json()["chats"]) == (200, [])


async def test_migrate_stores_the_key_of_the_commands_as_the_first_and_no_other(cli: Cli, service: Service) -> None:
    await run_sql(service.runtime, "delete from api_keys")
    first = "The key of PRECIS_KEY is stored as the first operator key."

    says(
        await cli("migrate", PRECIS_KEY="secret"), "PRECIS_KEY cannot become the first operator key", "scripts/secrets"
    )
    assert first in (await cli("migrate", PRECIS_KEY=KEY)).stdout
    assert first not in (await cli("migrate", PRECIS_KEY=KEY)).stdout
    assert first not in (await cli("migrate", PRECIS_KEY=KEY.upper())).stdout
    (stored,) = await rows(service.runtime, "select hash, scope from api_keys")
    assert tuple(stored) == (keys.hash_key(KEY), "operator")

    await run_sql(service.runtime, "update api_keys set revoked_at = now()")
    says(await cli("migrate", PRECIS_KEY=KEY), "was revoked")


def test_control_characters_are_written_out_and_nothing_else() -> None:
    told = "Grüße 😀 👩‍👩‍👧\tו\nnext \x1b[0m \x85 \x7f \u2028 \u2066"

    assert escape_hidden(told) == "Grüße 😀 👩‍👩‍👧\tו\nnext \\x1b[0m \\x85 \\x7f \\u2028 \\u2066"


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e[red]"


@pytest.mark.parametrize("as_json", [False, True])
def test_no_control_character_of_others_reaches_a_terminal(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    one = {"id": HOSTILE, "states": [HOSTILE], "parts": {"text": HOSTILE}}
    print_page({"chats": [one], "next": HOSTILE}, "chats", "id states parts", as_json)
    print_object({"text": HOSTILE, "names": [HOSTILE], "deep": {"more": HOSTILE}})
    say(HOSTILE, err=True)

    said = "".join(capsys.readouterr())
    assert said.count("owned") >= 8
    assert not set(HOSTILE) & {*"\x1b\x07\x9b\r\u202e"} & set(said)


async def test_retention_counts_what_it_removed(cli: Cli) -> None:
    assert "bodies       0\n" in (await cli("retention")).stdout


async def test_reconciling_needs_an_address_a_key_and_a_tenant(cli: Cli) -> None:
    says(await cli("reconcile"), "PRECIS_OPENWEBUI_URL", "PRECIS_OPENWEBUI_KEY")
    there = {"PRECIS_OPENWEBUI_URL": "http://127.0.0.1:1", "PRECIS_OPENWEBUI_KEY": "sk-x"}
    says(await cli("reconcile", "--tenant", "nobody", **there), "no tenant has the name 'nobody'")


LOCAL = [["keys", "create", "--first"], ["tenants", "erase", "x", "--yes"], ["retention"]]


def test_a_command_where_there_is_no_database_says_so_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = f"{tmp_path / 'precis-data'} has no database of Precis"

    for command in LOCAL:
        says(CliRunner().invoke(app, command), told, "PRECIS_DATA_DIR", "PRECIS_DATABASE_URL", "precis serve")
    assert [*tmp_path.rglob("*")] == []


async def test_a_command_does_not_migrate_the_database_that_it_looks_at(cli: Cli, urls: Urls) -> None:
    await execute(urls.database, "drop schema public cascade", "create schema public")

    for command in LOCAL:
        says(await cli(*command), "migration none", "precis migrate")

    await execute(urls.database, "create table alembic_version (version_num text)")  # nobody made it


async def test_config_shows_every_setting_and_no_secret(cli: Cli, urls: Urls, tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("very-secret\n")

    result = await cli("config", PRECIS_SUMMARISER_KEY_FILE=str(secret), PRECIS_PORT="1234")

    assert result.exit_code == 0
    assert "PRECIS_PORT=1234\n" in result.stdout
    assert "PRECIS_SUMMARISER_KEY=**********\n" in result.stdout
    assert "PRECIS_DATABASE_URL=**********\n" in result.stdout
    assert "very-secret" not in result.stdout
    assert urls.database not in result.stdout


async def test_wrong_settings_are_one_clear_line(cli: Cli) -> None:
    for command in ("config", "serve"):
        says(await cli(command, PRECIS_PORT="70000", PRECIS_WINDOW="y"), "PRECIS_PORT", "65535", "PRECIS_WINDOW")


async def test_a_misspelt_setting_is_named_and_the_command_goes_on(cli: Cli) -> None:
    result = await cli(
        "config", PRECIS_SUMARISER="openai", PRECIS_SUMMARISER_KEY_FILE="/dev/null", PRECIS_KEY_FILE="x", PRECIS_URL="x"
    )

    assert result.exit_code == 0
    assert "PRECIS_SUMARISER is not a setting" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "url", ["postgresql://precis:hush-hush@127.0.0.1:1/precis", "nonsense", "mysql://u:hush-hush@127.0.0.1/x"]
)
async def test_a_database_that_cannot_be_reached_is_one_clear_line(cli: Cli, url: str) -> None:
    result = await cli("migrate", PRECIS_DATABASE_URL=url)

    says(result, "PRECIS_DATABASE_URL")
    assert "hush-hush" not in result.stderr
