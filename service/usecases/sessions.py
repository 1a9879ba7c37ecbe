"""Signing in to the pages with an operator key, and out again."""

import secrets
from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from service.errors import PrecisError
from service.storage import keys
from service.storage.database import Database
from service.storage.keys import Key, Operator

SECONDS: Final = 12 * 3600
"""How long a session lasts."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session: who acts, and in which tenant.

    Who signed in with a key that may only look `may_change` nothing.
    """

    by: Operator
    tenant_name: str
    may_change: bool


class SignInRefused(PrecisError):
    """The API key opens no pages; `key` is its row, if it is known."""

    def __init__(self, key: Key | None) -> None:
        super().__init__(
            "this is no operator key in use; make one with `precis keys create --scope operator`"
        )
        self.key = key


async def sign_in(database: Database, key: str) -> tuple[str, Key]:
    """Begins a session.

    Returns:
        The cookie's value, which is not stored, and the key's row.

    Raises:
        SignInRefused: this is no operator key, or it has ended.
    """
    row = await keys.find_known_key(database.reads, key)
    is_operators = row is not None and "operator:read" in keys.OPENS[row.scope]
    if not (row and is_operators and row.in_use):
        raise SignInRefused(row)
    cookie = secrets.token_urlsafe(32)
    async with database.engine.begin() as connection:
        await keys.begin_session(connection, row.id, keys.hash_key(cookie), SECONDS)
        await keys.record_change(connection, row.by, "session.begin", None)
    return cookie, row


async def find_session(engine: AsyncEngine, cookie: str) -> Session | None:
    """The session of a cookie, if it has one that has not ended."""
    async with engine.connect() as connection:
        key = await keys.find_session_key(connection, keys.hash_key(cookie))
    if key is None:
        return None
    return Session(key.by, key.tenant_name, "operator" in keys.OPENS[key.scope])


async def sign_out(engine: AsyncEngine, by: Session, cookie: str) -> None:
    """Ends one session."""
    async with engine.begin() as connection:
        await keys.end_session(connection, keys.hash_key(cookie))
        await keys.record_change(connection, by.by, "session.end", None, ended=1)
