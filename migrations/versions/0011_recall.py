"""what recall needs of a message: its calls by step, and the words that it is searched by.

Both may be null: what an older release has stored is counted when somebody asks. No row is written,
and nobody waits for a lock.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "messages",
        sa.Column(
            "step_calls",
            sa.ARRAY(sa.Integer()),
            nullable=True,
            comment="Its calls of tools, by step; null if not counted.",
        ),
    )
    op.add_column(
        "messages",
        sa.Column(
            "words",
            sa.LargeBinary(),
            nullable=True,
            comment="What recall searches it by, packed as bodies are; null where that is made of"
            " the body when somebody asks.",
        ),
    )


def downgrade() -> None:
    op.drop_column("messages", "words")
    op.drop_column("messages", "step_calls")
