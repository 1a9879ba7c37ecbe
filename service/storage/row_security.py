"""Row-level security: PostgreSQL itself shows a tenant's statements no row of another.

It is the second wall, beside the WHERE of each statement. `build` builds it at each migration;
`entering` puts the transactions of an engine behind it, by the present task's `scope`. Roles belong
to a whole server: the databases on it share them, and they stay when one is dropped.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.storage import scope
from service.storage.scope import MAY_TAKE_ON, ROLES, SET_APART
from service.storage.tables import audit, metadata

log = structlog.get_logger(__name__)

SQL: Final = "; ".join(
    [
        *(f"create role {role} nologin" for role in ROLES),
        f"grant {', '.join(ROLES)} to {{login}}",
    ]
)
"""What an administrator runs where the login of a migration may not do it."""

_OF_TENANTS: Final = [table.name for table in metadata.sorted_tables if "tenant_id" in table.c]
_ONE_TENANT: Final = "precis_one_tenant"
_ENTER: Final = "select set_config('role', $1, true), set_config('precis.tenant', $2, true)"
# Where there is no wall, the role is another one, and stays.
_AS: Final = text("select set_config('role', :role, true) where current_user = any(:ours)")

_UNPROTECTED: Final = text("""
select relname from pg_class
where relnamespace = current_schema()::regnamespace and relname = any(:tables)
    and not (relrowsecurity and exists (
        select from pg_policy where polrelid = pg_class.oid and polname = :policy
    ))
""")
# A restrictive policy alone lets nobody see anything, so another one comes before it. Statements
# name the tenant too, so that PostgreSQL compares once for each, and not for each row.
_PROTECT: Final = f"""
drop policy if exists precis_everybody on {{table}};
drop policy if exists {_ONE_TENANT} on {{table}};
create policy precis_everybody on {{table}} using (true) with check (true);
create policy {_ONE_TENANT} on {{table}} as restrictive to {scope.TENANT}
    using (tenant_id = nullif(current_setting('precis.tenant', true), '')::bigint);
alter table {{table}} enable row level security
"""
_MAY_NOT_YET: Final = text("""
select relname from pg_class
where relnamespace = current_schema()::regnamespace and relname = any(:tables)
    and not has_table_privilege(:role, oid, 'INSERT')
""")
_NOT_OURS: Final = text(
    f"select rolname from pg_roles where rolname = any(:roles) and not {MAY_TAKE_ON}"
)


def build(connection: Connection) -> None:
    """Makes the roles, what they may, and the policies, as far as they are missing.

    Where the login may make no roles, there is no wall, and the log says what to do.

    Args:
        connection: in the transaction of a migration, at the newest one.
    """
    try:
        with connection.begin_nested():
            _make_roles(connection)
    except DBAPIError as error:
        why = str(error.orig).rpartition(": ")[2]
        login = connection.execute(text("select quote_ident(current_user)")).scalar_one()
        run = SQL.format(login=login)
        log.warning("row_security.no_roles", why=why, run=run, then="precis migrate")
        return
    _grant(connection)
    given = {"tables": _OF_TENANTS, "policy": _ONE_TENANT}
    for table in connection.execute(_UNPROTECTED, given).scalars().all():
        for statement in _PROTECT.format(table=table).split(";"):
            connection.execute(text(statement))


def tear_down(connection: Connection) -> None:
    """Removes the policies, whose column an older schema does not have. Roles stay."""
    for table in _OF_TENANTS:
        connection.execute(text(f"alter table if exists {table} disable row level security"))
        for policy in ("precis_everybody", _ONE_TENANT):
            connection.execute(text(f"drop policy if exists {policy} on {table}"))


def entering(engine: AsyncEngine) -> None:
    """Gives each transaction of an engine the role and the tenant of the task that begins it."""

    @event.listens_for(engine.sync_engine, "begin")
    def enter(connection: Connection) -> None:
        connection.exec_driver_sql(_ENTER, scope.current())


@asynccontextmanager
async def keeping(connection: AsyncConnection) -> AsyncIterator[None]:
    """Within, the transaction may change rows of the audit log: the service only adds to it."""
    ours = list(ROLES)
    await connection.execute(_AS, {"role": scope.KEEPER, "ours": ours})
    yield
    # Not after an error, with which the transaction ends, and the role with it.
    await connection.execute(_AS, {"role": scope.current().role, "ours": ours})


def _make_roles(connection: Connection) -> None:
    known = text("select rolname from pg_roles where rolname = any(:roles)")
    made = set(connection.execute(known, {"roles": list(ROLES)}).scalars())
    for role in ROLES:
        if role not in made:
            connection.execute(text(f"create role {role} nologin"))
    # A login that is no superuser may take on only what it is a member of. Where that can be told
    # apart, it does not inherit, or a policy for one tenant would be one for the login itself.
    number = connection.execute(text("select current_setting('server_version_num')::int"))
    options = " with inherit false, set true" if number.scalar_one() >= SET_APART else ""
    for role in connection.execute(_NOT_OURS, {"roles": list(ROLES)}).scalars().all():
        connection.execute(text(f"grant {role} to current_user{options}"))


def _grant(connection: Connection) -> None:
    tables = [*(table.name for table in metadata.sorted_tables), "alembic_version"]
    given = {"tables": tables, "role": scope.KEEPER}
    if not connection.execute(_MAY_NOT_YET, given).first():
        return
    schema = connection.execute(text("select quote_ident(current_schema())")).scalar_one()
    roles = ", ".join(ROLES)
    for statement in (
        f"grant usage on schema {schema} to {roles}",
        f"grant select, insert, update, delete on {', '.join(tables)} to {roles}",
        f"grant usage, select, update on all sequences in schema {schema} to {roles}",
        f"revoke update, delete on {audit.name} from {scope.SERVICE}, {scope.TENANT}",
    ):
        connection.execute(text(statement))
