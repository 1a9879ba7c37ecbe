"""A message is found by the hash of all words up to it, and a host's id is an attribute of it.

What earlier versions stored was found by ids and fingerprints that no request shows any more. So
the texts and summaries of chats are deleted here; the next request of each chat has all of its
texts, and a summary by code is made of them at once.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "104"
down_revision: str | None = "103"

_Kind = sa.types.TypeEngine[Any] | type[sa.types.TypeEngine[Any]]
_FORGET = (
    "delete from checkpoints",
    "delete from messages",
    "delete from runs",
    """
    update chats set leaf_id = null, leaf_tokens = null, leaf_line = null, leaf_savings = null,
        due_at = null, due_leaves = '{}', dead_at = null, pressing = false, wants_bodies = false,
        overhead_tokens = 0, epoch = epoch + 1
    """,
)


def upgrade() -> None:
    _forget()
    op.drop_index("ix_messages_roots", "messages")
    op.drop_index("ix_checkpoints_digest", "checkpoints")
    op.drop_index("ix_checkpoints_chat", "checkpoints")
    for name in ("fingerprint", "digest", "content_hash"):
        op.drop_column("messages", name)
    op.drop_column("chats", "leaf_digest")
    op.drop_column("chats", "beside_tokens")
    op.drop_column("checkpoints", "covered_digest")
    _add("messages", "host_id", sa.Text)
    _add("messages", "host_hash", sa.Text)
    _add("messages", "confirmed", sa.Boolean, "false")
    _add("messages", "words_hash", sa.Text, "")
    _add("chats", "usage_factor", sa.Double, "1")
    _add("chats", "leaf_windows", sa.ARRAY(sa.Integer))
    _add("checkpoints", "windows", sa.ARRAY(sa.Integer), "{}")
    _add("checkpoints", "served_at", sa.DateTime(timezone=True))
    op.execute("create index ix_messages_roots on messages (tenant_id, message_id) where depth = 1")
    op.execute(
        "create index ix_messages_host on messages (chat_id, host_id) where host_id is not null"
    )
    op.create_index("ix_messages_words", "messages", ["chat_id", "words_hash"])
    op.execute("create index ix_messages_unconfirmed on messages (chat_id) where not confirmed")
    op.create_index("ix_checkpoints_chat", "checkpoints", ["chat_id", "covered_until"])
    op.create_index("ix_checkpoints_boundary", "checkpoints", ["tenant_id", "covered_until"])


def downgrade() -> None:
    _forget()
    op.drop_index("ix_checkpoints_boundary", "checkpoints")
    op.drop_index("ix_checkpoints_chat", "checkpoints")
    op.drop_index("ix_messages_unconfirmed", "messages")
    op.drop_index("ix_messages_words", "messages")
    op.drop_index("ix_messages_host", "messages")
    op.drop_index("ix_messages_roots", "messages")
    for table, name in (
        ("checkpoints", "served_at"),
        ("checkpoints", "windows"),
        ("chats", "leaf_windows"),
        ("chats", "usage_factor"),
        ("messages", "words_hash"),
        ("messages", "confirmed"),
        ("messages", "host_hash"),
        ("messages", "host_id"),
    ):
        op.drop_column(table, name)
    for name in ("fingerprint", "digest", "content_hash"):
        _add("messages", name, sa.Text, "")
        op.alter_column("messages", name, server_default=None)
    _add("chats", "leaf_digest", sa.Text)
    _add("chats", "beside_tokens", sa.Integer, "0")
    _add("checkpoints", "covered_digest", sa.Text, "")
    op.alter_column("checkpoints", "covered_digest", server_default=None)
    op.execute("create index ix_messages_roots on messages (tenant_id, digest) where depth = 1")
    op.create_index(
        "ix_checkpoints_chat", "checkpoints", ["chat_id", "parent_id", "covered_digest"]
    )
    op.create_index("ix_checkpoints_digest", "checkpoints", ["tenant_id", "covered_digest"])


def _forget() -> None:
    """Deletes what the other version cannot find."""
    for statement in _FORGET:
        op.execute(statement)


def _add(table: str, name: str, kind: _Kind, default: str | None = None) -> None:
    """Adds a column; one with a default is never null."""
    column: sa.Column[Any] = sa.Column(name, kind, nullable=default is None, server_default=default)
    op.add_column(table, column)
