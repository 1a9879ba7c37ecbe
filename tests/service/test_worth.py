"""What is counted adds up by day, user, model and chat, outlives the chats, and is shown to its own tenant only."""

import asyncio
import csv
import io
import random
from collections import Counter
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from service.settings import Price
from service.storage import keys, sums
from service.storage.sums import Share
from service.storage.tenancy import ChatKey
from service.storage.worth import COUNTS, OUTCOMES, Part, Reported, Sums
from service.usecases import counting as counting_module
from service.usecases.compress import compress, lease
from service.usecases.counting import Counting, counting
from service.usecases.retain import remove_old
from service.usecases.worth import Breakdown, as_csv
from tests.conftest import Service, drain
from tests.fakes.scripted_llm import Say
from tests.service.events import tell
from tests.service.grown import by_the_model, summarised
from tests.service.harness import Harness
from tests.service.talk import Json, Talk, long_chat, row, rows, run_sql
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = Sums(**dict.fromkeys(COUNTS, 0), saved=None, spent=None)


async def stats(service: Service, by: str = "day", **more: str | int) -> Json:
    """The breakdown that an operator gets."""
    await service.runtime.counting.store(wait=True)
    answer = await service.as_operator.get("/v1/stats", params={"by": by, **more})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()["breakdown"]
    return found


def added(found: Json) -> dict[str, int]:
    """All parts together."""
    return {name: sum(part["sums"][name] for part in found["parts"]) for name in COUNTS}


def counts(sums_of: Json) -> dict[str, int]:
    return {name: sums_of[name] for name in COUNTS}


async def tenant_of(service: Service) -> int:
    return int((await row(service.runtime, "select id from tenants where name = 'default'")).id)


async def chats(service: Service, *names: str) -> None:
    for name in names:
        talk = Talk(service.as_filter, name)
        await talk.ingest(talk.turns(1))


