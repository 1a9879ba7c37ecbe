"""Whose messages a chat has.

Who sends messages first is taken for their author, questions and answers alike. The same messages
have the same ids in forks and clones, which take over whose they are.
"""

from collections.abc import Collection

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import statements
from service.storage.tables import chat_authors
from service.storage.tenancy import ChatKey

_SQL = statements.load("authors")
_COPY = text(_SQL["copy"])
_WROTE_ON = text(_SQL["wrote_on"])


async def wrote_on(connection: AsyncConnection, chat: ChatKey, user: str, leaf: str) -> bool:
    """Whether a user, who did not begin the chat, wrote on a branch of it.

    Nobody did whose messages came with a fork: what somebody else goes on with is not theirs.

    The branch is the stored message `leaf`, and what is above it.
    """
    parameters = {
        "tenant": chat.tenant,
        "chat": chat.id,
        "user": user,
        "leaf": leaf,
    }
    return bool((await connection.execute(_WROTE_ON, parameters)).scalar_one())


async def copy(connection: AsyncConnection, chat: ChatKey, ids: Collection[str]) -> None:
    """Takes over whose these messages are from the chat that this one was made from, if any."""
    parameters = {"tenant": chat.tenant, "chat": chat.id, "ids": list(ids)}
    copied = set((await connection.execute(_COPY, parameters)).scalars())
    if copied:
        rows = [chat.columns | {"user_id": user, "sent": False} for user in sorted(copied)]
        await connection.execute(insert(chat_authors).on_conflict_do_nothing(), rows)
