"""work of a fleet: breakers, who has a lease, dead work; what each checkpoint saves."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_SAVINGS = """
update checkpoints made set savings = array(
    select max(above.covered_tokens - above.tokens) over (order by above.covered_messages, above.id)
    from checkpoints above
    where above.chat_id = made.chat_id and (above.id = made.id or above.id = any(made.ancestors))
    order by above.covered_messages, above.id
)
"""


def upgrade() -> None:
    op.create_table(
        "endpoints",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "failures", sa.Integer(), server_default="0", nullable=False, comment="In a row."
        ),
        sa.Column(
            "open_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Nobody asks before; set from the breaker's opening on.",
        ),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column(
            "changed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_endpoints")),
        comment="The circuit breaker of each summariser endpoint.",
    )
    op.add_column(
        "tenants",
        sa.Column(
            "served_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When a worker last took one of its chats: whose turn it is.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "pressing",
            sa.Boolean(),
            server_default="false",
            nullable=False,
            comment="Its requests are over apply_at now.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "lease_endpoint",
            sa.Text(),
            nullable=True,
            comment="The summariser endpoint that the work under this lease asks.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "leased_by", sa.Text(), nullable=True, comment="The worker: host and process id."
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "dead_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Given up until a retry or the next hand-over.",
        ),
    )
    op.drop_index("ix_chats_due", table_name="chats")
    op.create_index(
        "ix_chats_due",
        "chats",
        ["tenant_id", "due_at"],
        postgresql_where=sa.text("due_at is not null"),
    )
    op.create_index(
        "ix_chats_leased",
        "chats",
        ["tenant_id", "lease_until"],
        postgresql_where=sa.text("lease_until is not null"),
    )
    op.create_index(
        "ix_chats_jobs",
        "chats",
        ["tenant_id", "id"],
        postgresql_where=sa.text("due_at is not null or dead_at is not null"),
    )
    op.add_column(
        "checkpoints",
        sa.Column(
            "savings",
            sa.ARRAY(sa.BigInteger()),
            nullable=True,
            comment="Tokens that each ancestor, and at last this one, saves a request:"
            " the running maximum. Never falling, so that the read on the request path"
            " finds the shallowest that saves enough by bisection.",
        ),
    )
    op.execute(_SAVINGS)
    op.alter_column("checkpoints", "savings", nullable=False)


def downgrade() -> None:
    op.drop_column("checkpoints", "savings")
    op.drop_index("ix_chats_jobs", table_name="chats")
    op.drop_index("ix_chats_leased", table_name="chats")
    op.drop_index("ix_chats_due", table_name="chats")
    op.create_index(
        "ix_chats_due", "chats", ["due_at"], postgresql_where=sa.text("due_at is not null")
    )
    for column in ("dead_at", "leased_by", "lease_endpoint", "pressing"):
        op.drop_column("chats", column)
    op.drop_column("tenants", "served_at")
    op.drop_table("endpoints")
