"""`precis stats`, and the two lines of `precis status` about the same."""

import csv
import io
import json
import re

import pytest

from service.storage import sums
from service.storage.sums import Share
from service.storage.tenancy import ChatKey
from tests.cli.conftest import Cli, says
from tests.conftest import Service
from tests.service.talk import Talk, row

PRICES = '{"model-1": {"input": 2.5}, "writer": {"input": 0.15, "output": 0.6}}'


async def count(service: Service) -> None:
    """A request of ann's chat, one of an unpriced model, and what a summariser did for the chat."""
    talk = Talk(service.as_filter, user="ann")
    await talk.ingest(talk.turns(1))
    chat = await row(service.runtime, "select tenant_id, id from chats")
    async with service.runtime.database.engine.begin() as connection:
        await sums.summarised(connection, ChatKey(*chat), "writer", 1_000_000, 10_000)
    counting = service.runtime.counting
    counting.answered(Share(chat.tenant_id, "chat-1", "ann", "model-1"), "ready", 2_000_000)
    counting.answered(Share(chat.tenant_id, "chat-2", "=bob", "other"), "ready", 500)
    counting.reported(Share(chat.tenant_id, "chat-1", "ann", "model-1"), {"truncated": 3, "away": 2})
    await counting.store()


async def test_status_says_in_two_lines_what_it_is_worth(cli: Cli, service: Service) -> None:
    nothing = (await cli("status")).stdout
    assert "Tokens not sent: 0 today, 0 in 30 days (no price set)" in nothing
    await count(service)

    priced = (await cli("status", PRECIS_PRICES=PRICES, PRECIS_CURRENCY="EUR")).stdout

    assert "Tokens not sent: 2,000,500 today, 2,000,500 in 30 days (5.00 EUR)\n" in priced
    assert "Summariser: 1,000,000 tokens read, 10,000 written in 30 days (0.1560 EUR)\n" in priced
    found = json.loads((await cli("status", "--json", PRECIS_PRICES=PRICES)).stdout)["worth"]
    assert (found["days_30"]["saved"], found["currency"], found["unpriced"]) == (5.0, "USD", ["other"])


async def test_stats_are_a_table_by_what_is_asked_for(cli: Cli, service: Service) -> None:
    await count(service)

    shown = (await cli("stats", "--by", "user", PRECIS_PRICES=PRICES)).stdout

    assert "No price in PRECIS_PRICES: other" in shown
    cells = [re.split(r"\s*│\s*", line.strip("│ ")) for line in shown.splitlines() if line.startswith("│")]
    assert cells == [
        ["ann", "2,000,000", "5.00 USD", "1,000,000", "10,000", "0.1560 USD", "0", "3", "2"],
        ["=bob", "500", "no price set", "0", "0", "no price set", "0", "0", "0"],
        ["total", "2,000,500", "5.00 USD", "1,000,000", "10,000", "0.1560 USD", "0", "3", "2"],
    ]
    assert "More than 1" in (await cli("stats", "--by", "user", "--limit", "1")).stdout
    assert "chat-1" in (await cli("stats", "--by", "chat", "--user", "ann", "--model", "model-1")).stdout
    assert "total" in (await cli("stats", "--from", "2026-01-01", "--to", "2026-01-31")).stdout


async def test_stats_as_csv_and_json_are_those_of_the_rest_api(cli: Cli, service: Service) -> None:
    await count(service)

    printed = (await cli("stats", "--by", "user", "--csv")).stdout
    assert list(csv.reader(io.StringIO(printed))) == list(
        csv.reader(io.StringIO((await service.as_operator.get("/v1/stats.csv?by=user")).text))
    )
    assert "'=bob" in printed
    for by in ("day", "chat"):
        found = json.loads((await cli("stats", "--by", by, "--json")).stdout)
        assert found == (await service.as_operator.get(f"/v1/stats?by={by}")).json()


@pytest.mark.usefixtures("service")
async def test_what_stats_cannot_answer_is_said(cli: Cli) -> None:
    says(await cli("stats", "--by", "chat", "--from", "2026-01-01"), "leave out `from` and `to`")
    says(await cli("stats", "--tenant", "nobody"), "there is no tenant 'nobody'")
    assert (await cli("stats", "--csv", "--json")).exit_code == 2
    says(await cli("stats", PRECIS_PRICES='{"m": {"input": -1}}'), "PRECIS_PRICES: m → input")
    says(await cli("stats", PRECIS_PRICES='{"m": {"output": 1}}'), "PRECIS_PRICES: m → input", "required")
