"""What is counted adds up by day, user, chat and model, outlives the chats, and is shown to its own tenant only."""

import asyncio
import csv
import io
import random
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_args

import pytest

from service.names import RequestOutcome
from service.storage import sums
from service.storage.sums import COUNTS, Share
from service.storage.tenancy import ChatKey
from service.storage.worth import Figures, WorthPart
from service.usecases import counting as counting_module
from service.usecases.counting import Counting, counting
from service.usecases.retain import remove_old
from service.usecases.worth import Worth
from service.web.worth import table
from tests.conftest import Service
from tests.service.events import tell
from tests.service.grown import by_the_model, summarised
from tests.service.harness import Harness
from tests.service.talk import Json, Talk, row, rows, run_sql
from tests.service.test_metrics import counted as metrics_of
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

BY = ("day", "user", "chat", "model")
NOTHING = dict.fromkeys(COUNTS, 0) | {"saved": None, "spent": None}


async def stats(service: Service, by: str = "day", **more: str | int) -> Json:
    """What an operator gets."""
    await service.runtime.counting.store()
    answer = await service.as_operator.get("/v1/stats", params={"by": by, **more})
    assert answer.status_code == 200, answer.text
    worth: Json = answer.json()
    return worth


def added(worth: Json) -> dict[str, int]:
    """All parts together."""
    return {name: sum(part["figures"][name] for part in worth["parts"]) for name in COUNTS}


def counts(figures: Json) -> dict[str, int]:
    return {name: figures[name] for name in COUNTS}


def not_sent(worth: Json) -> dict[str, int]:
    return {part["name"]: part["figures"]["tokens_not_sent"] for part in worth["parts"]}


async def tenant_of(service: Service) -> int:
    return int((await row(service.runtime, "select id from tenants where name = 'default'")).id)


async def chats(service: Service, *names: str) -> None:
    for name in names:
        talk = Talk(service.as_filter, name)
        await talk.ingest(talk.turns(1))


async def test_what_a_request_of_an_unknown_user_kept_out_is_nobodys(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)

    await talk.ask(leaf, user=None)

    assert list(not_sent(await stats(service, "user"))) == [sums.NOBODY]