async def test_an_answer_with_a_summary_is_counted_with_what_it_kept_out(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    answer = await talk.ask(leaf, user_id="user-1")
    await Talk(service.as_filter, "unknown", talk.rows).ask(leaf)

    found = await stats(service)

    (today,) = found["parts"]
    assert date.fromisoformat(today["name"]) - datetime.now(UTC).date() <= timedelta(days=1)
    assert (today["sums"]["ready"], today["sums"]["unknown"], today["sums"]["pending"]) == (1, 1, 0)
    kept_out = answer["tokens"]["before"] - answer["tokens"]["after"]
    assert today["sums"]["tokens_not_sent"] == found["total"]["tokens_not_sent"] == kept_out > 0
    assert [(part["name"], part["sums"]["ready"]) for part in (await stats(service, "user"))["parts"]] == [
        ("user-1", 1),
        ("", 0),
    ]


async def test_an_answer_that_the_filter_cannot_put_in_keeps_nothing_out(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    described = talk.described(leaf) | {"questions": [], "asked": []}
    answer = await talk.ask(leaf, native=described)
    assert answer["status"] == "ready"
    assert "edit" not in answer

    total = (await stats(service))["total"]

    assert (total["ready"], total["tokens_not_sent"]) == (1, 0)


async def test_sums_by_user_by_model_by_day_and_by_chat_are_equal(service: Service, harness: Harness) -> None:
    tenant, rng = await tenant_of(service), random.Random(5)
    names = [f"chat-{number}" for number in range(4)]
    await chats(service, *names)
    expected = dict.fromkeys(COUNTS, 0)
    for number in range(200):
        share = Share(tenant, rng.choice(names), rng.choice(["ann", "bob", ""]), rng.choice(["small", "large"]))
        answer, saved = rng.choice(["ready", "not_needed", "pending", "unknown"]), rng.randint(0, 9000)
        service.runtime.counting.answered(share, answer, saved)
        outcomes: dict[Reported, int] = {rng.choice(OUTCOMES): rng.randint(1, 3), "away": rng.randint(0, 1)}
        service.runtime.counting.reported(share, outcomes)
        for name, much in [(answer, 1), ("tokens_not_sent", saved), *outcomes.items()]:
            expected[name] += much
        if number % 50 == 0:
            await service.runtime.counting.store()
    # Some of it is of yesterday, and some a worker's.
    for table in ("day_sums", "user_sums"):
        await run_sql(service.runtime, f"update {table} set day = day - 1")
    await harness.talk.ingest(harness.talk.turns(14))
    while await compress(harness.worker_context()):
        pass
    spent = await row(service.runtime, "select sum(calls) as calls, sum(tokens_read) as read from chat_sums")
    assert spent.calls > 0

    found = {by: await stats(service, by) for by in ("day", "user", "model", "chat")}

    assert len(found["day"]["parts"]) == 2
    for by, one in found.items():
        assert added(one) == counts(one["total"]), by
        assert {**expected, **{name: one["total"][name] for name in ("calls", "tokens_read", "tokens_written")}} == (
            counts(one["total"])
        ), by
        assert (one["total"]["calls"], one["total"]["tokens_read"]) == (spent.calls, spent.read), by
    of_users = [counts((await stats(service, user=user))["total"]) for user in ("ann", "bob", "user-1")]
    assert of_users[0] == counts({part["name"]: part["sums"] for part in found["user"]["parts"]}["ann"])
    for by in ("day", "user", "model", "chat"):
        assert counts((await stats(service, by, model="small"))["total"]) == added(
            await stats(service, by, model="small")
        )


async def test_a_chat_with_work_is_not_passed_by_while_its_requests_are_counted(
    service: Service, harness: Harness
) -> None:
    await harness.long_chat()
    share = Share(await tenant_of(service), "chat-1", "user-1", "model-1")
    async with service.runtime.database.engine.begin() as connection:
        left = await sums.add(connection, {share: Counter(ready=1)}, {}, wait=False)
        assert not left, "it is being counted"

        assert await lease.claim(service.runtime.worker_context)


async def test_what_was_counted_is_stored_at_the_end(service: Service) -> None:
    share = Share(await tenant_of(service), "chat-1", "user-1", "model-1")
    async with counting(service.runtime.database.engine) as counted:
        for _ in range(1000):
            counted.answered(share, "ready", 3)

    assert (await stats(service))["total"]["tokens_not_sent"] == 3000


async def test_it_is_stored_now_and_then(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting_module, "EVERY", 0.01)
    share = Share(await tenant_of(service), "chat-1", "user-1", "model-1")
    async with counting(service.runtime.database.engine) as counted:
        for number in (1, 2):
            counted.answered(share, "ready", 3)

            async def stored(number: int = number) -> bool:
                found = await rows(service.runtime, "select ready from day_sums")
                return [one.ready for one in found] == [number]

            await until(stored)


async def test_what_cannot_be_stored_is_kept_and_stored_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        counted.answered(share, "pending", 0)  # while it is being stored
        raise ConnectionError

    share = Share(await tenant_of(service), "chat-1", "user-1", "model-1")
    counted = Counting(service.runtime.database.engine)
    counted.answered(share, "ready", 3)
    with monkeypatch.context() as broken:
        broken.setattr(sums, "add", fail)
        with pytest.raises(ConnectionError):
            await counted.store()

    await counted.store()
    await counted.store()

    total = (await stats(service))["total"]
    assert (total["ready"], total["pending"], total["tokens_not_sent"]) == (1, 1, 3)


@pytest.mark.parametrize("error", [ConnectionError, KeyError])
async def test_no_error_ends_the_counting(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    failed = asyncio.Event()

    async def fail(*_: object, **__: object) -> None:
        failed.set()
        raise error

    monkeypatch.setattr(counting_module, "EVERY", 0.01)
    async with counting(service.runtime.database.engine) as counted:
        counted.answered(Share(await tenant_of(service), "chat-1", "user-1", "model-1"), "ready", 3)
        with monkeypatch.context() as broken:
            broken.setattr(sums, "add", fail)
            await failed.wait()

        async def stored() -> bool:
            return bool(await rows(service.runtime, "select 1 from day_sums where ready = 1"))

        await until(stored)


async def test_nobody_waits_for_a_chat_that_is_locked_and_it_gets_its_share_later(service: Service) -> None:
    await chats(service, "locked", "free")
    tenant, counted = await tenant_of(service), service.runtime.counting
    engine: AsyncEngine = service.runtime.database.engine
    for name in ("locked", "free", "unknown"):
        counted.answered(Share(tenant, name, "user-1", "model-1"), "ready", 10)
    async with engine.begin() as connection:
        await connection.execute(text("select 1 from chats where external_id = 'locked' for update"))
        await counted.store()
        assert [part["name"] for part in await _by_chat(service)] == ["free"]

    found = await stats(service, "chat")

    assert {part["name"]: part["sums"]["tokens_not_sent"] for part in found["parts"]} == {"locked": 10, "free": 10}
    assert found["total"]["tokens_not_sent"] == 30


async def _by_chat(service: Service) -> list[Json]:
    answer = await service.as_operator.get("/v1/stats?by=chat")
    parts: list[Json] = answer.json()["breakdown"]["parts"]
    return parts


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
                counted.answered(Share(tenant, name, f"user-{number % 2}", "model-1"), "ready", 1)
            await counted.store(wait=True)

    async def work() -> None:
        for chat in rng.sample(keys_of * 5, len(keys_of) * 5):
            async with engine.begin() as connection:
                await sums.summarised(connection, chat, "writer", 2, 1)

    await asyncio.gather(*map(serve, range(3)), work(), work())

    for by in ("day", "user", "chat"):
        found = await stats(service, by)
        assert added(found) == counts(found["total"])
        assert (found["total"]["ready"], found["total"]["tokens_read"]) == (3 * 10 * 8, 2 * 2 * 40)


async def test_a_deleted_chat_keeps_its_share_of_the_totals(service: Service, harness: Harness) -> None:
    leaf = await by_the_model(harness)
    await harness.talk.ask(leaf, user_id=harness.talk.user)
    before = await stats(service)
    assert before["total"]["tokens_not_sent"] > 0
    assert len((await stats(service, "chat"))["parts"]) == 1

    assert (await service.as_operator.delete("/v1/chats/chat-1")).status_code == 204

    assert await stats(service) == before
    of_chats = await stats(service, "chat")
    assert of_chats["parts"] == []
    assert of_chats["total"] == before["total"]


async def test_a_deleted_user_is_nobody_in_the_totals(service: Service) -> None:
    tenant, counted = await tenant_of(service), service.runtime.counting
    for user, tokens in (("ann", 1), ("bob", 10), ("", 100)):
        counted.answered(Share(tenant, "chat-1", user, "model-1"), "ready", tokens)
    await counted.store()

    await tell(service, "chat.deleted_all", user_id="bob")
    assert len((await stats(service, "user"))["parts"]) == 3
    await tell(service, "user.deleted", user_id="bob")

    found = await stats(service, "user")
    assert [(part["name"], part["sums"]["tokens_not_sent"]) for part in found["parts"]] == [("", 110), ("ann", 1)]
    assert added(found) == counts((await stats(service))["total"])


async def test_every_call_of_a_summariser_is_counted_by_its_model(service: Service, harness: Harness) -> None:
    harness.llm.script(Say(""), Say(""))
    await harness.talk.ingest(harness.talk.turns(14))
    await harness.drain()

    runs = await row(service.runtime, "select sum(tokens_read) as read, sum(tokens_written) as written from runs")
    counted = await row(service.runtime, "select * from day_sums")

    assert (counted.model, counted.summariser) == ("model-1", "scripted")
    assert counted.calls == len(harness.llm.requests)
    assert (counted.tokens_read, counted.tokens_written) == (runs.read, runs.written)
    assert runs.read > 0


async def test_what_code_writes_costs_nothing(service: Service) -> None:
    await long_chat(service.as_filter)
    await drain(service.runtime)

    assert await rows(service.runtime, "select 1 from day_sums where calls > 0") == []


async def test_a_chat_that_was_deleted_meanwhile_costs_nothing_more(service: Service) -> None:
    async with service.runtime.database.engine.begin() as connection:
        await sums.summarised(connection, ChatKey(await tenant_of(service), 4711), "writer", 2, 1)

    assert (await stats(service))["total"]["calls"] == 0


@pytest.mark.parametrize("more", [{}, {"away": 1}])
async def test_what_the_filter_reports_is_counted(service: Service, talk: Talk, more: dict[str, int]) -> None:
    outcomes = {"compressed": 3, "truncated_with_summary": 2, "truncated": 1, "unchanged": 4} | more
    await talk.ingest(talk.turns(1), outcomes=outcomes)

    total = (await stats(service))["total"]

    assert {name: total[name] for name in (*OUTCOMES, "away")} == {"away": 0} | outcomes
    assert (total["ready"], total["tokens_not_sent"]) == (0, 0)


@pytest.mark.parametrize("outcomes", [{"ready": 9}, {"compressed": -1}, {"compressed": 99_999}, {"truncated": "x"}, 5])
async def test_a_report_that_is_none_is_refused(talk: Talk, outcomes: object) -> None:
    assert (await talk.put(talk.transcript(talk.turns(1), outcomes=outcomes))).status_code == 422


async def test_a_report_with_an_upload_that_is_not_stored_is_not_counted(service: Service, talk: Talk) -> None:
    leaf = talk.turns(2)
    body = talk.transcript(leaf, after=talk.rows[leaf]["parentId"], outcomes={"truncated": 1})
    assert (await talk.put(body)).status_code == 409

    assert (await stats(service))["total"]["truncated"] == 0


async def test_refused_messages_are_counted_and_shown_unless_a_later_upload_is_accepted(
    service: Service, talk: Talk
) -> None:
    good = talk.transcript(talk.turns(1))
    bad = {**good, "messages": [{**message, "fingerprint": None} for message in good["messages"]]}
    for chat, bodies in {"out": [bad, bad], "in": [bad, good]}.items():
        for body in bodies:
            await service.as_filter.put(f"/v1/chats/{chat}/transcript", json=body)
    await stats(service)

    assert (await stats(service))["total"]["refused"] == 1
    advice = (await service.as_operator.get("/v1/status")).json()["advice"]
    assert any("New messages of chats were refused 1 times today" in one["text"] for one in advice)


async def test_money_is_made_of_todays_prices_and_only_where_there_are_some(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chats(service, "chat-1")
    tenant, counted = await tenant_of(service), service.runtime.counting
    for model in ("dear", "cheap", "unknown"):
        counted.answered(Share(tenant, "chat-1", "ann", model), "ready", 2_000_000)
    await counted.store()
    chat = ChatKey(tenant, (await row(service.runtime, "select id from chats")).id)
    async with service.runtime.database.engine.begin() as connection:
        await sums.summarised(connection, chat, "writer", 1_000_000, 500_000)
        await sums.summarised(connection, chat, "half", 1_000_000, 0)
    assert await _money(service) == (None, None, ["cheap", "dear", "half", "unknown", "writer"])

    prices = {"dear": Price(input=2.5), "cheap": Price(input=0), "writer": Price(input=0.15, output=0.6)}
    prices |= {"half": Price(input=1)}  # what it writes is paid too, and nobody said how much
    monkeypatch.setitem(service.runtime.settings.__dict__, "prices", prices)
    monkeypatch.setitem(service.runtime.settings.__dict__, "currency", "EUR")

    saved, spent, unpriced = await _money(service)
    assert (saved, unpriced) == (5.0, ["half", "unknown"])
    assert spent == pytest.approx(0.45)
    for by in ("user", "model", "chat"):
        parts = (await stats(service, by))["parts"]
        assert sum(part["sums"]["saved"] or 0 for part in parts) == pytest.approx(5.0)
        assert sum(part["sums"]["spent"] or 0 for part in parts) == pytest.approx(0.45)
    of_models = {part["name"]: part["sums"]["saved"] for part in (await stats(service, "model"))["parts"]}
    assert of_models == {"dear": 5.0, "cheap": 0.0, "unknown": None, "model-1": None}
    monkeypatch.setitem(prices, "dear", Price(input=5))
    assert (await _money(service))[0] == 10.0


async def _money(service: Service) -> tuple[float | None, float | None, list[str]]:
    found = await stats(service)
    return found["total"]["saved"], found["total"]["spent"], found["unpriced"]


async def test_another_tenant_sees_nothing(service: Service) -> None:
    service.runtime.counting.answered(Share(await tenant_of(service), "chat-1", "ann", "model-1"), "ready", 10)
    await service.runtime.counting.store()
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create(connection, "another", "operator", "test")
    async with httpx.AsyncClient(base_url=service.url, headers={"Authorization": f"Bearer {key}"}) as other:
        for by in ("day", "user", "model", "chat"):
            answer = (await other.get(f"/v1/stats?by={by}")).json()
            assert answer["breakdown"]["parts"] == []
            assert counts(answer["overview"]["whole"]) == counts(answer["breakdown"]["total"]) == counts(_json(NOTHING))
            assert "ann" not in (await other.get(f"/v1/stats.csv?by={by}")).text
        status = (await other.get("/v1/status")).json()
    assert status["worth"]["whole"]["ready"] == 0
    assert (await service.as_operator.get("/v1/status")).json()["worth"]["today"]["ready"] == 1


def _json(found: Sums) -> Json:
    return {field.name: getattr(found, field.name) for field in fields(Sums)}


async def test_days_are_chosen_and_the_last_30_are_the_default(service: Service) -> None:
    counted = service.runtime.counting
    for age in (0, 1, 29, 30, 400):
        counted.answered(Share(await tenant_of(service), "chat-1", f"user-{age}", "model-1"), "ready", 1 + age)
        await counted.store()
        for table in ("day_sums", "user_sums"):
            # By way of a place that no other row has.
            await run_sql(
                service.runtime, f"update {table} set day = '2000-01-01' where day = current_date and ready = 1"
            )
            await run_sql(
                service.runtime, f"update {table} set day = date '1900-01-01' + {age} where day = '2000-01-01'"
            )
    today = (await row(service.runtime, "select (now() at time zone 'utc')::date as day")).day
    for table in ("day_sums", "user_sums"):
        await run_sql(service.runtime, f"update {table} set day = date '{today}' - (day - date '1900-01-01')")

    def day(age: int) -> str:
        return str(today - timedelta(days=age))

    assert [part["name"] for part in (await stats(service))["parts"]] == [day(0), day(1), day(29)]
    chosen = await stats(service, "user", **{"from": day(400), "to": day(29)})
    assert [part["name"] for part in chosen["parts"]] == ["user-400", "user-30", "user-29"]
    assert (chosen["first_day"], chosen["last_day"]) == (day(400), day(29))
    two = await stats(service, "user", limit=2)
    assert ([part["name"] for part in two["parts"]], two["more"]) == (["user-29", "user-1"], True)
    assert two["total"]["ready"] == 3
    overview = (await service.as_operator.get("/v1/stats")).json()["overview"]
    assert [overview[name]["ready"] for name in ("today", "days_30", "whole")] == [1, 3, 5]

    assert (await remove_old(service.runtime.database.engine, service.runtime.settings)).sums == 0
    kept = service.runtime.settings.model_copy(update={"keep_sums": 30})
    assert (await remove_old(service.runtime.database.engine, kept, dry=True)).sums == 2
    assert (await remove_old(service.runtime.database.engine, kept)).sums == 2
    assert (await service.as_operator.get("/v1/stats")).json()["overview"]["whole"]["ready"] == 4


@pytest.mark.parametrize(
    "query",
    [
        "by=week",
        "by=chat&from=2026-01-01",
        "by=chat&to=2026-01-01",
        "from=2026-02-01&to=2026-01-01",
        "from=x",
        "limit=0",
    ],
)
async def test_what_cannot_be_answered_is_refused(service: Service, query: str) -> None:
    for path in ("/v1/stats", "/v1/stats.csv"):
        answer = await service.as_operator.get(f"{path}?{query}")
        assert answer.status_code == 422, answer.text


async def test_a_filter_key_shows_no_figures(service: Service) -> None:
    for path in ("/v1/stats", "/v1/stats.csv"):
        assert (await service.as_filter.get(path)).status_code == 403


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\uff1d1", '=HYPERLINK("http://x","y")', "\r\n=1"]


@pytest.mark.parametrize("name", [*FORMULAS, 'a "quoted", name', "ordinary"])
async def test_no_name_is_a_formula_in_a_table(name: str) -> None:
    part = Part(name, Sums(**dict.fromkeys(COUNTS, 7), saved=0.0000012, spent=None))
    found = Breakdown("user", None, None, "USD", part.sums, [part], more=False, unpriced=[])

    head, line = csv.reader(io.StringIO(as_csv(found), newline=""))

    assert line[0] == (f"'{name}" if name in FORMULAS else name)
    assert head == ["user", *COUNTS, "saved", "spent", "currency"]
    assert line[1:] == ["7"] * len(COUNTS) + ["0.000001", "", "USD"]


async def test_a_table_is_a_file_of_its_own(service: Service) -> None:
    share = Share(await tenant_of(service), "chat-1", "=cmd|' /C calc'!A0", "=model")
    service.runtime.counting.answered(share, "ready", 10)
    await service.runtime.counting.store()

    for by, name in (("user", share.user), ("model", share.model)):
        answer = await service.as_operator.get(f"/v1/stats.csv?by={by}")

        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == f'attachment; filename="precis-by-{by}.csv"'
        _, line = csv.reader(io.StringIO(answer.text, newline=""))
        assert line[0] == f"'{name}"


async def test_an_answer_waits_for_no_figure(service: Service, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = await summarised(service, talk)

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(counting_module, "_PATIENCE", 0.1)  # of whoever stores in the background meanwhile
    with monkeypatch.context() as broken:
        broken.setattr(sums, "add", never)
        assert (await talk.ask(leaf))["status"] == "ready"
        await talk.ingest(leaf)
    assert (await stats(service))["total"]["ready"] == 1
