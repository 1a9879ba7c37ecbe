"""Two tenants with the same chat, the same messages and the same contents: what one does, the other never notices."""

import functools
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any, NamedTuple

import asyncpg
import httpx
import pytest
import pytest_asyncio
from sqlalchemy import event

from service import storage
from service.storage import keys
from tests.conftest import Service
from tests.service.harness import Harness
from tests.service.journey import TABLES, Tenant, journey, leave_prompt, settle
from tests.service.talk import Talk
from tests.service.test_metrics import check_labels

pytestmark = pytest.mark.asyncio(loop_scope="module")

# These have no row of a tenant, or find out whose a key or a session is.
OF_NOBODY = {"jobs.read_state", "jobs.find_pause", "jobs.note_success", "jobs.note_failure", "runs.read_queue_figures"}
OF_TENANTS_AMONG_KEYS = {"keys.list_changes", "keys.record_change"}
STORAGE = [
    importlib.import_module(f"{storage.__name__}.{module.name}")
    for module in pkgutil.iter_modules(storage.__path__)
    if module.name != "database"
]
# Workers wake for any tenant: a sweep counts all due chats, a claim all that ask one summariser; a round ends for any.
SYSTEM_WIDE = {"work.count_waiting", "work.claim_work", "work.yields_to_others"}
# Retention is a rule of the whole installation: it pages through the rows of all.
SYSTEM_WIDE |= {f"maintenance.delete_old_{what}" for what in ("texts", "runs", "audit_rows", "chats")}
SYSTEM_WIDE |= {
    "maintenance.delete_retired_checkpoints",
    "maintenance.delete_expired_chats",
    "maintenance.delete_past_tombstones",
}
# Keys are of the whole installation too: a rotation pages through all chats, and then works chat by chat.
SYSTEM_WIDE |= {"maintenance.list_chats", "maintenance.reseal_secrets", "maintenance.count_values"}


class Heard(NamedTuple):
    """The functions of the storage that were called, and every statement with the function that executed it."""

    functions: set[str]
    statements: list[tuple[str, str]]


@pytest_asyncio.fixture(loop_scope="module")
async def pair(service: Service) -> AsyncIterator[tuple[Tenant, Tenant]]:
    async with AsyncExitStack() as stack:
        yield await _tenant("tenant-a", service, stack), await _tenant("tenant-b", service, stack)


async def _tenant(name: str, service: Service, stack: AsyncExitStack) -> Tenant:
    answers: list[httpx.Response] = []

    async def note(response: httpx.Response) -> None:
        await response.aread()
        answers.append(response)

    async def client(scope: keys.KeyScope) -> httpx.AsyncClient:
        async with service.runtime.database.engine.begin() as connection:
            key = await keys.create_key(connection, name, scope, name)
        headers = {"Authorization": f"Bearer {key}"}
        opened = httpx.AsyncClient(base_url=service.url, headers=headers, event_hooks={"response": [note]}, timeout=120)
        return await stack.enter_async_context(opened)

    as_filter = await client("filter")
    talk = Talk(as_filter, user=f"user of {name}", model=f"model of {name}")
    return Tenant(name, service, as_filter, await client("operator"), await client("events"), talk, answers)


async def test_what_one_tenant_does_leaves_every_row_of_another_as_it_was_and_shows_nothing_of_it(
    pair: tuple[Tenant, Tenant], heard: Heard, harness: Harness
) -> None:
    """And every statement names the tenant of every table that it touches; no label of a metric has a word of it."""
    a, b = pair
    leaf = await settle(a, harness)
    assert await settle(b, harness) == leaf
    await leave_prompt(b, harness)
    served = await b.talk.ask(leaf, seconds=20)  # all of it is counted
    assert served["status"] == "ready"
    await b.service.runtime.counting.store()
    before = await b.rows()
    assert not [name for name, found in before.items() if not found], "B has rows in every table"
    assert "Story of tenant-b" in str(served)

    async def still() -> None:
        assert await b.rows() == before

    await journey(a, b, leaf, harness, still)

    assert {name: found for name, found in (await a.rows()).items() if found}.keys() == {
        "audit",
        "sums",
        "tombstones",
        "tenant_secrets",
        "endpoints",
        "shown_windows",
    }
    assert await b.talk.ask(leaf, seconds=20) == served
    shown = "\n".join(answer.text for answer in a.answers)
    assert {"Story of tenant-a", "user of tenant-a", "model of tenant-a"} <= set(re.findall(r"\w+ of tenant-a", shown))
    assert "tenant-b" not in shown
    described = (await a.operator.get("/openapi.json")).json()["paths"]
    assert {_route(answer.request) for answer in a.answers} >= {
        f"{method.upper()} {path}"
        for path, methods in described.items()
        if path.startswith("/v1/")
        for method in methods
    }, "the journey has to take a new route too"
    assert heard.functions == set(_functions()), "the journey has to call a new function of the storage too"
    assert "contexts.find_context" in {name for name, _ in heard.statements}
    forgetful = {name: statement for name, statement in heard.statements if without_tenant(statement)}
    assert forgetful.keys() == SYSTEM_WIDE, forgetful
    await check_labels(harness.service, a)


