"""sums of what was answered, saved and spent: by day, by user and day, and by chat.

New tables only: a release that is still running counts nothing, and works on.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_COUNTS = {
    "ready": "Answers to requests, by status.",
    "not_needed": None,
    "pending": None,
    "unknown": None,
    "tokens_not_sent": "What summaries kept out of requests.",
    "calls": "Answered calls of the summariser.",
    "tokens_read": "By the summariser.",
    "tokens_written": "By the summariser.",
    "compressed": "What became of requests, as the filter reports it.",
    "truncated_with_summary": None,
    "truncated": None,
    "unchanged": None,
    "away": "Of these, while the service did not answer.",
}


def _counts() -> list[sa.Column[int]]:
    return [
        sa.Column(name, sa.BigInteger(), server_default="0", nullable=False, comment=comment)
        for name, comment in _COUNTS.items()
    ]


def _models() -> list[sa.Column[str]]:
    return [
        sa.Column("model", sa.Text(), nullable=False, comment="The model of the chat."),
        sa.Column(
            "summariser",
            sa.Text(),
            nullable=False,
            comment="The model that wrote summaries; empty in the row that counts requests.",
        ),
    ]


def upgrade() -> None:
    op.create_table(
        "day_sums",
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False, comment="In UTC."),
        *_models(),
        *_counts(),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
            name=op.f("fk_day_sums_tenant_id_tenants"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "tenant_id", "day", "model", "summariser", name=op.f("pk_day_sums")
        ),
        comment="What was answered, saved and spent, by day.",
    )
    op.create_table(
        "user_sums",
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False, comment="Empty: unknown, or deleted."),
        sa.Column("day", sa.Date(), nullable=False, comment="In UTC."),
        *_models(),
        *_counts(),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
            name=op.f("fk_user_sums_tenant_id_tenants"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "tenant_id", "user_id", "day", "model", "summariser", name=op.f("pk_user_sums")
        ),
        comment="The same by user.",
    )
    op.create_index("ix_user_sums_day", "user_sums", ["tenant_id", "day"])
    op.create_table(
        "chat_sums",
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("chat_id", sa.BigInteger(), nullable=False),
        *_models(),
        *_counts(),
        sa.ForeignKeyConstraint(
            ["tenant_id", "chat_id"],
            ["chats.tenant_id", "chats.id"],
            name=op.f("fk_chat_sums_tenant_id_chats"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("chat_id", "model", "summariser", name=op.f("pk_chat_sums")),
        comment="The same by chat, over its whole life; deleted with it.",
    )


def downgrade() -> None:
    op.drop_table("chat_sums")
    op.drop_index("ix_user_sums_day", table_name="user_sums")
    op.drop_table("user_sums")
    op.drop_table("day_sums")
