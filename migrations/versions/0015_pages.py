"""pages for operators: who is signed in; chats with a degraded summary are found fast."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column(
            "hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the cookie's value."
        ),
        sa.Column("key_id", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name=op.f("fk_sessions_key_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
        comment="Operators who are signed in to the pages.",
    )
    op.create_index("ix_sessions_key", "sessions", ["key_id"])
    op.create_index(
        "ix_checkpoints_degraded",
        "checkpoints",
        ["tenant_id", "chat_id"],
        postgresql_where=sa.text("kind = 'degraded' and retired_at is null"),
    )


def downgrade() -> None:
    op.drop_index("ix_checkpoints_degraded", table_name="checkpoints")
    op.drop_table("sessions")
