"""a chat's row says what the read on the request path needs of its newest path."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_FILL = """
update chats set leaf_digest = leaf.digest, leaf_tokens = leaf.path_tokens,
    leaf_line = (made.ancestors || made.id)[cardinality(made.ancestors) - 14:],
    leaf_savings = made.savings[cardinality(made.savings) - 15:]
from messages leaf left join checkpoints made on made.id = leaf.checkpoint_id
where leaf.chat_id = chats.id and leaf.message_id = chats.leaf_id
"""


def upgrade() -> None:
    op.add_column("chats", sa.Column("leaf_digest", sa.Text(), nullable=True))
    op.add_column(
        "chats",
        sa.Column(
            "leaf_tokens", sa.BigInteger(), nullable=True, comment="Of the path to the leaf."
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "leaf_line",
            sa.ARRAY(sa.BigInteger()),
            nullable=True,
            comment="The deepest checkpoints on the path to the leaf, at most 16, oldest first.",
        ),
    )
    op.add_column(
        "chats",
        sa.Column(
            "leaf_savings",
            sa.ARRAY(sa.BigInteger()),
            nullable=True,
            comment="What each of them saves.",
        ),
    )
    op.execute(_FILL)


def downgrade() -> None:
    for column in ("leaf_savings", "leaf_line", "leaf_tokens", "leaf_digest"):
        op.drop_column("chats", column)
