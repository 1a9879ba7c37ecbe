"""Whose messages a chat has.

Who sends messages first is taken for their author, questions and answers alike. Forks and clones
keep the ids and digests of the chat that they were made from, so they take its authors over.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import sealing, statements
from service.storage.tables import chat_authors
from service.storage.tenancy import ChatKey

_SQL = statements.load("authors")
_COPY = text(_SQL["copy"])
_WROTE_ON = text(_SQL["wrote_on"])


async def wrote_on(
    connection: AsyncConnection, chat: ChatKey, user: str, pairs: Sequence[tuple[str, str]]
) -> bool:
    """Whether a user, who did not begin the chat, wrote on a branch of it.

    Nobody did whose messages came with a fork: what somebody else goes on with is not theirs.

    `pairs` are (id, digest) of its newest messages, leaf first; the newest one that is stored
    counts, and what is above it.
    """
    seal = await sealing.of(connection, chat.tenant)
    parameters = {
        "tenant": chat.tenant,
        "chat": chat.id,
        "user": user,
        "ids": [identity for identity, _ in pairs],
        "digests": [seal.keyed(digest) for _, digest in pairs],
    }
    return bool((await connection.execute(_WROTE_ON, parameters)).scalar_one())


async def copy(connection: AsyncConnection, chat: ChatKey, ids: Collection[str]) -> None:
    """Takes over whose these messages are from the chat that this one was made from, if any."""
    parameters = {"tenant": chat.tenant, "chat": chat.id, "ids": list(ids)}
    copied = set((await connection.execute(_COPY, parameters)).scalars())
    if copied:
        rows = [chat.columns | {"user_id": user, "sent": False} for user in sorted(copied)]
        await connection.execute(insert(chat_authors).on_conflict_do_nothing(), rows)