def _route(request: httpx.Request) -> str:
    path = request.url.path.replace("/chat-1", "/{chat_id}")
    path = re.sub("/prompts/[^/]+/reply", "/prompts/{prompt_id}/reply", path)
    path = re.sub("/keys/[0-9]+", "/keys/{key_id}", path)
    path = re.sub("/users/[^/]+", "/users/{user_id}", path)
    return f"{request.method} {re.sub('/checkpoints/[0-9]+', '/checkpoints/{checkpoint_id}', path)}"


def _functions() -> dict[str, tuple[Any, Callable[..., Awaitable[Any]]]]:
    """The public functions of the storage that execute statements, by name."""
    found = {
        f"{module.__name__.rpartition('.')[2]}.{name}": (module, function)
        for module in STORAGE
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction)
        if not name.startswith("_") and inspect.unwrap(function).__module__ == module.__name__
    }
    return {
        name: one
        for name, one in found.items()
        if name not in OF_NOBODY and (not name.startswith("keys.") or name in OF_TENANTS_AMONG_KEYS)
    }


@pytest_asyncio.fixture(loop_scope="module")
async def heard(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Heard]:
    found = Heard(set(), [])
    now: ContextVar[str] = ContextVar("now", default="outside the storage")

    def noted(name: str, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(function)
        async def call(*args: Any, **more: Any) -> Any:
            found.functions.add(name)
            token = now.set(name)
            try:
                return await function(*args, **more)
            finally:
                now.reset(token)

        return call

    for name, (module, function) in _functions().items():
        monkeypatch.setattr(module, function.__name__, noted(name, function))

    def by_the_engine(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found.statements.append((now.get(), statement))

    def by_a_read_pool(query: asyncpg.connection.LoggedQuery) -> None:
        found.statements.append((now.get(), query.query))

    database = service.runtime.database
    async with AsyncExitStack() as stack:
        for pool in (database.reads.pool, database.hot.pool):
            for _ in range(pool.get_max_size()):
                connection = await stack.enter_async_context(pool.acquire())
                connection.add_query_logger(by_a_read_pool)
    for engine in (database.engine, database.slow):
        event.listen(engine.sync_engine, "before_cursor_execute", by_the_engine)
    yield found
    for engine in (database.engine, database.slow):
        event.remove(engine.sync_engine, "before_cursor_execute", by_the_engine)


_NAMED = re.compile(rf"(?:\b(?:from|join|update)\s|,)\s*({'|'.join(TABLES)})\b(?!\.)(?:\s+as\b)?(?:\s+(\w+))?")
_FILLED = re.compile(rf"insert into (?:{'|'.join(TABLES)}) \((.*?)\)")
_NO_ALIAS = {"", "where", "on", "set", "left", "join", "order", "limit", "union", "for", "returning"}


def without_tenant(statement: str) -> list[str]:
    """The tables, or their aliases, that a statement reads or changes without a term on their tenant."""
    sql = statement.lower()
    named = Counter(table if alias in _NO_ALIAS else alias for table, alias in _NAMED.findall(sql))
    missing = [name for name, times in named.items() if len(re.findall(rf"\b{name}\.tenant_id = ", sql)) < times]
    return missing + [columns for columns in _FILLED.findall(sql) if "tenant_id" not in columns]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO runs (chat_id, seq) VALUES ($1, $2)",
        "select 1 from messages m join checkpoints c on c.id = m.checkpoint_id where m.tenant_id = $1",
        "select 1 from messages where messages.tenant_id = $1 union all select 1 from messages, up where true",
    ],
)
async def test_the_check_finds_a_statement_that_forgets_the_tenant(statement: str) -> None:
    assert without_tenant(statement)
