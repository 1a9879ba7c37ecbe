"""The commands against a running database: what they print, what they change, and what they say when it is wrong."""

import asyncio
import json
import socket
from pathlib import Path

import pytest
import typer
from sqlalchemy import make_url
from typer.testing import CliRunner

from service import __version__
from service.cli import app, shell
from service.cli.output import shown
from service.errors import PrecisError
from service.runtime import Urls
from tests.cli.conftest import Cli, says
from tests.conftest import Service, drain, execute
from tests.service.talk import UNKNOWN, Talk, row, rows, run_sql


async def summarised(service: Service) -> tuple[Talk, str]:
    talk = Talk(service.as_filter)
    leaf = talk.turns(14)
    await talk.ingest(leaf)
    await drain(service.runtime)
    return talk, leaf


# Keys


async def test_a_key_is_printed_once_and_opens_what_it_is_for(cli: Cli, service: Service) -> None:
    made = await cli("keys", "create", "--scope", "filter", "--name", "my webui")

    key = made.stdout.strip()
    assert made.exit_code == 0
    assert key.startswith("precis_fi_")
    answer = await service.as_filter.get("/v1/chats", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 403  # known, of the other scope
    listed = (await cli("keys", "list")).stdout
    assert "my webui" in listed
    assert key[:14] in listed
    assert key not in listed
    assert key not in str(await rows(service.runtime, "select * from api_keys"))


async def test_a_revoked_key_is_listed_as_such_and_cannot_be_revoked_again(cli: Cli, service: Service) -> None:
    await cli("keys", "create", "--scope", "operator", "--name", "to go")
    identity = (await row(service.runtime, "select id from api_keys where name = 'to go'")).id

    result = await cli("keys", "revoke", str(identity))

    assert result.stdout == f"Key {identity} is revoked.\n"
    assert (await row(service.runtime, "select * from api_keys where name = 'to go'")).revoked_at
    says(await cli("keys", "revoke", str(identity)), f"no key {identity}", "precis keys list")


async def test_a_key_with_an_end_and_networks_is_replaced_by_one_like_it(cli: Cli, service: Service) -> None:
    more = ("--expires", "30", "--from", "10.0.0.0/8", "--from", "fd00::/8")
    first = (await cli("keys", "create", "--scope", "operator:read", "--name", "looks", *more)).stdout.strip()
    old = await row(service.runtime, "select id from api_keys where name = 'looks'")

    second = (await cli("keys", "rotate", str(old.id), "--grace", "2")).stdout.strip()

    assert second.startswith("precis_or_")
    assert second != first
    query = "select scope, networks, round(extract(epoch from expires_at - now()) / 3600) as hours from api_keys"
    found = await rows(service.runtime, f"{query} where name = 'looks' order by id")
    assert [int(one.hours) for one in found] == [2, 720]
    assert {one.scope for one in found} == {"operator:read"}
    assert {tuple(one.networks) for one in found} == {("10.0.0.0/8", "fd00::/8")}
    says(await cli("keys", "create", "--scope", "filter", "--from", "here"), "'here' is no network")
    says(await cli("keys", "rotate", "4000000"), "no key 4000000")


async def test_a_key_of_a_new_tenant_makes_the_tenant(cli: Cli, service: Service) -> None:
    assert (await cli("keys", "create", "--scope", "filter", "--tenant", "second")).exit_code == 0

    assert await rows(service.runtime, "select 1 from tenants where name = 'second'")


# Chats


async def test_it_is_told_who_else_compresses_a_chat_and_when_it_goes(cli: Cli, service: Service) -> None:
    talk = Talk(service.as_filter)
    await talk.ingest(talk.turns(1), compactor="open-webui", expires_in=90 * 86_400)
    (chat,) = await rows(service.runtime, "select expires_at from chats")

    listed = await cli("chats", "list")
    shown = await cli("chats", "show", "chat-1")

    assert "open-webui" in listed.stdout
    assert "Compressed by open-webui." in shown.stdout
    assert f"Is deleted after {chat.expires_at:%Y-%m-%d %H:%M} UTC, unless it is continued." in shown.stdout


async def test_chats_are_listed_and_shown(cli: Cli, service: Service) -> None:
    talk, leaf = await summarised(service)
    made = (await talk.ask(leaf))["checkpoint_id"]

    listed = await cli("chats", "list")
    shown = await cli("chats", "show", "chat-1")
    summary = await cli("chats", "show", "chat-1", "--checkpoint", str(made))

    assert "chat-1" in listed.stdout
    assert "28" in listed.stdout
    assert leaf in shown.stdout
    assert "extractive" in shown.stdout
    assert "done" in shown.stdout
    assert "Previous conversation summary" in summary.stdout
    assert f"checkpoint {made} covers" in summary.stdout
    assert "u0" in summary.stdout


async def test_words_are_found_in_a_chat_and_a_message_is_read_exactly(cli: Cli, service: Service) -> None:
    talk, _ = await summarised(service)
    first = talk.rows["u0"]["content"]
    words = first.split(":")[0]

    found = await cli("chats", "find", "chat-1", words)
    read = await cli("chats", "find", "chat-1", "--ref", "M1")
    none = await cli("chats", "find", "chat-1", "Zeppelin")
    neither = await cli("chats", "find", "chat-1")

    assert f"M1 user: {words}" in found.stdout
    for number, line in enumerate(first.splitlines(), 1):
        assert f"{number}| {line}\n" in read.stdout
    assert none.exit_code == 1
    assert "Nothing" in none.stdout
    assert "give either words to look for, or --ref" in neither.stderr


async def test_it_is_said_where_tools_leave_no_room_for_the_chat(cli: Cli, service: Service) -> None:
    await summarised(service)
    assert "Tools and system prompts take" not in (await cli("chats", "show", "chat-1")).stdout

    await run_sql(service.runtime, "update chats set overhead_tokens = 6415")

    shown = await cli("chats", "show", "chat-1")
    assert "Tools and system prompts take 6.4k of its 8.2k window" in " ".join(shown.stdout.split())


async def test_for_machines_a_chat_and_a_summary_are_shown_as_the_api_answers_them(cli: Cli, service: Service) -> None:
    talk, leaf = await summarised(service)
    made = (await talk.ask(leaf))["checkpoint_id"]

    chat = await cli("chats", "show", "chat-1", "--json")
    summary = await cli("chats", "show", "chat-1", "--checkpoint", str(made), "--json")

    chats = "/v1/chats/chat-1"
    assert json.loads(chat.stdout) == (await service.as_operator.get(chats)).json()
    assert json.loads(summary.stdout) == (await service.as_operator.get(f"{chats}/checkpoints/{made}")).json()
    assert (await cli("chats", "show", "chat-1", "--json", "--only", "pins")).exit_code == 2


async def test_what_was_said_is_shown_line_by_line(cli: Cli, service: Service) -> None:
    talk = Talk(service.as_filter)
    leaf = talk.turns(14, leaf=talk.add("u", None, content="The trip is in May."))
    await talk.ingest(leaf)
    await drain(service.runtime)
    made = (await talk.ask(leaf))["checkpoint_id"]

    shown = (await cli("chats", "show", "chat-1", "--checkpoint", str(made))).stdout

    said = [line.strip() for line in shown.splitlines() if line.startswith("user: ")]
    assert said[0] == "user: The trip is in May."
    assert len(said) > 1


async def test_reset_recompute_and_delete_do_what_they_say_and_are_audited(cli: Cli, service: Service) -> None:
    talk, leaf = await summarised(service)

    assert (await cli("chats", "reset", "chat-1", "--yes")).stdout == "1 checkpoints deleted.\n"
    assert (await talk.ask(leaf))["status"] == "pending"
    assert (await cli("chats", "recompute", "chat-1")).stdout == "Work is due.\n"
    await drain(service.runtime)
    made = (await talk.ask(leaf))["checkpoint_id"]
    assert (await cli("chats", "reset", "chat-1", "--keep", str(made), "--yes")).stdout == "0 checkpoints deleted.\n"
    kept = await cli("chats", "delete", "chat-1", answer="n\n")
    assert kept.exit_code == 1
    assert (await talk.ask(leaf))["status"] == "ready"
    assert (await cli("chats", "delete", "chat-1", "--yes")).stdout == "Deleted.\n"

    assert await talk.ask(leaf) == UNKNOWN
    audited = await rows(service.runtime, "select actor, action from audit order by id")
    assert [tuple(one) for one in audited] == [
        ("cli", "chat.reset"),
        ("cli", "chat.recompute"),
        ("cli", "chat.reset"),
        ("cli", "chat.delete"),
    ]


async def test_what_a_user_wants_of_a_chat_is_told_and_undone(cli: Cli, service: Service) -> None:
    talk, leaf = await summarised(service)
    for wish in ({"focus": "Keep [bold]the dates[/]."}, {"left_alone": True}):
        told = {"user_id": talk.user} | wish
        assert (await service.as_filter.post("/v1/chats/chat-1/wishes", json=told)).status_code == 200

    shown = (await cli("chats", "show", "chat-1")).stdout
    assert "Left alone since" in shown
    assert "1 sentence of focus; see `precis chats focus`." in shown
    assert "the dates" not in shown + (await cli("chats", "show", "chat-1", "--json")).stdout
    assert (await cli("chats", "focus", "chat-1")).stdout == "focus 1: Keep [bold]the dates[/].\n"
    assert json.loads((await cli("chats", "focus", "chat-1", "--json")).stdout) == ["Keep [bold]the dates[/]."]
    says(await cli("chats", "focus", "nowhere"), "there is no chat 'nowhere'")
    assert "left alone" in (await cli("chats", "list")).stdout
    assert "summarised again" in (await cli("chats", "resume", "chat-1")).stdout
    assert (await talk.ask(leaf))["status"] == "ready"
    assert (await cli("chats", "withdraw", "chat-1", "1")).stdout == "Withdrawn; 0 are left.\n"
    says(await cli("chats", "withdraw", "chat-1", "1"), "has no sentence 1")
    says(await cli("chats", "resume", "nowhere"), "there is no chat 'nowhere'")
    audited = await rows(service.runtime, "select actor, action from audit order by id")
    assert [tuple(one) for one in audited] == [
        (f"user {talk.user}", "wish.add"),
        (f"user {talk.user}", "chat.leave"),
        ("cli", "wish.read"),
        ("cli", "wish.read"),
        ("cli", "chat.resume"),
        ("cli", "wish.withdraw"),
    ]


async def test_a_summary_is_corrected_from_files_and_the_old_version_served_again(
    cli: Cli, service: Service, tmp_path: Path
) -> None:
    talk, leaf = await summarised(service)
    first = (await talk.ask(leaf))["checkpoint_id"]
    shown = ("chats", "show", "chat-1", "--checkpoint")
    narrative = (await cli(*shown, str(first), "--only", "narrative")).stdout
    assert (await cli(*shown, str(first), "--only", "pins")).stdout.startswith("[")

    made = await cli(
        "chats", "correct", "chat-1", str(first), "--narrative", "-", answer=f"{narrative}\n- All is well."
    )

    second = (await talk.ask(leaf))["checkpoint_id"]
    assert made.stdout == f"Checkpoint {second}, version 2, serves now. Later turns are summarised again.\n"
    assert "All is well." in (await talk.ask(leaf))["summary"]
    (tmp_path / "pins.json").write_text('[{"kind": "goal", "text": "Peace."}]')
    await cli("chats", "correct", "chat-1", str(second), "--pins", str(tmp_path / "pins.json"))
    third = (await talk.ask(leaf))["checkpoint_id"]
    detail = (await cli(*shown, str(third))).stdout
    for part in ("version 3, corrected by operator, serves", "outcome: corrected", "by: cli", "Peace.", "goal"):
        assert part in detail
    listed = (await cli("chats", "show", "chat-1")).stdout
    versions = [[cell.strip() for cell in line.split("│")[1:4]] for line in listed.splitlines() if "messages" in line]
    assert [str(third), "3", "yes"] in versions
    assert [str(first), "1", ""] in versions
    assert (await cli("chats", "serve", "chat-1", str(first))).stdout.startswith(f"Checkpoint {first}, version 1,")
    assert (await talk.ask(leaf))["checkpoint_id"] == first


async def test_a_correction_that_cannot_be_read_changes_nothing(cli: Cli, service: Service, tmp_path: Path) -> None:
    talk, leaf = await summarised(service)
    first = (await talk.ask(leaf))["checkpoint_id"]
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b'[{"kind": "wish", "text": "\xff"}]')
    odd = tmp_path / "odd"
    odd.write_text('[{"kind": "wish", "text": "x"}]')

    for option, path, told in (
        ("--narrative", str(tmp_path / "nowhere"), "No such file"),
        ("--narrative", str(wrong), "utf-8"),
        ("--pins", str(odd), "kind"),
    ):
        result = await cli("chats", "correct", "chat-1", str(first), option, path)
        assert result.exit_code == 2
        assert told in result.stderr
    says(await cli("chats", "correct", "chat-1", str(first)), "a narrative, pins, or sentences to forget")
    says(await cli("chats", "serve", "chat-1", "999"), "no checkpoint 999")
    assert (await talk.ask(leaf))["checkpoint_id"] == first


