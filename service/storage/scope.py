"""Whose rows the present task may see: those of the whole fleet, or of one tenant.

Set where it becomes known who asks, and not by those who write statements: so the wall in the
database stands on its own (`row_security`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

SERVICE: Final = "precis_service"
"""The role of what works for all tenants: it owns nothing, and adds to the audit log alone."""
TENANT: Final = "precis_tenant"
"""The same for one tenant, whose rows are all that it sees."""
KEEPER: Final = "precis_keeper"
"""The role that may change the audit log: for an erasure, and for what is too old."""

ROLES: Final = (SERVICE, TENANT, KEEPER)
SET_APART: Final = 160_000
"""The version of PostgreSQL since which not each member of a role may take it on."""
MAY_TAKE_ON: Final = (
    "pg_has_role(session_user, oid, case when current_setting('server_version_num')::int"
    f" >= {SET_APART} then 'SET' else 'MEMBER' end)"
)
"""SQL: whether the login may take on the role of a row of `pg_roles`."""
IN_FORCE: Final = f"""
select current_schema() <> session_user and count(*) = cardinality($1::text[]) and bool_and(
    {MAY_TAKE_ON} and coalesce(has_table_privilege(oid, to_regclass('audit'), 'INSERT'), false)
)
from pg_roles where rolname = any($1::text[])
"""
"""SQL: whether the roles are there, may what they have to, and the login may take them on.

Not where the tables are in a schema of the login's own name: another role does not find them there.
"""


class Scope(NamedTuple):
    """The role of a task's statements, and the tenant for the policies; empty for all tenants."""

    role: str
    tenant: str


_FLEET: Final = Scope(SERVICE, "")
_scope: ContextVar[Scope] = ContextVar("scope", default=_FLEET)


def current() -> Scope:
    """The scope of the present task."""
    return _scope.get()


def narrow(tenant: int) -> None:
    """From here on, this task sees the rows of one tenant."""
    _scope.set(Scope(TENANT, str(tenant)))


@contextmanager
def narrowed(tenant: int) -> Iterator[None]:
    """Within, this task sees the rows of one tenant."""
    with _within(Scope(TENANT, str(tenant))):
        yield


@contextmanager
def fleet_wide() -> Iterator[None]:
    """Within, this task sees the rows of all tenants; `narrow` holds until the end of it."""
    with _within(_FLEET):
        yield


@contextmanager
def _within(wanted: Scope) -> Iterator[None]:
    token = _scope.set(wanted)
    try:
        yield
    finally:
        _scope.reset(token)
