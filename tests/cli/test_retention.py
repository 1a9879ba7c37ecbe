"""`precis retention` and `precis reconcile`."""

from tests.cli.conftest import Cli, says
from tests.conftest import Service, drain
from tests.service.talk import Talk, row, run_sql


async def test_retention_removes_and_counts(cli: Cli, service: Service) -> None:
    talk = Talk(service.as_filter)
    await talk.ingest(talk.turns(20))
    await drain(service.runtime)
    await run_sql(service.runtime, "update messages set created_at = now() - interval '31 days'")

    removed = await cli("retention")
    assert removed.exit_code == 0
    assert "bodies       40\n" in removed.stdout
    assert (await row(service.runtime, "select count(*) as gone from messages where body is null")).gone == 40
    assert "bodies       0\n" in (await cli("retention")).stdout


async def test_reconciling_needs_an_address_and_a_key(cli: Cli) -> None:
    refused = await cli("reconcile")
    assert refused.exit_code == 2
    assert "PRECIS_OPENWEBUI_URL" in refused.stderr
    there = {"PRECIS_OPENWEBUI_URL": "http://127.0.0.1:1", "PRECIS_OPENWEBUI_KEY": "sk-x"}
    says(await cli("reconcile", "--tenant", "nobody", **there), "there is no tenant 'nobody'")
