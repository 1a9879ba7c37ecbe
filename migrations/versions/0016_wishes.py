"""what users want of their chats: to be left alone, and sentences for their summaries."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "chats",
        sa.Column(
            "left_alone_at",
            sa.DateTime(timezone=True),
            comment="Since when its user wants no summaries of it: none is made and none serves.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "wishes",
            postgresql.ARRAY(sa.Text()),
            server_default=sa.text("'{}'::text[]"),
            nullable=False,
            comment="Sentences that its user wants in its summaries.",
        ),
    )


def downgrade() -> None:
    op.drop_column("chats", "wishes")
    op.drop_column("chats", "left_alone_at")
