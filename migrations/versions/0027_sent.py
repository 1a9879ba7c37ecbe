"""whether an author of a chat's messages sent any to this chat, or they were copied."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "chat_authors",
        sa.Column(
            "sent",
            sa.Boolean(),
            server_default="true",
            nullable=False,
            comment="Whether they sent a message to this chat; copies came with a fork.",
        ),
    )


def downgrade() -> None:
    op.drop_column("chat_authors", "sent")
