"""what is kept: chats that want texts again, and the age of a body."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_AGE = "When this version of it was stored: a body's age."


def upgrade() -> None:
    op.add_column(
        "chats",
        sa.Column(
            "wants_bodies",
            sa.Boolean(),
            server_default="false",
            nullable=False,
            comment="Work waits for texts that are not kept any more:"
            " the next hand-over has to be the whole path.",
        ),
    )
    op.alter_column("messages", "created_at", comment=_AGE, existing_comment=None)
    op.create_index(
        "ix_messages_kept", "messages", ["created_at"], postgresql_where=sa.text("body is not null")
    )


def downgrade() -> None:
    op.drop_index("ix_messages_kept", table_name="messages")
    op.alter_column("messages", "created_at", comment=None, existing_comment=_AGE)
    op.drop_column("chats", "wants_bodies")
