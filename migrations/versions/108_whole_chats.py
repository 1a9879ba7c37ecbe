"""Erasing a person deletes the chats of others that have words of that person, as a whole.

So no message needs the hash of its own words any more, and its author is who sent it: neither an
author who came with a fork, nor the mark of an erased text.
"""

from alembic import op

revision: str = "108"
down_revision: str | None = "107"

_UP = (
    """
    update messages set author_id = null
    from chat_authors
    where chat_authors.chat_id = messages.chat_id and chat_authors.user_id = messages.author_id
        and not chat_authors.sent
    """,
    "update messages set author_id = null where author_id = ''",
    "alter table chat_authors drop column sent",
    "alter table messages drop column words_hash",
)
_DOWN = (
    "alter table chat_authors add column sent boolean default 'true' not null",
    "alter table messages add column words_hash text default '' not null",
    "create index ix_messages_words on messages (chat_id, words_hash)",
)


def upgrade() -> None:
    for statement in _UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in _DOWN:
        op.execute(statement)
