"""Use case: what is stored of one user of Open WebUI is found and erased.

The same for REST and the pages. Each look leaves an audit row, which names the user by a keyed
hash.
"""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import NotFound
from service.storage import deletions, keys
from service.storage.deletions import User
from service.storage.keys import Operator
from service.usecases import delete


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page of users; `next` is the `cursor` for the next page, null on the last one."""

    users: list[User]
    next: str | None


@dataclass(frozen=True, slots=True)
class ShownUser:
    """A user, and the data that is stored of them.

    Chats are named by their ids in Open WebUI; `shared_chats` are chats of others that have words
    of the user. `audited` says that the audit log names the user.
    """

    user_id: str
    chats: list[str]
    shared_chats: list[str]
    audited: bool


async def list_users(
    engine: AsyncEngine, tenant: int, limit: int, cursor: str, begins: str
) -> UserPage:
    """A page of the users who wrote in chats, by id; `begins` as ids begin."""
    async with engine.connect() as connection:
        # One more than the page holds shows whether there is a next page.
        rows = await deletions.list_users(connection, tenant, limit + 1, cursor, begins)
    page = rows[:limit]
    return UserPage(page, page[-1].user_id if len(rows) > limit else None)


async def show(engine: AsyncEngine, by: Operator, user: str) -> ShownUser:
    """Shows what is stored of a user, without texts.

    Raises:
        NotFound: nothing is.
    """
    async with engine.begin() as connection:
        shown = await _find(connection, by, user)
        named = await delete.hash_user(connection, by.tenant, user)
        await keys.record_change(connection, by, "user.show", None, user=named)
    return shown


async def erase(engine: AsyncEngine, by: Operator, user: str) -> None:
    """Deletes everything that is stored of a user.

    That includes the chats of others that have words of the user: the next request of such a chat
    stores again what Open WebUI still has. The audit log keeps keyed hashes of ids. For a day,
    nothing of the user is stored.

    Raises:
        NotFound: nothing is stored of the user.
    """
    async with engine.connect() as connection:
        await _find(connection, by, user)
    await delete.erase_user(engine, by, user, "erasure")


async def _find(connection: AsyncConnection, by: Operator, user: str) -> ShownUser:
    """Finds what is stored of a user.

    Raises:
        NotFound: nothing.
    """
    own = await deletions.list_own_chats(connection, by.tenant, user)
    shared = await deletions.list_shared_chats(connection, by.tenant, user)
    audited = await deletions.is_in_audit(connection, by.tenant, user)
    if not (own or shared or audited):
        raise NotFound(f"nothing is stored of user {user!r}; the page People lists the users")
    own_ids = [chat.chat_id for chat in own]
    shared_ids = [chat.chat_id for chat in shared]
    return ShownUser(user, own_ids, shared_ids, audited)
