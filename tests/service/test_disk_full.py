"""PostgreSQL stores nothing any more: every route says so in its own words, REST as a problem, pages as a page."""

import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import httpx
import pytest
import structlog

from service.cli.logs import set_up_logs
from service.settings import Settings, load
from tests.conftest import Service, execute, serving
from tests.service.grown import summarised
from tests.service.problems import LEAF, TURNS, three_turns
from tests.service.talk import Talk, run_sql
from tests.service.test_matrix import API, FILTERS, every_route
from tests.web.visitor import SAME_ORIGIN, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = {"Content-Type": "application/x-www-form-urlencoded"} | SAME_ORIGIN


@asynccontextmanager
async def refusing(service: Service, state: str) -> AsyncIterator[None]:
    """Each statement that changes a row raises this SQLSTATE."""
    each = "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'public'"
    await run_sql(
        service.runtime,
        "create function refuse() returns trigger language plpgsql as"
        f" $$ begin raise exception 'no room' using errcode = '{state}'; end $$",
    )
    loop = "do $$ declare t record; begin for t in {} loop execute {}; end loop; end $$"
    make = "'create trigger refused before insert or update or delete on ' || t.name || ' execute function refuse()'"
    await run_sql(service.runtime, loop.format(each, make))
    try:
        yield
    finally:
        await run_sql(service.runtime, "drop function refuse() cascade")


@pytest.fixture
def full_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log is on a full disk too."""
    monkeypatch.setattr(logging.root, "handlers", [])
    with monkeypatch.context() as here, os.fdopen(os.open("/dev/full", os.O_WRONLY), "w") as full:
        here.setattr(sys, "stderr", full)
        set_up_logs(load())
        yield
        structlog.reset_defaults()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # or it could not be closed


@pytest.mark.usefixtures("full_log")
@pytest.mark.parametrize("state", ["53000", "53100"])
async def test_no_route_answers_in_plain_text_while_nothing_can_be_stored(service: Service, state: str) -> None:
    talk = three_turns(service)
    await talk.ingest(LEAF)
    async with visiting(service, service.operator_key) as visitor, refusing(service, state):
        for method, path in every_route(service):
            where = re.sub(r"\{\w+(:\w+)?\}", "1", path.replace("{chat_id}", "chat-1").replace("{user_id}", "user-1"))
            key = service.filter_key if path in FILTERS else service.operator_key
            is_api = path.startswith(API)
            headers = {"Authorization": f"Bearer {key}"} if is_api else FORM
            body = "{}" if is_api else urlencode({"key": service.operator_key})
            answer = await visitor.client.request(method, where, headers=headers, content=body)
            check(method, where, answer)
        check("POST", TURNS, await talk.put(talk.turn(talk.turns(1, leaf=LEAF))))
        assert (await talk.ask(LEAF))["tokens"]["before"] > 0, "a request needs nothing to be stored"
        await service.stored()


def check(method: str, where: str, answer: httpx.Response) -> None:
    told = method, where, answer.status_code, answer.text[:500]
    assert answer.status_code != 500, told
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if answer.is_error and where != "/readyz":
        is_page = not where.startswith((*API, "/metrics", "/openapi"))
        assert kind == ("text/html" if is_page else "application/problem+json"), told


@pytest.mark.asyncio(loop_scope="function")
async def test_a_database_that_is_read_only_still_answers_questions(settings: Settings) -> None:
    assert settings.database_url
    url = settings.database_url.get_secret_value()
    name = url.rpartition("/")[2]
    async with serving(settings) as service:
        talk = Talk(service.as_filter)
        leaf = await summarised(service, talk)
        await execute(url, f"alter database {name} set default_transaction_read_only = on")
        await service.runtime.database.engine.dispose()

        refused = await talk.put(talk.turn(talk.turns(2, leaf=leaf)))

        assert refused.status_code == 503
        assert "the database is read-only" in refused.json()["detail"]
        assert (await talk.ask(leaf))["status"] == "ready"
        assert (await service.as_filter.get("/readyz")).status_code == 200
