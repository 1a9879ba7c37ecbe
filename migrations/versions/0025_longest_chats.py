"""the longest chats are found by an index."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0025"
down_revision: str | None = "0023"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    # Not concurrently, which no transaction may do: all migrations are one. Writers of chats wait
    # while it is made, for some tenths of a second with 100,000 chats, and readers do not.
    op.create_index(
        "ix_chats_longest",
        "chats",
        ["tenant_id", sa.text("coalesce(leaf_tokens, 0) desc"), sa.text("id desc")],
    )


def downgrade() -> None:
    op.drop_index("ix_chats_longest", table_name="chats")
