"""The branches of a chat that are due, so that each is worked on."""

from alembic import op

revision: str = "102"
down_revision: str | None = "101"


def upgrade() -> None:
    op.execute("alter table chats add column due_leaves text[] default '{}' not null")


def downgrade() -> None:
    op.execute("alter table chats drop column due_leaves")
