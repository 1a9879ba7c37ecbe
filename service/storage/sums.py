"""Sums of what was saved and spent, written: a row for each user, day, chat and model.

What they are worth is read by `worth`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Date, delete, func, literal, select, text
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import tombstones
from service.storage.tables import chats, sums
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among
from service.storage.tombstones import Named

COUNTS: Final = ("tokens_not_sent", "tokens_read", "truncated")
"""The columns that are summed up."""
NOBODY: Final = ""
"""The user of sums that nobody knows the user of, or that are of one who was deleted."""

_NO_CHAT: Final = 0
# The database's clock, so that all processes count on the same day.
_TODAY: Final[ColumnElement[Any]] = func.timezone("utc", func.now()).cast(Date)
_WRITING: Final = text("lock table sums in row exclusive mode")
_ALONE: Final = text("lock table sums in share row exclusive mode")


class Share(NamedTuple):
    """Whose request it was. `chat` is Open WebUI's id; an empty `user` is unknown."""

    tenant: int
    chat: str
    user: str
    model: str


Counts = Counter[str]
"""By the columns `COUNTS`."""


async def add(connection: AsyncConnection, shares: Mapping[Share, Counts]) -> None:
    """Adds what was counted of requests. Locks no chat, so that nobody waits for it.

    `connection` is of a transaction that has read nothing yet.
    """
    # Before the look for deleted users: who is deleted from here on is moved with these rows.
    await connection.execute(_WRITING)
    of_tenants: defaultdict[int, dict[Share, Counts]] = defaultdict(dict)
    for share, counts in shares.items():
        of_tenants[share.tenant][share] = counts
    rows = [
        row
        for tenant, of_tenant in of_tenants.items()
        for row in await _rows(connection, tenant, of_tenant)
    ]
    # In the same order for all services, or two could wait for each other.
    rows.sort(key=lambda row: (row["tenant_id"], row["user_id"], row["chat_number"], row["model"]))
    await connection.execute(_adding(insert(sums).values(day=_TODAY)), rows)


async def summarised(
    connection: AsyncConnection, chat: ChatKey, summariser: str, tokens_read: int
) -> None:
    """Adds one call of a summariser for a chat; nothing when the chat was deleted meanwhile.

    `summariser` is the model. The chat's row is locked as a foreign key locks it, so that nobody
    deletes the user meanwhile.
    """
    query = select(chats.c.user_id).where(*of(chat, chats)).with_for_update(key_share=True)
    user = (await connection.execute(query)).scalar_one_or_none()
    if user is not None:
        statement = insert(sums).values(
            tenant_id=chat.tenant,
            user_id=user,
            day=_TODAY,
            chat_number=chat.id,
            model=summariser,
            tokens_read=tokens_read,
        )
        await connection.execute(_adding(statement))


async def forget_user(connection: AsyncConnection, tenant: int, user: str) -> None:
    """Makes a deleted user's sums those of nobody.

    Nobody adds any until the transaction ends, so this is its last step.
    """
    await connection.execute(_ALONE)
    whose = (sums.c.tenant_id == tenant, sums.c.user_id == user)
    others = [column for column in sums.c if column.name != "user_id"]
    names = ["user_id", *(column.name for column in others)]
    theirs = select(literal(NOBODY), *others).where(*whose)
    await connection.execute(_adding(insert(sums).from_select(names, theirs)))
    await connection.execute(delete(sums).where(*whose))


async def _rows(
    connection: AsyncConnection, tenant: int, shares: Mapping[Share, Counts]
) -> list[dict[str, Any]]:
    """The rows of a tenant; a chat that is not stored and a deleted user have no name in them."""
    named = among(chats.c.external_id, {share.chat for share in shares})
    query = select(chats.c.external_id, chats.c.id).where(chats.c.tenant_id == tenant, named)
    ids = {row.external_id: row.id for row in await connection.execute(query)}
    users = {Named("user", share.user) for share in shares}
    deleted = {user.id for user in await tombstones.deleted(connection, tenant, users)}
    return [
        {
            "tenant_id": tenant,
            "user_id": NOBODY if share.user in deleted else share.user,
            "chat_number": ids.get(share.chat, _NO_CHAT),
            "model": share.model,
            **{name: counts[name] for name in COUNTS},
        }
        for share, counts in shares.items()
    ]


def _adding(statement: Insert) -> Insert:
    """Adds to the row that is there already."""
    grown = {name: sums.c[name] + statement.excluded[name] for name in COUNTS}
    return statement.on_conflict_do_update(constraint="pk_sums", set_=grown)
