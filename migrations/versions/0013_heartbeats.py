"""who lives: the service's and the workers' heartbeats, and what they found amiss at their start."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "heartbeats",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, comment="Host and process id."),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("summariser", sa.Text(), nullable=False, comment="Who writes its summaries."),
        sa.Column(
            "warnings",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="What it found amiss at its start.",
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.CheckConstraint("role in ('api', 'worker')", name=op.f("ck_heartbeats_role")),
        sa.PrimaryKeyConstraint("role", "name", name=op.f("pk_heartbeats")),
        comment="Who lives: one row for each role of a process, renewed every few seconds.",
    )


def downgrade() -> None:
    op.drop_table("heartbeats")
