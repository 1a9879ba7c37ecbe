"""Code's work on a chat has a time and a lease of its own, beside those of the model's."""

from alembic import op

revision: str = "105"
down_revision: str | None = "104"


def upgrade() -> None:
    op.execute("""
        alter table chats drop column pressing,
            add column code_at timestamptz, add column code_token uuid,
            add column code_until timestamptz
    """)
    op.execute("alter table runs add column by_code boolean default 'false' not null")
    # Code looks at what is due: it may have no summary yet.
    op.execute("update chats set code_at = due_at")
    op.execute("create index ix_chats_code on chats (tenant_id, code_at) where code_at is not null")
    op.execute("""
        create index ix_chats_code_leased on chats (tenant_id, code_until)
        where code_until is not null
    """)


def downgrade() -> None:
    op.execute("""
        alter table chats add column pressing boolean default 'false' not null,
            drop column code_at, drop column code_token, drop column code_until
    """)
    op.execute("alter table runs drop column by_code")
