"""Whose rows: the terms that every WHERE on a table of chats carries."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, FromClause


class ChatKey(NamedTuple):
    """One chat of one tenant. `id` is the internal one, not Open WebUI's."""

    tenant: int
    id: int

    @property
    def columns(self) -> dict[str, int]:
        """What a new row of this chat begins with."""
        return {"tenant_id": self.tenant, "chat_id": self.id}


def match_chat(chat: ChatKey, table: FromClause) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The rows of `table` that belong to this chat.

    `table` is chats, one of the tables below it, or an alias. The id alone would find the same
    rows. The tenant is there so that an id from the wrong hands finds nothing.
    """
    identity = table.c.chat_id if "chat_id" in table.c else table.c.id
    return table.c.tenant_id == chat.tenant, identity == chat.id
