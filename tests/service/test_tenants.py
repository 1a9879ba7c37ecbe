"""Two tenants with the same chat, the same messages and the same contents: what one does, the other never notices.

`journey` takes tenant A through every route of the service and every function of the storage; B stands still meanwhile.
"""

import inspect
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx
import pytest
import pytest_asyncio
from sqlalchemy import event

from service.compress import compress
from service.retention import remove_expired, remove_old
from service.storage import (
    audit,
    chats,
    checkpoints,
    contexts,
    cuts,
    forks,
    history,
    jobs,
    keys,
    retention,
    transcripts,
    work,
)
from service.storage.checkpoints import Fresh
from service.storage.tables import metadata
from service.summarising.memory import Memory
from tests.conftest import Service, execute
from tests.fakes.scripted_llm import Fail, Say
from tests.service.desk import Desk
from tests.service.talk import Talk, prose

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORAGE = (audit, chats, checkpoints, contexts, cuts, forks, history, jobs, retention, transcripts, work)
# A key is looked up by its hash, before anybody knows whose it is.
TABLES = [table.name for table in metadata.sorted_tables if "tenant_id" in table.c and table.name != "api_keys"]
# Workers wake for any tenant: a sweep counts all due chats, a claim all that ask one summariser.
SYSTEM_WIDE = {"work.waiting", "work.claim"}
# Retention is a rule of the whole installation: it pages through the rows of all, and then works chat by chat.
SYSTEM_WIDE |= {"retention.old_rows", "retention.old_bodies", "retention.covered_chats", "retention.lost_chats"}
SYSTEM_WIDE |= {"retention.expired_chats"}


@dataclass
class Tenant:
    """One Open WebUI; its name is in all that is its own, but in the messages."""

    name: str
    service: Service
    filter: httpx.AsyncClient
    operator: httpx.AsyncClient
    talk: Talk
    answers: list[httpx.Response] = field(default_factory=list)

    async def ask(self, method: str, where: str = "", **more: Any) -> httpx.Response:
        """As the operator."""
        return await self.operator.request(method, f"/v1/chats{where}", **more)

    async def get(self, path: str) -> httpx.Response:
        """As the operator, anywhere."""
        return await self.operator.get(path)

    async def identity(self) -> int:
        """The tenant's id."""
        async with self.service.runtime.database.engine.connect() as connection:
            found = await keys.tenant(connection, self.name)
        assert found
        return found

    async def rows(self) -> dict[str, list[str]]:
        """All that is its own, as text. Not through the service's connections: those are listened to."""
        connection = await asyncpg.connect(self.service.runtime.urls.database.replace("+asyncpg", ""))
        query = "select t::text from {} t where tenant_id = (select id from tenants where name = $1) order by 1"
        try:
            return {name: [row[0] for row in await connection.fetch(query.format(name), self.name)] for name in TABLES}
        finally:
            await connection.close()

    async def put_off(self, until: str) -> None:
        """Its due work is due at `until`, an SQL term."""
        whose = f"tenant_id = (select id from tenants where name = '{self.name}')"
        where = f"{whose} and due_at is not null"
        await execute(self.service.runtime.urls.database, f"update chats set due_at = {until} where {where}")

    async def work(self, desk: Desk, calls: int | None = None) -> None:
        """One round; what the model writes has the tenant's name. After so many `calls` it fails."""
        await self.put_off("now()")
        desk.llm.default = narrative = Say(f"## Current state\n- Narrative of {self.name}.")
        if calls:
            desk.llm.script(*[narrative] * calls, Fail(400))
        await compress(desk.bench())


@pytest_asyncio.fixture(loop_scope="module")
async def pair(service: Service) -> AsyncIterator[tuple[Tenant, Tenant]]:
    async with AsyncExitStack() as stack:
        yield await _tenant("tenant-a", service, stack), await _tenant("tenant-b", service, stack)


