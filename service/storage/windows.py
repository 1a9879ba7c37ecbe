"""Windows of models as their answers show them, where nobody has told them."""

from typing import Final

from sqlalchemy import func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.database import Reads
from service.storage.tables import shown_windows

# A server may be set otherwise since then: what it has shown counts for a week.
_SHOWN: Final = """
select model, window_tokens from shown_windows
where shown_windows.tenant_id = $1 and shown_at > now() - interval '7 days' order by model
"""


async def note_window(connection: AsyncConnection, tenant: int, model: str, window: int) -> None:
    """Notes the window in tokens that an answer of a model has shown."""
    new = insert(shown_windows).values(tenant_id=tenant, model=model, window_tokens=window)
    changed = {"window_tokens": window, "shown_at": func.now()}
    keys = ["tenant_id", "model"]
    await connection.execute(new.on_conflict_do_update(index_elements=keys, set_=changed))


async def find_shown_windows(reads: Reads, tenant: int) -> dict[str, int]:
    """The windows in tokens that answers of a tenant's models have shown lately, by model."""
    return {row["model"]: row["window_tokens"] for row in await reads.fetch(_SHOWN, tenant)}
