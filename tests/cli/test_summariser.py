"""`precis summariser`: one call, and the circuit breaker."""

import json

import pytest

from tests.cli.conftest import Cli, says
from tests.conftest import Service
from tests.fakes.scripted_llm import Fail, Say, scripted_llm
from tests.service.talk import Talk, row, rows, run_sql

OPEN = "insert into endpoints (name, failures, open_until) values (:name, 5, now() + make_interval(secs => :seconds))"


async def test_one_call_says_how_long_it_took_and_what_was_answered(cli: Cli) -> None:
    async with scripted_llm(Say("The pump runs.")) as llm:
        asks = {"PRECIS_SUMMARISER": "openai", "PRECIS_SUMMARISER_URL": llm.openai_url, "PRECIS_SUMMARISER_MODEL": "m"}
        told = await cli("summariser", "test", **asks)
        found = json.loads((await cli("summariser", "test", "--json", **asks)).stdout)
        llm.default = Fail(401)
        refused = await cli("summariser", "test", **asks)

    assert told.exit_code == 0, told.stderr
    assert "openai:m answered in " in told.stdout
    assert "The pump runs." in told.stdout
    assert len(llm.requests) == 3, "one call each"
    assert {"summariser", "seconds", "tokens_read", "tokens_written", "finish", "text", "error"} == found.keys()
    says(refused, "HTTP 401", "Check the API key")


async def test_without_a_summariser_there_is_nobody_to_ask(cli: Cli) -> None:
    says(await cli("summariser", "test"), "PRECIS_SUMMARISER is extractive")


@pytest.mark.parametrize("arguments", [[], ["openai:old http://gone/v1"]])
async def test_a_reset_closes_breakers_and_forgets_dead_endpoints(
    cli: Cli, service: Service, arguments: list[str]
) -> None:
    await run_sql(service.runtime, OPEN, name="openai:old http://gone/v1", seconds=300)
    await run_sql(service.runtime, OPEN, name="openai:new http://here/v1", seconds=-1)

    said = await cli("summariser", "reset", *arguments)

    assert "Reset: openai:old http://gone/v1\n" in said.stdout
    left = [one.name for one in await rows(service.runtime, "select name from endpoints")]
    assert left == (["openai:new http://here/v1"] if arguments else [])
    assert (await row(service.runtime, "select action from audit")).action == "summariser.reset"
    says(await cli("summariser", "reset", "nobody"), "there is no summariser 'nobody'")


async def test_a_retry_says_until_when_an_open_breaker_waits(cli: Cli, service: Service) -> None:
    talk = Talk(service.as_filter)
    assert await talk.ingest(talk.turns(14))
    await run_sql(service.runtime, OPEN, name="openai:m http://llm/v1", seconds=300)
    until = (await row(service.runtime, "select open_until at time zone 'UTC' as utc from endpoints")).utc

    said = (await cli("jobs", "retry", "chat-1")).stdout

    assert f"The circuit breaker of openai:m http://llm/v1 is open until {until:%H:%M:%S} UTC" in said
    assert "`precis summariser reset`" in said
