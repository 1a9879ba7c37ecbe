"""`precis stats`, and the line of `precis status` about the same."""

import json
import re

import pytest

from service.storage import sums
from service.storage.sums import Share
from service.storage.tenancy import ChatKey
from tests.cli.conftest import Cli, says
from tests.conftest import Service
from tests.service.talk import Talk, row

PRICES = '{"model-1": 2.5, "writer": 0.15}'


async def count(service: Service) -> None:
    """A request of ann's chat, one of an unpriced model, and what a summariser did for the chat."""
    talk = Talk(service.as_filter, user="ann")
    await talk.ingest(talk.turns(1))
    chat = await row(service.runtime, "select tenant_id, id from chats")
    async with service.runtime.database.engine.begin() as connection:
        await sums.summarised(connection, ChatKey(*chat), "writer", 1_000_000)
    counting = service.runtime.counting
    counting.answered(Share(chat.tenant_id, "chat-1", "ann", "model-1"), 2_000_000)
    counting.answered(Share(chat.tenant_id, "chat-2", "bob", "other"), 500)
    counting.reported(Share(chat.tenant_id, "chat-1", "ann", "model-1"), {"truncated": 3, "away": 2})
    await counting.store()


async def test_status_says_in_a_line_what_it_is_worth(cli: Cli, service: Service) -> None:
    assert "In 30 days 0 tokens were not sent (no price)" in (await cli("status")).stdout
    await count(service)

    priced = (await cli("status", PRECIS_PRICES=PRICES)).stdout

    said = "In 30 days 2,000,500 tokens were not sent (5.00), and 1,000,000 were read for summaries (0.1500)"
    assert said in priced


async def test_stats_are_a_table_by_what_is_asked_for(cli: Cli, service: Service) -> None:
    await count(service)

    shown = (await cli("stats", "--by", "user", PRECIS_PRICES=PRICES)).stdout

    cells = [re.split(r"\s*│\s*", line.strip("│ ")) for line in shown.splitlines() if line.startswith("│")]
    assert cells == [
        ["ann", "2,000,000", "5.00", "1,000,000", "0.1500", "3"],
        ["bob", "500", "no price", "0", "no price", "0"],
        ["total", "2,000,500", "5.00", "1,000,000", "0.1500", "3"],
    ]
    assert "More than 1" in (await cli("stats", "--by", "user", "--limit", "1")).stdout
    for by in ("day", "chat"):
        found = json.loads((await cli("stats", "--by", by, "--json")).stdout)
        assert found == (await service.as_operator.get(f"/v1/stats?by={by}")).json()


@pytest.mark.usefixtures("service")
async def test_what_stats_cannot_answer_is_said(cli: Cli) -> None:
    says(await cli("stats", "--tenant", "nobody"), "there is no tenant 'nobody'")
    says(await cli("stats", PRECIS_PRICES='{"m": -1}'), "PRECIS_PRICES: m")
