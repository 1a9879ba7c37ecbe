"""The audit log: one row for each change of an operator, in the transaction of the change."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import audit


@dataclass(frozen=True, slots=True)
class Operator:
    """Who acts, for the audit log, and in which tenant."""

    tenant: int
    actor: str


@dataclass(frozen=True, slots=True)
class Change:
    """Who did what, to which chat (Open WebUI's id), and when."""

    id: int
    at: datetime
    actor: str
    action: str
    chat: str | None
    details: dict[str, Any]


def name_user(user: str) -> str:
    """How the log names a user of Open WebUI who changed something."""
    return f"user {user}"


async def list_changes(
    connection: AsyncConnection,
    tenant: int,
    *,
    chat: str | None = None,
    actor: str | None = None,
    before: int | None = None,
    limit: int,
) -> list[Change]:
    """A tenant's changes, newest first; `before` is the last id of the page before.

    `chat` and `actor` are exact.
    """
    columns = [audit.c[name] for name in Change.__dataclass_fields__]
    query = select(*columns).where(audit.c.tenant_id == tenant)
    if chat is not None:
        query = query.where(audit.c.chat == chat)
    if actor is not None:
        query = query.where(audit.c.actor == actor)
    if before is not None:
        query = query.where(audit.c.id < before)
    query = query.order_by(audit.c.id.desc()).limit(limit)
    return [Change(*row) for row in await connection.execute(query)]


async def record_change(
    connection: AsyncConnection,
    by: Operator,
    action: str,
    chat: str | None,
    /,
    **details: Any,  # noqa: ANN401
) -> None:
    """Notes who did what; `details` must be JSON."""
    await connection.execute(
        insert(audit).values(
            tenant_id=by.tenant, actor=by.actor, action=action, chat=chat, details=details
        )
    )