async def _tenant(name: str, service: Service, stack: AsyncExitStack) -> Tenant:
    answers: list[httpx.Response] = []

    async def note(response: httpx.Response) -> None:
        await response.aread()
        answers.append(response)

    async def client(scope: keys.Scope) -> httpx.AsyncClient:
        async with service.runtime.database.engine.begin() as connection:
            key = await keys.create(connection, name, scope, name)
        headers = {"Authorization": f"Bearer {key}"}
        opened = httpx.AsyncClient(base_url=service.url, headers=headers, event_hooks={"response": [note]})
        return await stack.enter_async_context(opened)

    as_filter = await client("filter")
    talk = Talk(as_filter, user=f"user of {name}", model=f"model of {name}")
    return Tenant(name, service, as_filter, await client("operator"), talk, answers)


async def settle(tenant: Tenant, desk: Desk) -> str:
    """Rows in every table: checkpoints, a half-read turn, work that failed and is due tomorrow. Returns the leaf."""
    talk = tenant.talk
    leaf = talk.turns(14)
    await talk.hand_over(leaf)
    await tenant.work(desk)
    deepest = (await tenant.ask("GET", "/chat-1/checkpoints")).json()[-1]["id"]
    await tenant.ask("POST", "/chat-1/reset", json={"keep": deepest})
    leaf = talk.add("long", talk.add("q", leaf), "assistant", prose(9000, "long"))
    leaf = talk.turns(6, leaf=leaf)
    await talk.hand_over(leaf)
    await tenant.work(desk, calls=4)
    await tenant.put_off("now() + interval '1 day'")
    return leaf


async def journey(a: Tenant, b: Tenant, leaf: str, desk: Desk, still: Callable[[], Awaitable[None]]) -> None:
    """A uses all that there is; `still` is called after each step."""
    theirs = (await b.ask("GET", "/chat-1/checkpoints")).json()[-1]["id"]
    own = (await a.ask("GET", "/chat-1/checkpoints")).json()[-1]["id"]

    assert (await a.filter.get("/v1/filter")).json()["tenant"] == "tenant-a"
    assert [one["chat_id"] for one in (await a.ask("GET")).json()["chats"]] == ["chat-1"]
    assert (await a.ask("GET", "/chat-1")).json()["chat"]["user_id"] == "user of tenant-a"
    assert (await a.ask("GET", f"/chat-1/checkpoints/{own}")).json()["current"]
    assert (await a.talk.ask(leaf))["summary"].count("Narrative of tenant-a") == 1
    assert (await a.ask("GET", f"/chat-1/checkpoints/{theirs}")).status_code == 404
    assert (await a.ask("POST", "/chat-1/reset", json={"keep": theirs})).status_code == 404
    assert (await a.ask("POST", f"/chat-1/checkpoints/{theirs}/serve")).status_code == 404
    said = {"narrative": "Narrative of tenant-a, corrected.", "pins": [{"kind": "goal", "text": "Peace."}]}
    assert (await a.ask("PATCH", f"/chat-1/checkpoints/{theirs}", json=said)).status_code == 404
    corrected = await a.ask("PATCH", f"/chat-1/checkpoints/{own}", json=said)
    assert corrected.json()["checkpoint"]["version"] == 2
    assert (await a.ask("POST", f"/chat-1/checkpoints/{own}/serve")).status_code == 200
    await a.put_off("now() + interval '1 day'")
    assert (await a.talk.put(a.talk.transcript(leaf, served=theirs))).status_code == 202
    await still()

    await _fork(a, leaf)
    await still()

    await a.talk.hand_over(a.talk.turns(3, leaf=list(a.talk.rows)[4], prefix="branch-"))
    a.talk.edit(list(a.talk.rows)[10], "Something else.")
    await a.talk.hand_over(leaf)
    await a.work(desk)
    await still()

    await _grow_old(a)
    await still()
    assert (await a.ask("POST", "/chat-1/recompute")).json()["waits"]
    assert (await a.operator.post("/v1/jobs/chat-1/retry")).status_code == 202
    await a.work(desk)
    assert (await a.talk.put(a.talk.transcript(leaf, after=a.talk.rows[leaf]["parentId"]))).status_code == 409
    await a.talk.hand_over(leaf)
    await a.work(desk)
    await still()

    made = (await a.ask("GET", "/chat-1/checkpoints")).json()
    await a.ask("POST", "/chat-1/reset", json={"keep": made[0]["id"]})
    await still()
    await a.ask("POST", "/chat-1/reset")
    assert (await a.talk.ask(leaf))["status"] == "pending"
    await still()
    assert (await a.ask("POST", "/chat-1/recompute")).status_code == 202
    await still()
    await _by_hand(a, desk)
    await a.work(desk)
    await still()

    await execute(
        a.service.runtime.urls.database,
        f"update chats set due_at = null, dead_at = now() where tenant_id = {await a.identity()}",
    )
    assert [job["state"] for job in (await a.get("/v1/jobs")).json()["jobs"]] == ["dead"]
    assert (await a.get("/v1/status")).json()["queue"]["dead"] == 1
    async with a.service.runtime.database.engine.begin() as connection:
        assert await work.revive(connection, await a.identity()) == 1
    assert (await a.operator.post("/v1/jobs/chat-1/retry")).status_code == 202
    await still()

    whole = {identity: fingerprint for identity, fingerprint, _ in a.talk.chain(leaf)}
    for happened in (
        {"type": "chat.updated", "chat_id": "chat-1", "fingerprints": whole},
        {"type": "message.deleted", "chat_id": "chat-1", "message_id": leaf},
        {"type": "folder.deleted", "user_id": a.talk.user, "left": ["chat-1"]},
        {"type": "chat.deleted_all", "user_id": b.talk.user},
    ):
        assert (await a.filter.post("/v1/events", json=happened)).status_code == 202
        await still()

    assert (await a.ask("DELETE", "/chat-1")).status_code == 204
    assert (await a.talk.ask(leaf))["status"] == "unknown"
    assert (await a.ask("GET")).json()["chats"] == []
    await still()