async def test_an_answer_with_a_summary_is_counted_with_what_it_kept_out(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    answer = await talk.ask(leaf)
    await Talk(service.as_filter, "another", talk.rows, user="user-2").ask(leaf)

    worth = await stats(service)

    (today,) = worth["parts"]
    assert date.fromisoformat(today["name"]) - datetime.now(UTC).date() <= timedelta(days=1)
    kept_out = answer["tokens"]["before"] - answer["tokens"]["after"]
    assert today["figures"]["tokens_not_sent"] == worth["total"]["tokens_not_sent"] == kept_out > 0
    assert not_sent(await stats(service, "user")) == {"user-1": kept_out}


async def test_what_cannot_be_stored_is_kept_and_stored_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        counted.not_sent(share, 10)  # while it is being stored
        raise ConnectionError

    share = Share(await tenant_of(service), "chat-1", "user-1", "model-1")
    counted = Counting(service.runtime.database.engine)
    counted.not_sent(share, 3)
    with monkeypatch.context() as broken:
        broken.setattr(sums, "add", fail)
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
    async with counting(service.runtime.database.engine) as counted:
        counted.not_sent(Share(await tenant_of(service), "chat-1", "user-1", "model-1"), 3)
        with monkeypatch.context() as broken:
            broken.setattr(sums, "add", fail)
            await failed.wait()

        async def stored() -> bool:
            return bool(await rows(service.runtime, "select 1 from sums where tokens_not_sent = 3"))

        await until(stored)


async def test_services_and_workers_that_count_the_same_at_once_lose_nothing(service: Service) -> None:
    names = [f"chat-{number}" for number in range(8)]
    await chats(service, *names)
    engine, tenant = service.runtime.database.engine, await tenant_of(service)
    keys_of = [ChatKey(tenant, one.id) for one in await rows(service.runtime, "select id from chats")]
    rng = random.Random(3)

    async def serve(number: int) -> None:
        counted = Counting(engine)
        for _ in range(10):
            for name in rng.sample(names, len(names)):
                counted.not_sent(Share(tenant, name, f"user-{number % 2}", "model-1"), 1)
            await counted.store()

    async def work() -> None:
        for chat in rng.sample(keys_of * 5, len(keys_of) * 5):
            async with engine.begin() as connection:
                await sums.summarised(connection, chat, "model-1", 2)

    await asyncio.gather(*map(serve, range(3)), work(), work())

    for by in BY:
        worth = await stats(service, by)
        assert added(worth) == counts(worth["total"])
        assert (worth["total"]["tokens_not_sent"], worth["total"]["tokens_read"]) == (3 * 10 * 8, 2 * 2 * 40)


async def test_a_deleted_chat_keeps_its_share_of_the_totals(service: Service, harness: Harness) -> None:
    leaf = await by_the_model(harness)
    await harness.talk.ask(leaf)
    before = await stats(service)
    assert before["total"]["tokens_not_sent"] > 0
    assert [part["name"] for part in (await stats(service, "chat"))["parts"]] == ["chat-1"]

    assert (await service.as_operator.delete("/v1/chats/chat-1")).status_code == 204

    assert await stats(service) == before
    of_chats = await stats(service, "chat")
    assert [part["name"] for part in of_chats["parts"]] == [""]
    assert of_chats["total"] == before["total"]


async def test_a_deleted_user_is_nobody_in_the_totals(service: Service) -> None:
    tenant, counted = await tenant_of(service), service.runtime.counting
    for user, tokens in (("ann", 1), ("bob", 10), ("", 100)):
        counted.not_sent(Share(tenant, "chat-1", user, "model-1"), tokens)
    await counted.store()

    await tell(service, "chat.deleted_all", user_id="bob")
    assert len((await stats(service, "user"))["parts"]) == 3
    await tell(service, "user.deleted", user_id="bob")
    counted.not_sent(Share(tenant, "chat-1", "bob", "model-1"), 1000)  # asked before, counted after it

    worth = await stats(service, "user")
    assert not_sent(worth) == {"": 1110, "ann": 1}
    assert added(worth) == counts((await stats(service))["total"])


async def test_no_race_between_counting_and_the_deletion_of_a_user_leaves_the_id(service: Service) -> None:
    tenant, engine = await tenant_of(service), service.runtime.database.engine

    async def count(user: str) -> None:
        counted = Counting(engine)
        counted.not_sent(Share(tenant, "chat-1", user, "model-1"), 1)
        await counted.store()

    for number in range(20):
        user = f"user-{number}"
        both = [count(user), tell(service, "user.deleted", user_id=user)]
        await asyncio.gather(*(both if number % 2 else reversed(both)))

    assert not_sent(await stats(service, "user")) == {"": 20}


STATES: dict[RequestOutcome, Json] = {
    "unchanged": {},
    "compressed": {"served": 1},
    "truncated": {"cut": "left out"},
    "truncated_with_summary": {"cut": "left out", "served": 1},
}


@pytest.mark.parametrize("outcome", STATES)
async def test_what_became_of_a_turn_is_counted_when_it_ends(
    service: Service, talk: Talk, outcome: RequestOutcome
) -> None:
    now = await metrics_of(service)

    await talk.ingest(talk.turns(2), **STATES[outcome])

    for name in get_args(RequestOutcome):
        assert await now.since("precis_filter_outcomes_total", outcome=name) == (name == outcome)
    assert (await stats(service, "chat"))["total"] == NOTHING | {"truncated": int(outcome == "truncated")}


async def test_the_status_warns_of_requests_that_lost_text_today(service: Service) -> None:
    share = Share(await tenant_of(service), "chat-1", "user-1", "model-1")
    for _ in range(2):
        service.runtime.counting.turn_ended(share, "truncated")
    await service.runtime.counting.store()

    assert "2 turns of today were truncated" in str((await service.as_operator.get("/v1/status")).json()["warnings"])
    await run_sql(service.runtime, "update sums set day = day - 1")
    assert (await service.as_operator.get("/v1/status")).json()["warnings"] == []


async def test_money_is_made_of_todays_prices_and_only_where_there_are_some(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chats(service, "chat-1")
    tenant, counted = await tenant_of(service), service.runtime.counting
    for model in ("dear", "free", "unknown"):
        counted.not_sent(Share(tenant, "chat-1", "ann", model), 2_000_000)
    await counted.store()
    chat = ChatKey(tenant, (await row(service.runtime, "select id from chats")).id)
    async with service.runtime.database.engine.begin() as connection:
        await sums.summarised(connection, chat, "writer", 1_000_000)
        await sums.summarised(connection, chat, "unknown", 1_000_000)
    assert await _money(service) == (None, None)

    prices = {"dear": 2.5, "free": 0.0, "writer": 0.15}
    monkeypatch.setitem(service.runtime.settings.__dict__, "prices", prices)

    assert await _money(service) == (5.0, pytest.approx(0.15))
    for by in BY:
        parts = (await stats(service, by))["parts"]
        assert sum(part["figures"]["saved"] or 0 for part in parts) == pytest.approx(5.0)
        assert sum(part["figures"]["spent"] or 0 for part in parts) == pytest.approx(0.15)
    of_models = {part["name"]: part["figures"]["saved"] for part in (await stats(service, "model"))["parts"]}
    assert of_models == {"dear": 5.0, "free": 0.0, "unknown": None, "writer": 0.0}
    monkeypatch.setitem(prices, "dear", 5)
    assert (await _money(service))[0] == 10.0


async def _money(service: Service) -> tuple[Any, Any]:
    total = (await stats(service))["total"]
    return total["saved"], total["spent"]


async def test_days_are_chosen_and_the_last_30_are_the_default(service: Service) -> None:
    counted = service.runtime.counting
    for age in (0, 1, 29, 30, 300):
        share = Share(await tenant_of(service), "chat-1", f"user-{age}", "model-1")
        counted.not_sent(share, 1 + age)
    await counted.store()
    await run_sql(service.runtime, "update sums set day = day - cast(tokens_not_sent as int) + 1")
    today = (await row(service.runtime, "select (now() at time zone 'utc')::date as day")).day

    def day(age: int) -> str:
        return str(today - timedelta(days=age))

    assert [part["name"] for part in (await stats(service))["parts"]] == [day(0), day(1), day(29)]
    chosen = await stats(service, "user", **{"from": day(300), "to": day(29)})
    assert [part["name"] for part in chosen["parts"]] == ["user-300", "user-30", "user-29"]
    assert (chosen["first_day"], chosen["last_day"]) == (day(300), day(29))
    two = await stats(service, "user", limit=2)
    assert ([part["name"] for part in two["parts"]], two["more"]) == (["user-29", "user-1"], True)
    assert two["total"]["tokens_not_sent"] == 1 + 2 + 30
    assert (await stats(service, to="0001-01-02"))["parts"] == []

    assert (await remove_old(service.runtime.database.engine, service.runtime.settings)).sums == 0
    kept = service.runtime.settings.model_copy(update={"keep_history": 30})
    assert (await remove_old(service.runtime.database.engine, kept)).sums == 1
    assert len((await stats(service, **{"from": day(300)}))["parts"]) == 4


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\uff1d1", '=HYPERLINK("http://x","y")', "\r\n=1"]


@pytest.mark.parametrize("name", [*FORMULAS, 'a "quoted", name', "ordinary"])
async def test_no_name_is_a_formula_in_a_table(name: str) -> None:
    figures = Figures(**dict.fromkeys(COUNTS, 7), saved=0.0000012, spent=None)
    worth = Worth("user", date(2026, 1, 1), date(2026, 1, 2), figures, [WorthPart(name, figures)], more=False)

    head, line = csv.reader(io.StringIO(table(worth), newline=""))

    assert line[0] == (f"'{name}" if name in FORMULAS else name)
    assert head == ["user", *COUNTS, "saved", "spent"]
    assert line[1:] == ["7", "7", "7", "0.000001", ""]
