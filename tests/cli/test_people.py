"""`precis users` and `precis chats delete --for-good`, as a shell sees them."""

import json
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, says
from tests.conftest import Service
from tests.service.talk import Talk, rows

USER = "ann-4711"


@pytest.fixture
async def talk(service: Service) -> Talk:
    """A chat of a user."""
    talk = Talk(service.as_filter, user=USER)
    await talk.ingest(talk.turns(2))
    return talk


async def test_a_user_is_listed_shown_exported_and_erased(
    cli: Cli, service: Service, talk: Talk, tmp_path: Path
) -> None:
    listed = json.loads((await cli("users", "list", "--json")).stdout)
    assert [(one["user_id"], one["chats"]) for one in listed] == [(USER, 1)]
    assert USER in (await cli("users", "list")).stdout
    assert USER in (await cli("users", "list", "--begins", "ann")).stdout
    assert USER not in (await cli("users", "list", "--begins", "nn")).stdout
    assert json.loads((await cli("users", "show", USER, "--json")).stdout)["stored"]["messages"] == 4
    assert "messages in them" in (await cli("users", "show", USER)).stdout

    file = tmp_path / "export.jsonl"
    assert "Wrote 6 records" in (await cli("users", "export", USER, "--to", str(file))).stdout
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["type"] for one in records[:3]] == ["user", "chat", "message"]
    assert records[2]["content"]["content"] == talk.rows["u0"]["content"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    says(await cli("users", "export", USER, "--to", str(file)), str(file), "cannot be written")

    assert "Nothing was deleted" in (await cli("users", "erase", USER, "--dry-run")).stdout
    assert (await cli("users", "erase", USER, answer="n\n")).exit_code == 1
    assert len(await rows(service.runtime, "select 1 from chats")) == 1
    erased = (await cli("users", "erase", USER, "--yes")).stdout
    assert "backups" in erased
    assert await rows(service.runtime, "select 1 from chats") == []
    says(await cli("users", "show", USER), "nothing is stored of user")
    audited = await rows(service.runtime, "select action, details::text from audit order by id")
    assert [one.action for one in audited] == ["user.show"] * 2 + ["user.export"] * 2 + ["user.erase"]
    assert not any(USER in one.details for one in audited)


async def test_a_chat_that_is_deleted_for_good_is_not_stored_again(cli: Cli, talk: Talk) -> None:
    assert (await cli("chats", "delete", "chat-1", "--yes", "--for-good")).stdout == "Deleted.\n"
    assert (await talk.put(talk.transcript("a2"))).status_code == 410


async def test_reconciling_needs_an_address_and_a_key(cli: Cli) -> None:
    refused = await cli("reconcile")
    assert refused.exit_code == 2
    assert "PRECIS_OPENWEBUI_URL" in refused.stderr