async def _fork(a: Tenant, leaf: str) -> None:
    """A fork is served, adopts, and expires."""
    fork = Talk(a.filter, "fork", dict(a.talk.rows), user=a.talk.user, model=a.talk.model)
    for _ in ("before", "after"):
        assert (await fork.ask(leaf, user_id=fork.user))["summary"].count("Narrative of tenant-a") == 1
        await fork.hand_over(leaf, expires_in=60)
    whose = f"external_id = 'fork' and tenant_id = {await a.identity()}"
    await execute(a.service.runtime.urls.database, f"update chats set expires_at = now() where {whose}")
    assert await remove_expired(a.service.runtime.database.engine) == 1


async def _grow_old(a: Tenant) -> None:
    """Of what is as old as this, retention keeps nothing but the chat and what leads to it."""
    whose = f"where tenant_id = {await a.identity()}"
    times = {"messages": "created_at", "checkpoints": "created_at", "runs": "started_at"}
    made_old = [f"update {table} set {at} = {at} - interval '1 year' {whose}" for table, at in times.items()]
    await execute(a.service.runtime.urls.database, f"update chats set due_at = null {whose}", *made_old)
    settings, engine = a.service.runtime.settings, a.service.runtime.database.engine
    assert (await remove_old(engine, settings.model_copy(update={"keep_bodies": "until_covered"}), dry=True)).bodies
    removed = await remove_old(engine, settings)
    assert min(removed.bodies, removed.checkpoints, removed.runs) > 0


async def _by_hand(a: Tenant, desk: Desk) -> None:
    """What only happens when calls take long, or when a worker publishes what is there already."""
    async with a.service.runtime.database.engine.begin() as connection:
        assert await work.waiting(connection, 5) == 1
        lease = await work.claim(connection, "by hand", None, desk.bench().settings)
        assert lease
        assert lease.chat.tenant == await a.identity()
        assert lease.leaf
        assert await work.renew(connection, lease, 60)
        path = await transcripts.path(connection, lease.chat, lease.leaf)
        fresh = Fresh(0, path[5], "llm", Memory(), "summary", 1, "by hand", "1")
        first, again = [await checkpoints.publish(connection, lease, fresh) for _ in range(2)]
        assert first
        assert again == first + 1, "another version"
        assert await checkpoints.degraded(connection, lease.chat, first) is None
        await work.give_back(connection, lease, None, 0)


