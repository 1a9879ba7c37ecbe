"""chats expire, and may be compressed by somebody else; digests are found in a whole tenant."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "chats",
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="From then on it is served no more,"
            " and the next sweep removes it with all that is its own.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "compactor",
            sa.Text(),
            nullable=True,
            comment="Who else compresses it, as the last hand-over said.",
        ),
    )
    op.create_check_constraint(
        op.f("ck_chats_compactor"), "chats", "compactor in ('open-webui', 'provider')"
    )
    op.create_index(
        "ix_chats_expires",
        "chats",
        ["expires_at"],
        postgresql_where=sa.text("expires_at is not null"),
    )
    op.drop_index("ix_checkpoints_digest", table_name="checkpoints")
    op.create_index("ix_checkpoints_digest", "checkpoints", ["tenant_id", "covered_digest"])


def downgrade() -> None:
    op.drop_index("ix_checkpoints_digest", table_name="checkpoints")
    op.create_index("ix_checkpoints_digest", "checkpoints", ["chat_id", "covered_digest"])
    op.drop_index("ix_chats_expires", table_name="chats")
    op.drop_constraint(op.f("ck_chats_compactor"), "chats", type_="check")
    op.drop_column("chats", "compactor")
    op.drop_column("chats", "expires_at")
