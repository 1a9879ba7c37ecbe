"""the request that made work due: its trace in the chat's row, and its id in the rounds of work."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "chats",
        sa.Column(
            "traceparent",
            sa.Text(),
            nullable=True,
            comment="Of the request that made work due last, as W3C's Trace Context has it.",
        ),
    )
    op.add_column(
        "runs",
        sa.Column(
            "request_id",
            sa.Text(),
            nullable=True,
            comment="Of the request that made the work due; all log lines of the round have it.",
        ),
    )


def downgrade() -> None:
    op.drop_column("runs", "request_id")
    op.drop_column("chats", "traceparent")
