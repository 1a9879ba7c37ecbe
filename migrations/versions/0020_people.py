"""people: authors of a chat, who began it, tombstones, and each tenant's secret for keyed hashes."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0020"
down_revision: str | None = "0018"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "tenants",
        sa.Column(
            "secret",
            sa.LargeBinary(),
            nullable=True,
            comment="Key of the hashes that stand for ids of deleted chats and erased users.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "begun_by",
            sa.Text(),
            nullable=True,
            comment="Whose chat it is; null: `user_id`, who wrote in it last.",
        ),
    )
    op.add_column(
        "messages",
        sa.Column(
            "author_id",
            sa.Text(),
            nullable=True,
            comment="Whose turn it is of; null: who began the chat; empty: erased.",
        ),
    )
    op.create_index(
        "ix_messages_roots",
        "messages",
        ["tenant_id", "digest"],
        postgresql_where=sa.text("depth = 1"),
    )
    op.create_table(
        "chat_authors",
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("chat_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "chat_id"],
            ["chats.tenant_id", "chats.id"],
            name=op.f("fk_chat_authors_tenant_id_chat_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("chat_id", "user_id", name=op.f("pk_chat_authors")),
        comment="Whose messages a chat has.",
    )
    op.create_index("ix_chat_authors_user", "chat_authors", ["tenant_id", "user_id"])
    op.execute("insert into chat_authors select tenant_id, id, user_id from chats")
    op.create_table(
        "tombstones",
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "hash",
            sa.LargeBinary(),
            nullable=False,
            comment="Of Open WebUI's id of a chat or of a user, keyed with the tenant's secret.",
        ),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
            name=op.f("fk_tombstones_tenant_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "hash", name=op.f("pk_tombstones")),
        comment="What was deleted, and is not stored again before `until`.",
    )
    op.create_index("ix_tombstones_until", "tombstones", ["until"])


def downgrade() -> None:
    op.drop_table("tombstones")
    op.drop_table("chat_authors")
    op.drop_index("ix_messages_roots", table_name="messages")
    op.drop_column("messages", "author_id")
    op.drop_column("chats", "begun_by")
    op.drop_column("tenants", "secret")
