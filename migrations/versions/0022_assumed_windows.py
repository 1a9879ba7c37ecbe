"""which windows nobody told: they are shown as assumed."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "chats",
        sa.Column(
            "window_assumed",
            sa.Boolean(),
            server_default="false",
            nullable=False,
            comment="Whether nobody told the model's window, so that PRECIS_WINDOW was taken.",
        ),
    )


def downgrade() -> None:
    op.drop_column("chats", "window_assumed")
