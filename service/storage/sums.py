"""Sums of what was answered, saved and spent, written: by day, by user and day, and by chat.

Rows of requests and rows of a summariser are never the same, so the service and its workers do not
wait for each other here. Several services write their rows in the same order. What they are worth
is read by `worth`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Date, Select, Table, delete, func, literal, select
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import tombstones
from service.storage.tables import chat_sums, chats, day_sums, user_sums
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among
from service.storage.worth import COUNTS

# The database's clock, so that all processes count on the same day.
_TODAY: Final[ColumnElement[Any]] = func.timezone("utc", func.now()).cast(Date)


class Share(NamedTuple):
    """Whose request it was. `chat` is Open WebUI's id; an empty `user` is unknown."""

    tenant: int
    chat: str
    user: str
    model: str


class ChatShare(NamedTuple):
    """The part of it that is counted by chat."""

    tenant: int
    chat: str
    model: str


Counts = Counter[str]
"""By the columns `worth.COUNTS`."""


async def add(
    connection: AsyncConnection,
    shares: Mapping[Share, Counts],
    late: Mapping[ChatShare, Counts],
    *,
    wait: bool,
) -> dict[ChatShare, Counts]:
    """Adds what was counted of requests; `late` is of chats that were locked the last time.

    Of a chat that is not stored, only the day's and the user's sums are kept.

    Args:
        connection: of a transaction.
        shares: what was counted.
        late: what was returned the last time.
        wait: whether to wait for the locks of chats.

    Returns:
        What is still to be added to chats that somebody else has locked now.
    """
    of_chats = _summed((ChatShare(one.tenant, one.chat, one.model), n) for one, n in shares.items())
    for share, numbers in late.items():
        of_chats.setdefault(share, Counter()).update(numbers)
    left = await _add_to_chats(connection, of_chats, wait=wait)
    of_days = _summed(((one.tenant, one.model), n) for one, n in shares.items())
    days = [
        {"tenant_id": tenant, "model": model, **numbers}
        for (tenant, model), numbers in sorted(of_days.items())
    ]
    await _add(connection, day_sums, days)
    gone = await _gone(connection, shares)
    of_users = _summed(
        ((one.tenant, "" if (one.tenant, one.user) in gone else one.user, one.model), n)
        for one, n in shares.items()
    )
    users = [
        {"tenant_id": tenant, "user_id": user, "model": model, **numbers}
        for (tenant, user, model), numbers in sorted(of_users.items())
    ]
    await _add(connection, user_sums, users)
    return left


async def summarised(
    connection: AsyncConnection, chat: ChatKey, summariser: str, read: int, written: int
) -> None:
    """Adds one call of a summariser for a chat; nothing when the chat was deleted meanwhile.

    `summariser` is the model. The first statement of a transaction on rows of this chat: its row is
    locked as a foreign key locks it, and a deletion locks it before all others.
    """
    query = select(chats.c.user_id, chats.c.model).where(*of(chat, chats))
    found = (await connection.execute(query.with_for_update(key_share=True))).one_or_none()
    if found is None:
        return
    user, model = found
    counts = {"calls": 1, "tokens_read": read, "tokens_written": written}
    row = {"model": model, "summariser": summariser} | counts
    await connection.execute(_adding(chat_sums).values(row | chat.columns))
    row["tenant_id"] = chat.tenant
    await connection.execute(_adding(day_sums).values(row | {"day": _TODAY}))
    row["user_id"] = user
    await connection.execute(_adding(user_sums).values(row | {"day": _TODAY}))


async def forget_user(connection: AsyncConnection, tenant: int, user: str) -> None:
    """Keeps a deleted user's sums as those of nobody."""
    whose = (user_sums.c.tenant_id == tenant, user_sums.c.user_id == user)
    others = [user_sums.c[name] for name in ("tenant_id", "day", "model", "summariser", *COUNTS)]
    theirs: Select[Any] = select(literal("").label("user_id"), *others).where(*whose)
    names = [column.name for column in theirs.selected_columns]
    moved = insert(user_sums).from_select(names, theirs)
    await connection.execute(_or_added(moved, user_sums, COUNTS))
    await connection.execute(delete(user_sums).where(*whose))


async def _add_to_chats(
    connection: AsyncConnection, shares: Mapping[ChatShare, Counts], *, wait: bool
) -> dict[ChatShare, Counts]:
    rows: list[dict[str, Any]] = []
    left: dict[ChatShare, Counts] = {}
    by_tenant: dict[int, set[str]] = {}
    for share in shares:
        by_tenant.setdefault(share.tenant, set()).add(share.chat)
    for tenant, names in by_tenant.items():
        whose = (chats.c.tenant_id == tenant, among(chats.c.external_id, names))
        query = select(chats.c.external_id, chats.c.id).where(*whose).order_by(chats.c.id)
        # A foreign key would lock them anyway, and wait while rows are held that others wait for.
        # Not more than that: a claim passes by what is locked, and the chat would wait for a sweep.
        locking = query.with_for_update(read=True, key_share=True, skip_locked=not wait)
        locked = _ids(await connection.execute(locking))
        stored = _ids(await connection.execute(query))
        for share, numbers in shares.items():
            if share.tenant != tenant or share.chat not in stored:
                continue
            if share.chat in locked:
                chat = ChatKey(tenant, locked[share.chat])
                rows.append({**chat.columns, "model": share.model, **numbers})
            else:
                left[share] = numbers
    rows.sort(key=lambda row: (row["chat_id"], row["model"]))
    await _add(connection, chat_sums, rows)
    return left


async def _gone(connection: AsyncConnection, shares: Iterable[Share]) -> set[tuple[int, str]]:
    """The users who were erased since they were counted, with their tenants."""
    by_tenant: dict[int, set[str]] = {}
    for share in shares:
        by_tenant.setdefault(share.tenant, set()).add(share.user)
    return {
        (tenant, user)
        for tenant, users in by_tenant.items()
        for user in await tombstones.erased(connection, tenant, users)
    }


def _ids(found: Iterable[Any]) -> dict[str, int]:
    return dict(map(tuple, found))


def _summed(shares: Iterable[tuple[Any, Counts]]) -> dict[Any, Counts]:
    summed: dict[Any, Counts] = {}
    for share, numbers in shares:
        summed.setdefault(share, Counter()).update(numbers)
    return summed


async def _add(connection: AsyncConnection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Adds to the rows of requests, in this order."""
    if not rows:
        return
    none = {"summariser": ""} | dict.fromkeys(COUNTS, 0)
    statement = _adding(table)
    if "day" in table.c:
        statement = statement.values(day=_TODAY)
    await connection.execute(statement, [none | row for row in rows])


def _adding(table: Table) -> Insert:
    return _or_added(insert(table), table, COUNTS)


def _or_added(statement: Insert, table: Table, names: Iterable[str]) -> Insert:
    """Adds to the row that is there already."""
    grown = {name: table.c[name] + statement.excluded[name] for name in names}
    keys = [column.name for column in table.primary_key.columns]
    return statement.on_conflict_do_update(index_elements=keys, set_=grown)