async def test_what_does_not_exist_is_told_in_one_line(cli: Cli, service: Service) -> None:
    await summarised(service)

    for command in (
        ["show", "nowhere"],
        ["reset", "nowhere", "--yes"],
        ["recompute", "nowhere"],
        ["delete", "nowhere", "--yes"],
    ):
        says(await cli("chats", *command), "there is no chat 'nowhere'")
    says(await cli("chats", "show", "chat-1", "--checkpoint", "999"), "no checkpoint 999")
    says(await cli("chats", "reset", "chat-1", "--keep", "999", "--yes"), "no checkpoint 999")
    says(await cli("chats", "list", "--tenant", "nobody"), "there is no tenant 'nobody'")


async def test_a_chat_of_another_tenant_is_out_of_reach(cli: Cli, service: Service) -> None:
    await summarised(service)
    await cli("keys", "create", "--scope", "filter", "--tenant", "second")

    says(await cli("chats", "delete", "chat-1", "--yes", "--tenant", "second"), "there is no chat 'chat-1'")


# What others wrote


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e[red][/nothing]"
WRITTEN = ("\x1b", "\x07", "\x9b", "\r", "\u202e")


async def hostile_rows(service: Service) -> int:
    """Control characters and markup in whatever is stored and shown; returns the checkpoint."""
    await summarised(service)
    made = (await row(service.runtime, "select id from checkpoints")).id
    for statement in (
        "update chats set model = :it, last_error = :it, leased_by = :it, dead_at = now()",
        "update chats set lease_until = now() + interval '1 hour' where :it <> ''",
        "update runs set reason = :it",
        "update messages set message_id = :it || message_id",
        "update chats set leaf_id = :it || leaf_id",
        "update api_keys set name = :it",
        "update checkpoints set summariser = :it, summary = :it || summary, covered_until = :it",
        "update checkpoints set verdict = jsonb_build_object(cast(:it as text), cast(:it as text))",
        "update checkpoints set pins = jsonb_build_array(jsonb_build_object('number', 1, 'kind', 'goal', 'text',"
        " cast(:it as text), 'source', cast(:it as text), 'speaker', 'user'))",
        "update checkpoints set sections = jsonb_build_array(jsonb_build_object('section', 'Goal', 'lines',"
        " jsonb_build_array(cast(:it as text))))",
        "update checkpoints set talk = jsonb_set(talk, '{0,text}', to_jsonb(cast(:it as text)))",
        "insert into endpoints (name, failures, last_error) values (:it, 1, :it)",
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, dead_at)"
        " select id, :it, 'user', :it, 8192, now() from tenants",
    ):
        await run_sql(service.runtime, statement, it=HOSTILE)
    return int(made)


