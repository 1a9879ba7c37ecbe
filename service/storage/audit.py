"""The audit log: one row for each change of an operator, in the transaction of the change."""

from typing import Any

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import audit


async def record(
    connection: AsyncConnection,
    tenant: int,
    actor: str,
    action: str,
    chat: str | None,
    **details: Any,  # noqa: ANN401
) -> None:
    """Notes who did what; `details` must be JSON."""
    await connection.execute(
        insert(audit).values(
            tenant_id=tenant, actor=actor, action=action, chat=chat, details=details
        )
    )
