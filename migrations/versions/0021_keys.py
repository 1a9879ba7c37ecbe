"""keys: scopes, expiry, networks, last use; what chats take of a quota."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.add_column(
        "api_keys",
        sa.Column("expires_at", moment, nullable=True, comment="From then on it opens nothing."),
    )
    op.add_column(
        "api_keys",
        sa.Column(
            "networks",
            sa.ARRAY(sa.Text()),
            nullable=True,
            comment="From where it opens anything; null: from anywhere.",
        ),
    )
    op.add_column(
        "api_keys", sa.Column("last_used_at", moment, nullable=True, comment="To the minute.")
    )
    op.add_column(
        "api_keys",
        sa.Column(
            "last_filter",
            sa.Text(),
            nullable=True,
            comment="The version of the filter that asked last with it.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "sent_bytes",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Of the messages that were stored, as they were sent; for quotas.",
        ),
    )
    op.drop_constraint(op.f("ck_api_keys_scope"), "api_keys")
    op.create_check_constraint(
        op.f("ck_api_keys_scope"),
        "api_keys",
        "scope in ('filter', 'events', 'operator:read', 'operator')",
    )


def downgrade() -> None:
    # An older release knows neither these scopes nor an end or a network of a key: what it would
    # let in too far is revoked, and the rest goes on.
    op.drop_constraint(op.f("ck_api_keys_scope"), "api_keys")
    op.execute(
        "update api_keys set revoked_at = coalesce(revoked_at, now()),"
        " scope = case when scope in ('filter', 'operator') then scope else 'filter' end"
        " where scope in ('events', 'operator:read') or expires_at is not null"
        " or networks is not null"
    )
    op.create_check_constraint(
        op.f("ck_api_keys_scope"), "api_keys", "scope in ('filter', 'operator')"
    )
    op.drop_column("chats", "sent_bytes")
    for column in ("last_filter", "last_used_at", "networks", "expires_at"):
        op.drop_column("api_keys", column)
