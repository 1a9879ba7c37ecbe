"""rows of a chat carry its tenant.

One pass over the four tables writes the tenant into their rows, and one checks it. Writers wait
meanwhile, so on a big database this wants a quiet hour: as long as it takes to rewrite `messages`.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_TABLES = ("messages", "checkpoints", "drafts", "runs")


def upgrade() -> None:
    _lock()
    op.create_unique_constraint("uq_chats_tenant_id_id", "chats", ["tenant_id", "id"])
    for table in _TABLES:
        op.add_column(table, sa.Column("tenant_id", sa.BigInteger(), nullable=True))
        op.execute(
            f"update {table} set tenant_id = chats.tenant_id"
            f" from chats where chats.id = {table}.chat_id"
        )
        op.alter_column(table, "tenant_id", nullable=False)
        op.drop_constraint(f"fk_{table}_chat_id", table, type_="foreignkey")
        op.create_foreign_key(
            f"fk_{table}_tenant_id_chat_id",
            table,
            "chats",
            ["tenant_id", "chat_id"],
            ["tenant_id", "id"],
            ondelete="CASCADE",
        )


def downgrade() -> None:
    _lock()
    for table in _TABLES:
        op.drop_constraint(f"fk_{table}_tenant_id_chat_id", table, type_="foreignkey")
        op.create_foreign_key(
            f"fk_{table}_chat_id", table, "chats", ["chat_id"], ["id"], ondelete="CASCADE"
        )
        op.drop_column(table, "tenant_id")
    op.drop_constraint("uq_chats_tenant_id_id", "chats", type_="unique")


def _lock() -> None:
    """Wait for all tables first: if one cannot be had, nothing was rewritten in vain."""
    op.execute(f"lock table chats, {', '.join(_TABLES)} in access exclusive mode")