@pytest.mark.parametrize(
    "command",
    [
        ["chats", "list"],
        ["chats", "show", "chat-1"],
        ["chats", "show", "chat-1", "--checkpoint", "1"],
        ["chats", "show", "chat-1", "--checkpoint", "1", "--only", "narrative"],
        ["chats", "show", "chat-1", "--checkpoint", "1", "--only", "pins"],
        ["chats", "show", "chat-1", "--checkpoint", "1", "--json"],
        ["jobs", "list"],
        ["status"],
        ["status", "--json"],
        ["keys", "list"],
        ["chats", "delete", HOSTILE * 2, "--yes"],
        ["chats", "list", "--tenant", HOSTILE],
    ],
    ids=" ".join,
)
async def test_a_command_writes_control_characters_out(cli: Cli, service: Service, command: list[str]) -> None:
    made = await hostile_rows(service)
    assert made == 1

    result = await cli(*command)

    said = result.stdout + result.stderr
    assert not [character for character in WRITTEN if character in said], said
    assert "owned" in said
    assert result.exit_code == ("nothing" in str(command)), said


@pytest.mark.parametrize(
    "command",
    [
        ["chats", "show", "a\udcffb"],
        ["chats", "list", "--tenant", "\udcff"],
        ["jobs", "retry", "\udcff"],
        ["chats", "show", "chat-1", "--checkpoint", str(2**63)],
        ["chats", "serve", "chat-1", str(2**80)],
        ["chats", "reset", "chat-1", "--keep", str(2**63)],
        ["keys", "revoke", str(2**63)],
        ["keys", "create", "--scope", "filter", "--tenant", "a\x1b[2Jb"],
        ["keys", "create", "--scope", "filter", "--name", "a\x9bb"],
        ["keys", "create", "--scope", "filter", "--name", "n" * 10_000],
    ],
    ids=ascii,
)
async def test_an_argument_that_cannot_be_stored_is_refused(cli: Cli, command: list[str]) -> None:
    result = await cli(*command)

    assert result.exit_code == 2, result.output
    assert "Invalid value" in result.stderr


