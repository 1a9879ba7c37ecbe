"""A chat knows which checkpoint served last, because that one goes on serving while it fits.

When it does not fit any more, the deepest checkpoint serves that saves enough: so each of a line says
what it saves itself.
"""

from alembic import op

revision: str = "107"
down_revision: str | None = "106"

_UP = (
    "alter table chats add column served_id bigint",
    """
    update chats set served_id = served.id
    from (
        select tenant_id, chat_id, max(id) as id from checkpoints
        where served_at is not null
        group by tenant_id, chat_id
    ) served
    where served.tenant_id = chats.tenant_id and served.chat_id = chats.id
    """,
    "alter table checkpoints drop column served_at",
    """
    update checkpoints set savings = array(
        select line.covered_tokens - line.tokens
        from unnest(checkpoints.ancestors || checkpoints.id) with ordinality as own (id, place)
        join checkpoints line on line.tenant_id = checkpoints.tenant_id
            and line.chat_id = checkpoints.chat_id and line.id = own.id
        order by own.place
    )
    """,
    """
    update chats set leaf_savings = made.savings[cardinality(made.savings) - 15:]
    from checkpoints made
    where made.tenant_id = chats.tenant_id and made.chat_id = chats.id
        and made.id = chats.leaf_line[cardinality(chats.leaf_line)]
    """,
)
_DOWN = (
    "alter table checkpoints add column served_at timestamptz",
    """
    update checkpoints set served_at = checkpoints.created_at
    from chats
    where chats.tenant_id = checkpoints.tenant_id and chats.id = checkpoints.chat_id
        and checkpoints.id <= chats.served_id
    """,
    "alter table chats drop column served_id",
)


def upgrade() -> None:
    for statement in _UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in _DOWN:
        op.execute(statement)
