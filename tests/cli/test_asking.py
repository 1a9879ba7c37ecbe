"""Commands that ask the service over HTTP: what they print, what they change, and what they say when it refuses.

What REST itself answers is tested in `tests/service`.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from click.testing import CliRunner
from structlog.testing import capture_logs

from service.cli import app
from service.names import FIRST_TENANT
from service.storage import keys
from service.storage.runs import UsageKey
from tests.cli.conftest import Cli, run, says
from tests.conftest import Service, drain
from tests.fakes.http_server import Raw, head
from tests.fakes.http_server import serving as listening
from tests.service.grown import summarised
from tests.service.harness import emptied
from tests.service.talk import Talk, row, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

REASON = "HTTP 500: [/INST] [red]out of memory[/red]"  # as a server may answer; no markup of ours


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared_service: Service) -> AsyncIterator[Service]:
    """One service for all of them, without chats."""
    yield shared_service
    await emptied(shared_service)


async def due(service: Service, *chats: str) -> None:
    """Chats with due work, of the same messages."""
    first = Talk(service.as_filter)
    leaf = first.turns(20)
    for chat in chats:
        assert await Talk(service.as_filter, chat, first.rows).ingest(leaf)


async def kill(service: Service, chat: str) -> None:
    """Its work is given up."""
    dead = "update chats set due_at = null, dead_at = now(), attempts = 12, last_error = :why where external_id = :chat"
    await run_sql(service.runtime, dead, chat=chat, why=REASON)


async def test_a_chat_is_looked_at_corrected_and_deleted(precis: Cli, service: Service, tmp_path: Path) -> None:
    """The commands of the README, in its order."""
    talk = Talk(service.as_filter)
    leaf = await summarised(service, talk)
    first = str((await talk.ask(leaf))["checkpoint"])

    assert "chat-1  idle" in (await precis("chats", "list")).stdout
    shown = (await precis("chats", "show", "chat-1")).stdout
    for part in ("branches:", leaf, "checkpoints:", "extractive", "runs:", "done"):
        assert part in shown
    words = talk.rows["u0"]["content"].split(":")[0]
    assert f"M1 user: {words}" in (await precis("chats", "find", "chat-1", words)).stdout
    assert "1| " in (await precis("chats", "find", "chat-1", "--ref", "M1")).stdout
    nothing = await precis("chats", "find", "chat-1", "Zeppelin")
    assert (nothing.exit_code, "Nothing" in nothing.stdout) == (1, True)
    text = (await service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{first}")).json()["summary"]
    summary = (await precis("chats", "show", "chat-1", "--checkpoint", first)).stdout
    for part in (text, "outcome", "what was said:", "in summary"):
        assert part in summary

    place = ("chats", "show", "chat-1", "--checkpoint")
    assert (await precis(*place, first, "--only", "summary")).stdout == f"{text}\n"
    stateless = await precis(*place, first, "--only", "state")
    assert (stateless.exit_code, stateless.stdout) == (0, "")
    assert "has no state yet" in stateless.stderr
    corrected = await precis("chats", "correct", "chat-1", first, "--state", "-", answer="- Well.")
    second = str((await talk.ask(leaf))["checkpoint"])
    assert corrected.stdout.startswith(f"Checkpoint {second} serves. ")
    file = tmp_path / "rules.txt"
    file.write_text("Peace.\n\nBread.\n")
    assert (await precis("chats", "correct", "chat-1", second, "--rules", str(file))).exit_code == 0
    third = str((await talk.ask(leaf))["checkpoint"])
    assert (await precis(*place, third, "--only", "rules")).stdout == "Peace.\nBread.\n"
    file.write_text("")
    empty = await precis("chats", "correct", "chat-1", third, "--rules", str(file))
    assert (empty.exit_code, "nothing was changed" in empty.stderr) == (2, True)

    assert (await precis("chats", "reset", "chat-1", answer="n\n")).exit_code == 1
    assert (await talk.ask(leaf))["status"] == "ready"
    reset = await precis("chats", "reset", "chat-1", answer="y\n")
    assert "3 checkpoints deleted. Work is due.\n" in reset.stdout
    await drain(service.runtime)
    kept = str((await talk.ask(leaf))["checkpoint"])
    again = await precis("chats", "reset", "chat-1", "--keep", kept, "--yes")
    assert again.stdout == "0 checkpoints deleted. Work is due.\n"
    assert (await precis("chats", "delete", "chat-1", answer="n\n")).exit_code == 1
    assert (await precis("chats", "delete", "chat-1")).exit_code == 1, "nobody is there"
    assert (await precis("chats", "delete", "chat-1", "--yes", "--for-good")).stdout == "Deleted.\n"
    assert (await talk.put(talk.turn(leaf))).status_code == 410
    changed = "select distinct actor from audit where action <> 'summary.read'"
    assert [one.actor for one in await rows(service.runtime, changed)] == [f"{service.operator_key[:14]}… test"]


READING = {
    "chats list": "chats?limit=50",
    "chats show chat-1": "chats/chat-1",
    "chats show chat-1 --checkpoint 1": "chats/chat-1/checkpoints/1",
    "chats find chat-1 pump": "chats/chat-1/find?query=pump",
    "jobs list --state dead": "jobs?state=dead",
    "keys list": "keys",
    "audit --limit 3": "audit?limit=3",
    "users show user-1": "users/user-1",
}


async def test_each_command_prints_and_json_is_what_rest_answers(precis: Cli, service: Service) -> None:
    await summarised(service, Talk(service.as_filter, user="user-1"))
    await kill(service, "chat-1")

    for command, where in READING.items():
        assert (await precis(*command.split())).exit_code == 0
        printed = await precis(*command.split(), "--json")
        answer = (await service.as_operator.get(f"/v1/{where}")).json()
        # Looking itself leaves rows in the log.
        if command.startswith("audit"):
            answer["changes"], printed_rows = answer["changes"][1:], json.loads(printed.stdout)["changes"]
            assert len(printed_rows) == 3
            continue
        assert json.loads(printed.stdout) == answer, command
    assert (await precis("chats", "show", "chat-1", "--json", "--only", "pins")).exit_code == 2


async def test_work_is_listed_with_its_reason_and_tried_again(precis: Cli, service: Service) -> None:
    await due(service, "first", "second")
    for chat in ("first", "second"):
        await kill(service, chat)

    (line,) = [line for line in (await precis("jobs", "list")).stdout.splitlines() if "first" in line]
    assert "dead" in line
    assert REASON in line
    assert (await precis("jobs", "retry", "first")).stdout == "The work is due now.\n"
    assert "1 chats are due again." in (await precis("jobs", "retry", "--dead")).stdout
    for wrong in ([], ["first", "--dead"]):
        refused = await precis("jobs", "retry", *wrong)
        assert (refused.exit_code, "Pass a chat id or --dead." in refused.stderr) == (2, True)


async def test_status_says_how_the_work_stands_and_ends_with_1_when_nobody_does_it(
    precis: Cli, service: Service
) -> None:
    well = await precis("status")
    assert well.exit_code == 0
    assert "0 due (the oldest for 0 s), 0 working, 0 waiting, 0 dead\n" in well.stdout
    await due(service, "first", "given-up")
    await kill(service, "given-up")
    await run_sql(service.runtime, "update chats set due_at = due_at - interval '3 minutes'")
    tenant = (await row(service.runtime, "select id from tenants")).id
    service.runtime.counting.count_not_sent(UsageKey(tenant, "model-1"), 2_000_000)
    await service.runtime.counting.store()

    seen = await precis("status")

    assert seen.exit_code == 1
    assert "1 due (the oldest for " in seen.stdout
    assert "1 dead\n" in seen.stdout
    assert seen.stdout.index("start `precis worker`") < seen.stdout.index("1 due")
    assert "2,000,000 tokens were not sent" in seen.stdout
    assert json.loads((await precis("status", "--json")).stdout)["queue"]["stalled"]


async def test_keys_are_made_listed_and_revoked(precis: Cli, service: Service) -> None:
    more = ("--name", "my webui", "--expires", "30")
    made = (await precis("keys", "create", "--scope", "filter", *more)).stdout.strip()
    stored = await row(service.runtime, "select * from api_keys where name = 'my webui'")
    assert made.startswith("precis_fi_")
    assert stored.hash == keys.hash_key(made)

    listed = (await precis("keys", "list")).stdout
    assert "my webui" in listed
    assert made[:14] in listed
    assert made not in listed
    assert (await precis("keys", "revoke", str(stored.id))).stdout == f"Key {stored.id} is revoked.\n"
    says(await precis("keys", "revoke", str(stored.id)), f"no key {stored.id}", "precis keys list")
    says(await precis("keys", "create", "--scope", "filter", "--name", "a\x9bb"), "name")
    for wrong in ([], ["--scope", "filter", "--tenant", "second"], ["--first", "--scope", "filter"]):
        assert (await precis("keys", "create", *wrong)).exit_code == 2


async def test_a_user_is_listed_shown_and_erased(precis: Cli, service: Service) -> None:
    talk = Talk(service.as_filter, user="ann-4711")
    await talk.ingest(talk.turns(2))
    assert "chats    chat-1" in (await precis("users", "show", "ann-4711")).stdout
    says(await precis("users", "erase", "nobody"), "nothing is stored of user")

    asked = await precis("users", "erase", "ann-4711", answer="n\n")
    assert asked.exit_code == 1
    assert "chats    chat-1" in asked.stdout, "what would be deleted is shown before it asks"
    assert await rows(service.runtime, "select 1 from chats")
    assert "is deleted" in (await precis("users", "erase", "ann-4711", "--yes")).stdout
    assert await rows(service.runtime, "select 1 from chats") == []


async def test_without_a_service_a_command_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = CliRunner().invoke(app, ["status"])
    folder = tmp_path / "precis-data"
    says(missing, f"no Precis runs on {folder}", "precis serve", "PRECIS_DATA_DIR", "PRECIS_URL", "PRECIS_KEY_FILE")
    assert os.listdir(tmp_path) == [], "nothing is made"

    nobody = {"PRECIS_URL": "http://127.0.0.1:1", "PRECIS_KEY": "precis_op_x"}
    says(await run(nobody, "status"), "no answer from http://127.0.0.1:1: Connection refused", "PRECIS_URL")
    here = {"PRECIS_KEY": "precis_op_x", "PRECIS_HOST": "0.0.0.0", "PRECIS_PORT": "1"}
    says(await run(here, "status"), "no answer from http://127.0.0.1:1: ")


async def test_a_key_that_opens_nothing_is_said_with_what_to_do(precis: Cli, service: Service, tmp_path: Path) -> None:
    url = service.url
    says(await precis("chats", "list", PRECIS_KEY=""), "PRECIS_URL is set, but no key", "keys create --first")
    with capture_logs():  # of this process, whose stdout is the command's meanwhile
        refused = await precis("chats", "list", PRECIS_KEY="precis_op_x")
    says(refused, f"{url} rejects the key", "keys create --first")
    says(await precis("chats", "list", PRECIS_KEY_FILE=str(tmp_path / "no")), "PRECIS_KEY_FILE", "cannot be read")
    says(await precis("chats", "show", "a\udcffb"), "not valid UTF-8")
    says(await precis("chats", "list", PRECIS_URL="nonsense"), "'nonsense' is not an address", "PRECIS_URL")
    async with service.runtime.database.engine.begin() as connection:
        looks = await keys.create_key(connection, FIRST_TENANT, "operator:read", "monitor")
    file = tmp_path / "key"
    file.write_text(f"{looks}\n")
    assert (await precis("chats", "list", PRECIS_KEY_FILE=str(file), PRECIS_URL=f"{url}/")).exit_code == 0
    with capture_logs():
        refused = await precis("chats", "reset", "chat-1", "--yes", PRECIS_KEY=looks)
    says(refused, "scope 'operator'", "precis keys create")


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        (200, {"Content-Type": "text/html"}, "but not as Precis does"),
        (404, {"Content-Type": "application/json"}, "but not as Precis does"),
        (301, {"Location": "https://precis.example.org/"}, "answers 301"),
    ],
)
async def test_what_is_not_precis_is_said(status: int, headers: dict[str, str], told: str) -> None:
    async def answer(_: Raw, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(head(status, 2, headers) + b"{}")
        return True

    async with listening(answer) as url:
        says(await run({"PRECIS_URL": url, "PRECIS_KEY": "precis_op_x"}, "chats", "list"), url, told)