def test_control_characters_are_written_out_and_nothing_else() -> None:
    told = "Grüße 😀 👩‍👩‍👧\tو\nnext \x1b[0m \x85 \x7f \u2028 \u2066"

    assert shown(told) == "Grüße 😀 👩‍👩‍👧\tو\nnext \\x1b[0m \\x85 \\x7f \\u2028 \\u2066"


# Commands that look, where there is nothing


LOOKING = [
    ["status"],
    ["status", "--wait", "1"],
    ["chats", "list"],
    ["chats", "show", "chat-1"],
    ["jobs", "list"],
    ["keys", "list"],
    ["retention", "--dry-run"],
]
CHANGING = [
    ["chats", "reset", "chat-1", "--yes"],
    ["chats", "delete", "chat-1", "--yes"],
    ["jobs", "retry", "--dead"],
    ["keys", "create", "--scope", "filter"],
    ["keys", "revoke", "1"],
    ["retention"],
]


@pytest.mark.parametrize("command", [*LOOKING, *CHANGING], ids=" ".join)
@pytest.mark.parametrize("there", [True, False], ids=["an empty folder", "no folder"])
def test_a_command_where_there_is_no_database_says_so_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "precis-data"
    if there:
        folder.mkdir()

    result = CliRunner().invoke(app, command)

    says(result, f"no database of Precis in {folder}", "PRECIS_DATA_DIR", "PRECIS_DATABASE_URL", "precis serve")
    assert [*tmp_path.rglob("*")] == ([folder] if there else [])


