"""Whose rows the present task may see: those of the whole fleet, or of one tenant.

Set where it becomes known who asks, and not by those who write statements: so the wall in the
database stands on its own (`walls`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

SERVICE: Final = "precis_service"
"""The role of what works for all tenants: it owns nothing, and adds to the audit log alone."""
TENANT: Final = "precis_tenant"
"""The same for one tenant, whose rows are all that it sees."""
KEEPER: Final = "precis_keeper"
"""The role that may change the audit log: for an erasure, and for what is too old."""

_tenant: ContextVar[int | None] = ContextVar("tenant", default=None)


def narrow(tenant: int) -> None:
    """From here on, this task sees the rows of one tenant."""
    _tenant.set(tenant)


@contextmanager
def narrowed(tenant: int) -> Iterator[None]:
    """Within, this task sees the rows of one tenant."""
    with _within(tenant):
        yield


@contextmanager
def fleet_wide() -> Iterator[None]:
    """Within, this task sees the rows of all tenants; `narrow` holds until the end of it."""
    with _within(None):
        yield


@contextmanager
def _within(tenant: int | None) -> Iterator[None]:
    token = _tenant.set(tenant)
    try:
        yield
    finally:
        _tenant.reset(token)


def role() -> str:
    """The role of the present task's statements."""
    return SERVICE if _tenant.get() is None else TENANT


def tenant() -> str:
    """The tenant for the policies of the database; empty for the whole fleet."""
    found = _tenant.get()
    return "" if found is None else str(found)
