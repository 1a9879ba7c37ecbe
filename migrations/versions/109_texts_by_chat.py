"""The texts of a chat are deleted all at once, so its messages say whether a request has to bring them.

Where some were deleted before, the others are too: the chat's next request stores all of them again.
"""

from alembic import op

revision: str = "109"
down_revision: str | None = "108"

_UP = (
    "alter table chats drop column wants_bodies",
    """
    update messages set body = null
    where body is not null
        and chat_id in (select lacking.chat_id from messages lacking where lacking.body is null)
    """,
)
_DOWN = ("alter table chats add column wants_bodies boolean default 'false' not null",)


def upgrade() -> None:
    for statement in _UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in _DOWN:
        op.execute(statement)
