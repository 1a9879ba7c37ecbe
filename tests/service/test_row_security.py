"""The second wall: PostgreSQL shows a tenant's statements no row of another, whatever their WHERE says."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import ProgrammingError

from service.storage import jobs, row_security
from service.storage.database import connect, migrate
from service.storage.scope import KEEPER, ROLES, SERVICE, TENANT, narrowed
from service.storage.tables import metadata
from service.urls import Urls
from tests.conftest import Service, drop_database, execute
from tests.service.harness import Harness
from tests.service.talk import row, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_TENANTS = [table.name for table in metadata.sorted_tables if "tenant_id" in table.c]

PLANTED = (
    "insert into chats (tenant_id, external_id, user_id, model, window_tokens)"
    " values ({tenant}, 'planted', 'user', 'model', 8192)"
)


async def two_tenants(service: Service, harness: Harness) -> tuple[int, int]:
    """A chat with a summary of the first tenant; a second one with a copy of every row that needs no chat."""
    await harness.long_chat()
    await harness.drain()
    await service.as_operator.post("/v1/chats/chat-1/recompute")
    await harness.drain()
    database = service.runtime.urls.database
    await execute(
        database,
        "insert into tenants (name) values ('other') on conflict do nothing",
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens)"
        " select id, 'theirs', 'user', 'model', 8192 from tenants where name = 'other'",
        "insert into audit (tenant_id, actor, action, details)"
        " select id, 'somebody', 'chat.delete', '{}' from tenants where name = 'other'",
    )
    own, other = await row(
        service.runtime,
        "select (select id from tenants where name = 'default'), (select id from tenants where name = 'other')",
    )
    return own, other


async def execute_as_it_is(service: Service, statement: str) -> None:
    async with service.runtime.database.engine.begin() as connection:
        await connection.execute(text(statement))


async def test_a_statement_without_where_finds_the_rows_of_its_own_tenant_only(
    service: Service, harness: Harness
) -> None:
    own, other = await two_tenants(service, harness)

    with narrowed(own):
        seen = {name: await rows(service.runtime, f"select tenant_id from {name}") for name in OF_TENANTS}
    with narrowed(other):
        theirs = await rows(service.runtime, "select external_id from chats")

    assert {one.tenant_id for found in seen.values() for one in found} == {own}
    assert {"chats", "messages", "checkpoints", "runs", "audit", "api_keys"} <= {name for name in seen if seen[name]}
    assert [one.external_id for one in theirs] == ["theirs"]
    assert len(await rows(service.runtime, "select 1 from chats")) == 2, "what works for all tenants sees all"


async def test_reads_of_the_request_path_are_behind_it_too(service: Service, harness: Harness) -> None:
    own, other = await two_tenants(service, harness)
    reads = service.runtime.database.reads

    async def seen(tenant: int) -> set[str]:
        with narrowed(tenant):
            return {one["external_id"] for one in await reads.fetch("select external_id from chats")}

    # More than there are connections, so that each one changes hands.
    found = await asyncio.gather(*(seen(tenant) for tenant in (own, other) * 10))

    assert found == [{"chat-1"}, {"theirs"}] * 10
    assert await reads.fetchval("select count(*) from chats") == 2


async def test_a_read_that_is_cancelled_while_it_enters_leaves_nobody_among_anothers_rows(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = service.runtime.database.reads
    execute = asyncpg.Connection.execute

    async def cancelled(connection: Any, *given: Any) -> None:
        await execute(connection, *given)
        raise asyncio.CancelledError

    async with reads.plain.acquire() as connection:
        await reads._enter(connection)
        monkeypatch.setattr(asyncpg.Connection, "execute", cancelled)
        with narrowed(4711), pytest.raises(asyncio.CancelledError):
            await reads._enter(connection)
        monkeypatch.undo()
        await reads._enter(connection)
        assert await connection.fetchval("select current_setting('precis.tenant')") == "", "as it was before"


async def test_no_row_of_another_tenant_can_be_changed_removed_or_made(service: Service, harness: Harness) -> None:
    own, other = await two_tenants(service, harness)

    with narrowed(own):
        async with service.runtime.database.engine.begin() as connection:
            changed = await connection.execute(text("update chats set model = 'mine'"))
            removed = await connection.execute(text("delete from chats"))
        with pytest.raises(ProgrammingError, match="row-level security"):
            await execute_as_it_is(service, PLANTED.format(tenant=other))

    assert (changed.rowcount, removed.rowcount) == (1, 1)
    left = await rows(service.runtime, "select external_id, model from chats")
    assert [tuple(one) for one in left] == [("theirs", "model")]


async def test_what_serves_and_works_owns_no_table_and_only_adds_to_the_audit_log(
    service: Service, harness: Harness
) -> None:
    own, _ = await two_tenants(service, harness)
    engine = service.runtime.database.engine

    owners = {one.tableowner for one in await rows(service.runtime, "select tableowner from pg_tables")}
    assert not owners & {SERVICE, TENANT, KEEPER}
    for statement in ("update audit set actor = 'nobody'", "delete from audit"):
        with pytest.raises(ProgrammingError, match="permission denied"):
            await execute_as_it_is(service, statement)
        with narrowed(own), pytest.raises(ProgrammingError, match="permission denied"):
            await execute_as_it_is(service, statement)
    with narrowed(own):
        async with engine.begin() as connection:
            async with row_security.keeping(connection):
                await connection.execute(text(f"delete from audit where tenant_id = {own}"))
            assert (await connection.execute(text("select current_user"))).scalar_one() == TENANT


@asynccontextmanager
async def owner_without_rights(servers: Urls) -> AsyncIterator[str]:
    """An empty database that belongs to a login that may make no roles; its address."""
    name = f"plain_{uuid.uuid4().hex[:12]}"
    made = f"create role {name} login password 'secret' nosuperuser nocreaterole"
    await execute(servers.database, made, f"grant {name} to current_user", f"create database {name} owner {name}")
    where = make_url(servers.database).set(username=name, password="secret", database=name)
    try:
        await reach(where.render_as_string(hide_password=False))
        yield where.render_as_string(hide_password=False)
    finally:
        await drop_database(servers.database, name)
        await execute(servers.database, f"drop role {name}")


async def reach(url: str) -> None:
    """Skips the test where a pooler is between, which knows the logins of its file alone."""
    try:
        await execute(url, "select 1")
    except asyncpg.ProtocolViolationError:
        pytest.skip("PgBouncer knows no login that a test makes")


async def has_row_security(url: str) -> bool:
    async with connect(url) as database:
        assert await jobs.has_row_security(database.reads) == database.reads.row_security
        return database.reads.row_security


async def test_a_login_that_may_make_no_roles_has_no_wall_until_it_may_take_them_on(
    servers: Urls, capsys: pytest.CaptureFixture[str]
) -> None:
    async with owner_without_rights(servers) as url:
        role = make_url(url).username
        await execute(servers.database, *(f"revoke {one} from {role}" for one in ROLES))
        await migrate(url)
        assert "row_security.no_roles" in capsys.readouterr().out
        assert not await has_row_security(url)

        await execute(servers.database, *(f"grant {one} to {role}" for one in ROLES))
        await migrate(url)

        assert await has_row_security(url)
        async with connect(url) as database, database.engine.begin() as connection:
            assert (await connection.execute(text("select current_user"))).scalar_one() == SERVICE
            assert (await connection.execute(text("select count(*) from chats"))).scalar_one() == 0


async def test_tables_in_a_schema_of_the_logins_name_are_found_without_the_wall(servers: Urls) -> None:
    """PostgreSQL looks for them by the name of the present role."""
    async with owner_without_rights(servers) as url:
        role = make_url(url).username
        await execute(servers.database, *(f"grant {one} to {role}" for one in ROLES))
        await execute(url, f"create schema {role}")

        await migrate(url)

        assert not await has_row_security(url)
        async with connect(url) as database, database.engine.begin() as connection:
            assert (await connection.execute(text("select count(*) from chats"))).scalar_one() == 0


async def test_a_login_that_owns_nothing_serves_with_what_the_roles_may(
    service: Service, harness: Harness, servers: Urls
) -> None:
    """As `docs/howto/row-level-security.md` has it: one login migrates, another one serves."""
    own, _ = await two_tenants(service, harness)
    login = f"serves_{uuid.uuid4().hex[:12]}"
    made = f"create role {login} login noinherit password 'secret' in role {', '.join(ROLES)}"
    await execute(servers.database, made)
    url = make_url(service.runtime.urls.database).set(username=login, password="secret")
    try:
        await reach(url.render_as_string(hide_password=False))
        async with connect(url.render_as_string(hide_password=False)) as database:
            assert database.reads.row_security
            async with database.engine.begin() as connection:
                seen = await connection.execute(text("select external_id from chats"))
                assert set(seen.scalars()) == {"chat-1", "theirs"}
            with narrowed(own):
                assert await database.reads.fetchval("select count(*) from chats") == 1
    finally:
        await execute(servers.database, f"drop role {login}")
