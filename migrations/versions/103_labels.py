"""What operators recognise a chat by: its title and its user's name, sealed as texts are."""

import sqlalchemy as sa
from alembic import op

revision: str = "103"
down_revision: str | None = "102"


def upgrade() -> None:
    op.add_column("chats", sa.Column("title", sa.LargeBinary))
    op.add_column("chats", sa.Column("user_name", sa.LargeBinary))


def downgrade() -> None:
    op.drop_column("chats", "title")
    op.drop_column("chats", "user_name")
