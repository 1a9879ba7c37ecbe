"""how often a chat's new messages were refused is counted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_TABLES = ("day_sums", "user_sums", "chat_sums")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(
            table,
            sa.Column(
                "refused",
                sa.BigInteger(),
                server_default="0",
                nullable=False,
                comment="Times that new messages were refused, and are not stored.",
            ),
        )


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "refused")
