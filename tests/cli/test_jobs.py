"""`precis jobs` and `precis status` against a running database."""

import asyncio
import json
import re

import pytest

from service.cli import shell
from tests.cli.conftest import Cli, says
from tests.conftest import Service, drain
from tests.service.talk import Talk, row, rows, run_sql
from tests.waiting import until

REASON = "HTTP 500: [/INST] [red]out of memory[/red]"  # as a server may answer; no markup of ours


async def due(service: Service, *chats: str) -> Talk:
    """Chats with due work, of the same messages."""
    first = Talk(service.as_filter)
    leaf = first.turns(14)
    for chat in chats:
        assert await Talk(service.as_filter, chat, first.rows).ingest(leaf)
    return first


async def kill(service: Service, chat: str) -> None:
    """Its work is given up."""
    await run_sql(
        service.runtime,
        "update chats set due_at = null, dead_at = now(), attempts = 12, last_error = :reason"
        " where external_id = :chat",
        chat=chat,
        reason=REASON,
    )


async def lease(service: Service, chat: str, seconds: int = 600) -> None:
    """A worker has it."""
    await run_sql(
        service.runtime,
        "update chats set lease_until = now() + make_interval(secs => :seconds), leased_by = 'host:1'"
        " where external_id = :chat",
        chat=chat,
        seconds=seconds,
    )


async def test_jobs_are_listed_with_what_became_of_them_and_why(cli: Cli, service: Service) -> None:
    await due(service, "waits-for-a-worker", "given-up", "under-way")
    await kill(service, "given-up")
    await lease(service, "under-way")

    lines = {
        line.split("│")[1].strip(): line for line in (await cli("jobs", "list")).stdout.splitlines() if "│" in line
    }

    assert set(lines) == {"waits-for-a-worker", "given-up", "under-way"}
    assert "due" in lines["waits-for-a-worker"]
    assert "working" in lines["under-way"]
    assert "host:1" in lines["under-way"]
    assert "12" in lines["given-up"]
    assert REASON in lines["given-up"]
    only = (await cli("jobs", "list", "--state", "dead")).stdout
    assert "given-up" in only
    assert "under-way" not in only


async def test_a_retry_makes_one_chats_work_due_and_is_audited(cli: Cli, service: Service) -> None:
    await due(service, "first", "second")
    for chat in ("first", "second"):
        await kill(service, chat)

    assert (await cli("jobs", "retry", "first")).stdout == "The work is due now.\n"

    found = await rows(service.runtime, "select external_id, dead_at is null, attempts from chats order by id")
    assert [tuple(one) for one in found] == [("first", True, 0), ("second", False, 12)]
    audited = await row(service.runtime, "select actor, action, chat from audit")
    assert tuple(audited) == ("cli", "job.retry", "first")


async def test_a_retry_of_the_dead_makes_all_of_them_due_and_nothing_else(cli: Cli, service: Service) -> None:
    await due(service, "first", "second", "put-off")
    for chat in ("first", "second"):
        await kill(service, chat)
    await run_sql(
        service.runtime,
        "update chats set attempts = 2, due_at = now() + interval '1 hour' where external_id = 'put-off'",
    )

    assert (await cli("jobs", "retry", "--dead")).stdout == "2 chats are due again.\n"

    found = await rows(service.runtime, "select due_at <= now(), dead_at is null, attempts from chats order by id")
    assert [tuple(one) for one in found] == [(True, True, 0), (True, True, 0), (False, True, 2)]
    audited = await row(service.runtime, "select action, chat, details from audit")
    assert tuple(audited) == ("job.retry", None, {"revived": 2})
    await drain(service.runtime)
    assert len(await rows(service.runtime, "select 1 from checkpoints")) == 2


async def test_what_a_retry_cannot_do_is_told_in_one_line(cli: Cli) -> None:
    await cli("keys", "create", "--scope", "filter")  # the first tenant
    says(await cli("jobs", "retry", "nowhere"), "there is no chat 'nowhere'")
    says(await cli("jobs", "retry", "--dead", "--tenant", "nobody"), "there is no tenant 'nobody'")
    for arguments in ([], ["first", "--dead"]):
        result = await cli("jobs", "retry", *arguments)
        assert result.exit_code == 2
        assert "Pass a chat id or --dead." in result.stderr