async def test_what_one_tenant_does_leaves_every_row_of_another_as_it_was(
    pair: tuple[Tenant, Tenant], desk: Desk
) -> None:
    a, b = pair
    leaf = await settle(a, desk)
    assert await settle(b, desk) == leaf
    before = await b.rows()
    assert all(before.values()), "B has rows in every table"
    assert any("Narrative of tenant-b" in made for made in before["checkpoints"])
    served = await b.talk.ask(leaf)
    assert served["status"] == "ready"

    async def still() -> None:
        assert await b.rows() == before

    await journey(a, b, leaf, desk, still)

    assert {name: found for name, found in (await a.rows()).items() if found}.keys() == {"audit"}
    assert await b.talk.ask(leaf) == served


async def test_no_answer_to_one_tenant_shows_anything_of_another(pair: tuple[Tenant, Tenant], desk: Desk) -> None:
    a, b = pair
    leaf = await settle(a, desk)
    await settle(b, desk)

    async def nothing() -> None:
        pass

    await journey(a, b, leaf, desk, nothing)

    shown = "\n".join(answer.text for answer in a.answers)
    assert {"Narrative of tenant-a", "user of tenant-a", "model of tenant-a"} <= set(
        re.findall(r"\w+ of tenant-a", shown)
    )
    assert "tenant-b" not in shown
    described = (await a.operator.get("/openapi.json")).json()["paths"]
    assert {_route(answer.request) for answer in a.answers} >= {
        f"{method.upper()} {path}"
        for path, methods in described.items()
        if path.startswith("/v1/")
        for method in methods
    }, "the journey has to take a new route too"


def _route(request: httpx.Request) -> str:
    path = request.url.path.replace("/chat-1", "/{chat_id}")
    return f"{request.method} {re.sub('/checkpoints/[0-9]+', '/checkpoints/{checkpoint_id}', path)}"


async def test_every_statement_names_the_tenant_of_every_table_that_it_touches(
    pair: tuple[Tenant, Tenant], desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    now: ContextVar[str] = ContextVar("now", default="outside the storage")
    executed: list[tuple[str, str]] = []
    called: set[str] = set()

    def noted(name: str, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **more: Any) -> Any:
            called.add(name)
            token = now.set(name)
            try:
                return await function(*args, **more)
            finally:
                now.reset(token)

        return call

    everything = _functions()
    for name, (module, function) in everything.items():
        monkeypatch.setattr(module, function.__name__, noted(name, function))

    def by_the_engine(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        executed.append((now.get(), statement))

    def by_the_read_pool(query: asyncpg.connection.LoggedQuery) -> None:
        executed.append((now.get(), query.query))

    database = desk.service.runtime.database
    async with database.reads.acquire() as reads:
        reads.add_query_logger(by_the_read_pool)
    event.listen(database.engine.sync_engine, "before_cursor_execute", by_the_engine)
    try:
        leaf = await settle(a, desk)
        await settle(b, desk)

        async def nothing() -> None:
            pass

        await journey(a, b, leaf, desk, nothing)
    finally:
        event.remove(database.engine.sync_engine, "before_cursor_execute", by_the_engine)
        async with database.reads.acquire() as reads:
            reads.remove_query_logger(by_the_read_pool)

    assert called == set(everything), "the journey has to call a new function of the storage too"
    assert "contexts.find" in {name for name, _ in executed}
    forgetful = {name: statement for name, statement in executed if without_tenant(statement)}
    assert forgetful.keys() == SYSTEM_WIDE, forgetful


def _functions() -> dict[str, tuple[Any, Callable[..., Awaitable[Any]]]]:
    """The public functions of the storage that execute statements, by name."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": (module, function)
        for module in STORAGE
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


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
        "SELECT messages.body \nFROM messages \nWHERE messages.chat_id = $1",
        "DELETE FROM drafts WHERE drafts.chat_id = $1",
        "UPDATE runs SET calls=1 WHERE runs.id = $1 RETURNING runs.tenant_id",
        "INSERT INTO runs (chat_id, seq) VALUES ($1, $2)",
        "select 1 from messages m join checkpoints c on c.id = m.checkpoint_id where m.tenant_id = $1",
        "select 1 from messages where messages.tenant_id = $1 union all select 1 from messages, up where true",
        "update messages m set checkpoint_id = 1 from up, checkpoints where m.tenant_id = $1",
    ],
)
async def test_the_check_finds_a_statement_that_forgets_the_tenant(statement: str) -> None:
    assert without_tenant(statement)
