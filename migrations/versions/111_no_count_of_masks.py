"""Nobody is told any more how many secrets were masked in a chat."""

from alembic import op

revision: str = "111"
down_revision: str | None = "110"


def upgrade() -> None:
    op.execute("alter table chats drop column masked")


def downgrade() -> None:
    op.execute("alter table chats add column masked bigint default '0' not null")
