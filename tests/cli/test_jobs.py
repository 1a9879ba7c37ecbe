"""`precis jobs` and `precis status` against a running database."""

import asyncio
import json
import re

import pytest
from structlog.testing import capture_logs

from service.cli import shell
from service.settings import Settings
from tests.cli.conftest import Cli, says
from tests.conftest import Service, drain, serving
from tests.fakes.http import Raw, head
from tests.fakes.http import serving as listening
from tests.service.talk import Talk, row, rows, rows_for_owner, run_sql
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
        return bool(await rows_for_owner(service.runtime, looking))

    await until(looks)
    assert not waiting.done()
    await lease(service, "chat-1", -1)
    with capture_logs():  # of this process, whose stdout is the command's meanwhile
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


async def test_a_narrow_terminal_leaves_out_the_least_important_columns_and_says_so(
    cli: Cli, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = "6f1c6d52-2b3c-4a68-9e0c-0d5c3b8f7a11"
    await due(service, chat)
    await kill(service, chat)
    monkeypatch.setattr(shell.console, "width", 80)
    monkeypatch.setattr(shell.console, "_force_terminal", True)

    jobs = (await cli("jobs", "list")).stdout
    chats = (await cli("chats", "list")).stdout

    assert "reason" in jobs
    assert "work" in chats
    for listed in (jobs, chats):
        plain = re.sub("\x1b[^m]*m", "", listed)
        assert chat in plain, "on one line"
        assert "--json has all" in plain
        assert max(map(len, plain.splitlines())) <= 80


async def test_what_is_no_terminal_gets_all_columns_on_one_line_each(
    cli: Cli, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await due(service, "given-up")
    await kill(service, "given-up")
    monkeypatch.setattr(shell.console, "width", 80)

    listed = (await cli("chats", "list")).stdout
    (line,) = [line for line in listed.splitlines() if "given-up" in line]

    assert REASON in line
    assert "updated" in listed
    assert shell.console.width == 80
    (line,) = [line for line in (await cli("jobs", "list")).stdout.splitlines() if "given-up" in line]
    assert REASON in line


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("chats list", "chat_id"),
        ("jobs list", "chat_id"),
        ("keys list", "prefix"),
        ("audit", "action"),
        ("retention --dry-run", "bodies"),
        ("config", "PRECIS_PORT"),
        ("status", "queue"),
        ("chats show chat-1", "chat"),
        ("chats find chat-1 pump", "answer"),
    ],
)
async def test_every_reading_command_has_json(cli: Cli, service: Service, command: str, key: str) -> None:
    await due(service, "chat-1")
    await cli("jobs", "retry", "chat-1")

    found = json.loads((await cli(*command.split(), "--json")).stdout)

    assert key in (found[0] if isinstance(found, list) else found)


async def test_the_audit_says_who_did_what_to_which_chat(cli: Cli, service: Service) -> None:
    await due(service, "first", "second")
    for chat in ("first", "second"):
        await cli("jobs", "retry", chat)
    assert (await service.as_operator.post("/v1/jobs/second/retry")).status_code == 202

    everything = json.loads((await cli("audit", "--json")).stdout)
    assert [one["chat"] for one in everything] == ["second", "second", "first"]
    by_key = everything[0]["actor"]
    assert by_key != "cli"
    lines = (await cli("audit")).stdout
    assert "job.retry" in lines
    assert by_key in lines
    only = {"--chat second": 2, "--actor cli": 2, "--chat second --actor cli": 1, "--limit 1": 1, "--before 2": 1}
    for options, count in only.items():
        found = json.loads((await cli("audit", *options.split(), "--json")).stdout)
        assert len(found) == count, options

    async def asked(query: str) -> list[str]:
        return [one["chat"] for one in (await service.as_operator.get(f"/v1/audit{query}")).json()["changes"]]

    assert await asked("?chat=first") == ["first"]
    assert await asked("?actor=cli") == ["second", "first"]
    first = (await service.as_operator.get("/v1/audit?limit=2")).json()
    assert await asked(f"?limit=2&cursor={first['next']}") == ["first"]
    assert (await service.as_operator.get(f"/v1/audit?limit=2&cursor={first['next']}")).json()["next"] is None


async def test_chats_are_listed_by_user_model_and_state(cli: Cli, service: Service) -> None:
    await due(service, "first", "given-up", "under-way", "nothing", "later")
    await kill(service, "given-up")
    await lease(service, "under-way")
    for chat, change in (
        ("nothing", "due_at = null, model = 'small'"),
        ("later", "due_at = now() + interval '1 hour', user_id = 'ann'"),
    ):
        await run_sql(service.runtime, f"update chats set {change} where external_id = '{chat}'")
    only = {
        "state=due": "first",
        "state=dead": "given-up",
        "state=working": "under-way",
        "state=idle": "nothing",
        "state=waiting": "later",
        "model=small": "nothing",
        "user=ann": "later",
    }
    for query, chat in only.items():
        listed = (await service.as_operator.get(f"/v1/chats?{query}")).json()["chats"]
        assert [one["chat_id"] for one in listed] == [chat], query
        name, _, value = query.partition("=")
        listed = json.loads((await cli("chats", "list", f"--{name}", value, "--json")).stdout)
        assert [one["chat_id"] for one in listed] == [chat], query


@pytest.mark.parametrize(
    "where", ["chats?usr=ann", "jobs?states=dead", "status?x", "audit?chats=1", "chats/a/find?q=1"]
)
async def test_a_parameter_that_a_route_does_not_have_is_refused(service: Service, where: str) -> None:
    refused = await service.as_operator.get(f"/v1/{where}")

    assert refused.status_code == 422
    assert "unknown query parameters: " in refused.json()["detail"]


async def test_the_status_ends_with_1_when_work_is_due_and_nobody_works(cli: Cli, service: Service) -> None:
    await due(service, "chat-1")
    assert (await cli("status")).exit_code == 0

    await run_sql(service.runtime, "update chats set due_at = now() - interval '3 minutes'")

    seen = await cli("status")
    assert seen.exit_code == 1
    assert "start `precis worker`" in seen.stdout
    assert json.loads((await cli("status", "--json")).stdout)["stalled"]


async def test_what_is_amiss_with_the_settings_stands_in_the_status(settings: Settings) -> None:
    told = settings.model_copy(update={"summariser_url": "http://127.0.0.1:1/v1"})
    async with serving(told) as service:
        (warning,) = (await service.as_operator.get("/v1/status")).json()["warnings"]
        assert "PRECIS_SUMMARISER is extractive" in warning
        ready = await service.as_operator.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["warnings"] == "1: see `precis status`"


@pytest.mark.parametrize("kind", ["openai", "ollama"])
async def test_a_model_that_is_not_there_is_told_and_stops_nothing(settings: Settings, kind: str) -> None:
    listed = {"data": [{"id": "other"}]} if kind == "openai" else {"models": [{"name": "other:latest"}]}
    content = json.dumps(listed).encode()

    async def answer(_: Raw, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(head(200, len(content), {}) + content)
        return True

    async with listening(answer) as url:
        asks = {"summariser": kind, "summariser_url": url, "summariser_model": "mine"}
        async with serving(settings.model_copy(update=asks)) as service:

            async def told() -> bool:
                return bool(service.runtime.worker_context.warnings)

            await until(told)
            (warning,) = service.runtime.worker_context.warnings
            assert f"{url} has no model 'mine'; it has other" in warning