async def test_a_command_does_not_migrate_the_database_that_it_looks_at(cli: Cli, urls: Urls) -> None:
    await execute(urls.database, "drop schema public cascade", "create schema public")

    for command in LOOKING:
        says(await cli(*command), "migration none", "precis migrate")

    await execute(urls.database, "create table alembic_version (version_num text)")  # nobody made it


@pytest.mark.parametrize("command", [["config"], ["version"], ["healthcheck"]], ids=" ".join)
def test_the_other_commands_make_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(app, command, env={"PRECIS_PORT": str(closed_port())})

    assert (result.exit_code != 0) == (command == ["healthcheck"])
    assert [*tmp_path.iterdir()] == []


# Migrate, config, version


async def test_migrate_says_where_the_database_is(cli: Cli) -> None:
    assert (await cli("migrate")).stdout == f"The database is at the schema of precis {__version__}.\n"


async def test_version(cli: Cli) -> None:
    assert (await cli("version")).stdout == f"{__version__}\n"


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


@pytest.mark.parametrize(
    ("variables", "parts"),
    [
        ({"PRECIS_PORT": "http"}, ["PRECIS_PORT", "integer"]),
        ({"PRECIS_PORT": "70000"}, ["PRECIS_PORT", "65535"]),
        ({"PRECIS_WINDOW": "-1"}, ["PRECIS_WINDOW"]),
        ({"PRECIS_SUMMARISER": "magic"}, ["PRECIS_SUMMARISER", "ollama"]),
        ({"PRECIS_SUMMARISER": "openai"}, ["PRECIS_SUMMARISER_URL", "PRECIS_SUMMARISER_MODEL"]),
        (
            {"PRECIS_DATABASE_URL_FILE": "nowhere/secret"},
            ["PRECIS_DATABASE_URL_FILE", "nowhere/secret", "No such file"],
        ),
        ({"PRECIS_PORT": "x", "PRECIS_LEASE": "y"}, ["PRECIS_PORT", "PRECIS_LEASE"]),
    ],
)
async def test_wrong_settings_are_one_clear_line(cli: Cli, variables: dict[str, str], parts: list[str]) -> None:
    for command in (["config"], ["keys", "list"], ["serve"], ["migrate"]):
        says(await cli(*command, **variables), *parts)


