"""A chat knows which checkpoint served last, because that one goes on serving while it fits."""

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
)
_DOWN = (
    "alter table checkpoints add column served_at timestamptz",
    """
    update checkpoints set served_at = created_at
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