async def test_the_status_says_how_the_work_of_all_tenants_stands(cli: Cli, service: Service) -> None:
    await due(service, "first", "under-way", "given-up")
    await lease(service, "under-way")
    await kill(service, "given-up")
    await run_sql(
        service.runtime, "update chats set due_at = now() - interval '90 seconds' where external_id = 'first'"
    )
    await cli("keys", "create", "--scope", "filter", "--tenant", "second")
    await run_sql(
        service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, due_at)"
        " select id, 'theirs', 'user', 'model', 8192, now() from tenants where name = 'second'",
    )
    await run_sql(
        service.runtime,
        "insert into endpoints (name, failures, open_until, last_error)"
        " values (:name, 5, now() + interval '1 minute', :reason)",
        name="openai:big http://llm/v1",
        reason=REASON,
    )

    seen = (await cli("status")).stdout

    assert re.search(r"2 due \(the oldest for \d{2,3} s\), 1 working, 0 waiting, 1 dead\n", seen)
    assert "host:1" in seen
    assert "openai:big http://llm/v1" in seen
    assert "open" in seen
    assert REASON in seen


async def test_the_status_for_machines_is_json(cli: Cli, service: Service) -> None:
    await due(service, "first", "under-way")
    await lease(service, "under-way")

    seen = json.loads((await cli("status", "--json")).stdout)

    assert seen["queue"].pop("oldest_due_seconds") >= 0
    assert seen["queue"] == {"working": 1, "due": 1, "waiting": 0, "dead": 0}
    assert [job["chat_id"] for job in seen["leases"]] == ["under-way"]
    assert seen["endpoints"] == []


async def test_waiting_ends_well_when_there_is_nothing_to_wait_for(cli: Cli, service: Service) -> None:
    await due(service, "given-up")
    await kill(service, "given-up")  # waits for an operator, not for a worker

    assert (await cli("status", "--wait", "60")).exit_code == 0


async def test_waiting_ends_well_as_soon_as_the_work_is_done(cli: Cli, service: Service) -> None:
    talk = await due(service, "chat-1")
    await lease(service, "chat-1")  # so that it is under way until the command looks
    waiting = asyncio.create_task(cli("status", "--wait", "60", "--json"))

    async def looks() -> bool:
        looking = "select 1 from pg_stat_activity where application_name = 'precis-cli' and query like '%chats%'"
        return bool(await rows(service.runtime, looking))

    await until(looks)
    assert not waiting.done()
    await lease(service, "chat-1", -1)
    await drain(service.runtime)

    result = await waiting
    assert result.exit_code == 0
    assert json.loads(result.stdout)["queue"]["working"] == 0
    assert (await talk.ask(next(reversed(talk.rows))))["status"] == "ready"


@pytest.mark.parametrize(
    "change", ["due_at = now()", "due_at = now() + interval '1 hour'", "lease_until = now() + interval '1 hour'"]
)
async def test_waiting_ends_with_status_1_when_the_time_is_over(cli: Cli, service: Service, change: str) -> None:
    await due(service, "chat-1")
    await run_sql(service.runtime, f"update chats set {change}")

    result = await cli("status", "--wait", "0.3")

    assert result.exit_code == 1
    assert "due" in result.stdout
    assert result.stderr == ""


async def test_a_narrow_terminal_loses_no_column_of_a_list(
    cli: Cli, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await due(service, "6f1c6d52-2b3c-4a68-9e0c-0d5c3b8f7a11")
    await kill(service, "6f1c6d52-2b3c-4a68-9e0c-0d5c3b8f7a11")
    monkeypatch.setattr(shell.console, "width", 80)

    jobs = (await cli("jobs", "list")).stdout
    chats = (await cli("chats", "list")).stdout

    assert "reason" in jobs
    assert "updated" in chats
    assert max(map(len, (jobs + chats).splitlines())) <= 80