async def test_a_misspelt_setting_is_named_and_the_command_goes_on(cli: Cli) -> None:
    result = await cli("config", PRECIS_SUMARISER="openai", PRECIS_SUMMARISER_KEY_FILE="/dev/null")

    assert result.exit_code == 0
    assert "PRECIS_SUMARISER is not a setting" in result.stderr
    assert "KEY_FILE" not in result.stderr


async def test_one_of_two_urls_is_one_clear_line(urls: Urls) -> None:
    environment = {"PRECIS_DATABASE_URL": urls.database}

    result = await asyncio.to_thread(CliRunner().invoke, app, ["keys", "list"], env=environment)

    says(result, "PRECIS_DATABASE_URL and PRECIS_REDIS_URL")


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.mark.parametrize("command", [["keys", "list"], ["migrate"], ["chats", "list"]])
@pytest.mark.parametrize(
    "url",
    ["postgresql://precis:hush-hush@127.0.0.1:{port}/precis", "nonsense", "mysql://u:hush-hush@127.0.0.1/x"],
    ids=["nobody listens", "nonsense", "another database"],
)
async def test_a_database_that_cannot_be_reached_is_one_clear_line(cli: Cli, command: list[str], url: str) -> None:
    result = await cli(*command, PRECIS_DATABASE_URL=url.format(port=closed_port()))

    says(result, "PRECIS_DATABASE_URL")
    assert "hush-hush" not in result.stderr


async def test_a_wrong_password_of_the_database_is_one_clear_line(cli: Cli, urls: Urls) -> None:
    wrong = make_url(urls.database).set(username="nobody-we-know", password="hush-hush")

    result = await cli("keys", "list", PRECIS_DATABASE_URL=wrong.render_as_string(hide_password=False))

    says(result, "PRECIS_DATABASE_URL")
    assert "hush-hush" not in result.stderr


def test_an_error_is_told_word_for_word_also_with_brackets_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        shell.fail(PrecisError("the model said [/INST] and [red]"))

    assert "the model said [/INST] and [red]" in capsys.readouterr().err


async def test_a_reset_asks_first(cli: Cli, service: Service) -> None:
    talk = Talk(service.as_filter)
    assert await talk.ingest(talk.turns(14))
    await drain(service.runtime)

    assert (await cli("chats", "reset", "chat-1", answer="n\n")).exit_code == 1
    assert len(json.loads((await cli("chats", "show", "chat-1", "--json")).stdout)["checkpoints"]) == 1
    assert (await cli("chats", "reset", "chat-1", answer="y\n")).exit_code == 0
    assert json.loads((await cli("chats", "show", "chat-1", "--json")).stdout)["checkpoints"] == []


async def test_the_exact_summary_is_printed_and_an_empty_narrative_refused(
    cli: Cli, service: Service, tmp_path: Path
) -> None:
    talk = Talk(service.as_filter)
    leaf = talk.turns(14)
    assert await talk.ingest(leaf)
    await drain(service.runtime)
    detail = json.loads((await cli("chats", "show", "chat-1", "--json")).stdout)
    made = str(detail["checkpoints"][-1]["id"])

    printed = (await cli("chats", "show", "chat-1", "--checkpoint", made, "--only", "summary")).stdout
    assert printed == (await talk.ask(leaf))["summary"] + "\n"

    empty = tmp_path / "narrative.md"
    empty.write_text("\n")
    refused = await cli("chats", "correct", "chat-1", made, "--narrative", str(empty))
    assert refused.exit_code == 2
    assert "narrative is empty" in refused.stderr
    assert json.loads((await cli("chats", "show", "chat-1", "--json")).stdout)["checkpoints"] == detail["checkpoints"]
