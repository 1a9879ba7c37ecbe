"""Counts add up by day and model, are stored once, and outlive the chats."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import get_args

import pytest

from service.names import FIRST_TENANT, RequestOutcome
from service.storage import runs
from service.storage.runs import UsageKey
from service.usecases import counting as counting_module
from service.usecases.counting import Counting, open_counting
from tests.conftest import Service
from tests.service.grown import by_the_model
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.talk import Json, Talk, row, rows, run_sql
from tests.service.test_metrics import counted as metrics_of
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = dict.fromkeys(runs.COUNTS, 0)


async def stats(service: Service, days: int = 30) -> Json:
    """What an operator gets."""
    await service.runtime.counting.store()
    answer = await service.as_operator.get("/v1/stats", params={"days": days})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def usage_key(service: Service, model: str = "model-1") -> UsageKey:
    tenant = await row(service.runtime, "select id from tenants where name = :name", name=FIRST_TENANT)
    return UsageKey(int(tenant.id), model)


async def test_a_summary_is_counted_by_the_model_that_reads_it_and_the_one_that_wrote_it(harness: Harness) -> None:
    leaf = await by_the_model(harness)
    answer = await harness.talk.ask(leaf)
    await Talk(harness.service.as_filter, "another", harness.talk.rows, user="user-2").ask(leaf)

    counted = await stats(harness.service)

    not_sent = answer["tokens"]["before"] - answer["tokens"]["after"]
    assert counted["total"]["tokens_not_sent"] == not_sent > 0
    assert counted["total"]["tokens_read"] > 0
    of_model = {one["model"]: (one["tokens_not_sent"], one["tokens_read"]) for one in counted["rows"]}
    assert of_model[harness.talk.model] == (not_sent, 0)
    (of_summariser,) = [one for model, one in of_model.items() if model != harness.talk.model]
    assert of_summariser == (0, counted["total"]["tokens_read"])

    assert (await harness.service.as_operator.delete("/v1/chats/chat-1")).status_code == 204
    assert await stats(harness.service) == counted, "a deleted chat leaves them as they are"


async def test_counts_that_cannot_be_stored_are_kept_and_stored_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        counted.count_not_sent(key, 10)  # while it is being stored
        raise ConnectionError

    key = await usage_key(service)
    counted = Counting(service.runtime.database.engine)
    counted.count_not_sent(key, 3)
    with monkeypatch.context() as broken:
        broken.setattr(runs, "add_sums", fail)
        with pytest.raises(ConnectionError):
            await counted.store()

    await counted.store()
    await counted.store()

    assert (await stats(service))["total"]["tokens_not_sent"] == 13


async def test_no_error_ends_the_counting(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = asyncio.Event()

    async def fail(*_: object) -> None:
        failed.set()
        raise KeyError

    monkeypatch.setattr(counting_module, "EVERY", 0.01)
    async with open_counting(service.runtime.database.engine) as counted:
        counted.count_not_sent(await usage_key(service), 3)
        with monkeypatch.context() as broken:
            broken.setattr(runs, "add_sums", fail)
            await failed.wait()

        async def stored() -> bool:
            return bool(await rows(service.runtime, "select 1 from sums where tokens_not_sent = 3"))

        await until(stored)


async def test_counts_of_a_deleted_tenant_keep_no_others_from_being_stored(service: Service) -> None:
    counted = Counting(service.runtime.database.engine)
    counted.count_not_sent(UsageKey(2**40, "model-1"), 5)
    counted.count_not_sent(await usage_key(service), 3)

    await counted.store()

    assert (await stats(service))["total"]["tokens_not_sent"] == 3


async def test_processes_that_count_the_same_at_once_lose_nothing(service: Service) -> None:
    engine = service.runtime.database.engine
    models = [await usage_key(service, f"model-{number}") for number in range(8)]

    async def serve(keys: list[UsageKey]) -> None:
        counted = Counting(engine)
        for _ in range(10):
            for key in keys:
                counted.count_not_sent(key, 1)
            await counted.store()

    async def work() -> None:
        for key in models * 5:
            async with engine.begin() as connection:
                await runs.add_sums(connection, {key: Counter(tokens_read=2, truncated=1)})

    await asyncio.gather(serve(models), serve(models[::-1]), work(), work())

    found = await stats(service)
    assert found["total"] == NOTHING | {"tokens_not_sent": 2 * 10 * 8, "tokens_read": 2 * 2 * 40, "truncated": 2 * 40}
    assert [one["model"] for one in found["rows"]] == [key.model for key in models]


STATES: dict[RequestOutcome, Json] = {
    "unchanged": {},
    "compressed": {"served": 1},
    "truncated": {"cut": "left out"},
    "truncated_with_summary": {"cut": "left out", "served": 1},
}


@pytest.mark.parametrize("outcome", STATES)
async def test_the_outcome_of_a_turn_is_counted_when_it_ends(
    service: Service, talk: Talk, outcome: RequestOutcome
) -> None:
    now = await metrics_of(service)

    await talk.ingest(talk.turns(2), **STATES[outcome])

    for name in get_args(RequestOutcome):
        assert await now.since("precis_filter_outcomes_total", outcome=name) == (name == outcome)
    assert (await stats(service))["total"] == NOTHING | {"truncated": int(outcome == "truncated")}


async def test_the_status_warns_of_turns_that_lost_text_today(service: Service) -> None:
    key = await usage_key(service)
    for _ in range(2):
        service.runtime.counting.count_turn(key, "truncated")
    await service.runtime.counting.store()

    assert "2 turns of today lost text" in str((await service.as_operator.get("/v1/status")).json()["warnings"])
    await run_sql(service.runtime, "update sums set day = day - 1")
    assert (await service.as_operator.get("/v1/status")).json()["warnings"] == []


async def test_the_last_30_days_are_shown_unless_an_operator_asks_for_more_or_fewer(service: Service) -> None:
    for age in (0, 1, 29, 30, 400):
        service.runtime.counting.count_not_sent(await usage_key(service, f"model-{age}"), 1 + age)
    await service.runtime.counting.store()
    await run_sql(service.runtime, "update sums set day = day - cast(tokens_not_sent as int) + 1")
    today = (await row(service.runtime, "select (now() at time zone 'utc')::date as day")).day

    shown = await stats(service)

    assert [one["day"] for one in shown["rows"]] == [str(today - timedelta(days=age)) for age in (0, 1, 29)]
    assert shown["total"]["tokens_not_sent"] == 1 + 2 + 30
    assert [one["model"] for one in (await stats(service, 1))["rows"]] == ["model-0"]
    assert len((await stats(service, 401))["rows"]) == 5
    is_problem(await service.as_operator.get("/v1/stats?days=0"), 422)
