"""A message is found by the hash of all words up to it, and a host's id is an attribute of it.

What earlier versions stored was found by ids and fingerprints that no request shows any more. So
the texts and summaries of chats are deleted here; the next request of each chat has all of its
texts, and a summary by code is made of them at once.
"""

from alembic import op

revision: str = "104"
down_revision: str | None = "103"

# What the other version cannot find.
_FORGET = (
    "delete from checkpoints",
    "delete from messages",
    "delete from runs",
    """
    update chats set leaf_id = null, leaf_tokens = null, leaf_line = null, leaf_savings = null,
        due_at = null, due_leaves = '{}', dead_at = null, pressing = false, wants_bodies = false,
        overhead_tokens = 0, epoch = epoch + 1
    """,
)
# An index goes with any of its columns.
_UP = (
    """
    alter table messages
        drop column fingerprint, drop column digest, drop column content_hash,
        add column host_id text, add column host_hash text,
        add column confirmed boolean default 'false' not null,
        add column words_hash text default '' not null
    """,
    """
    alter table chats
        drop column leaf_digest, drop column beside_tokens,
        add column usage_factor double precision default '1' not null,
        add column leaf_windows integer[]
    """,
    """
    alter table checkpoints
        drop column covered_digest,
        add column windows integer[] default '{}' not null,
        add column served_at timestamptz
    """,
    "create index ix_messages_roots on messages (tenant_id, message_id) where depth = 1",
    "create index ix_messages_host on messages (chat_id, host_id) where host_id is not null",
    "create index ix_messages_words on messages (chat_id, words_hash)",
    "create index ix_messages_unconfirmed on messages (chat_id) where not confirmed",
    "create index ix_checkpoints_chat on checkpoints (chat_id, covered_until)",
    "create index ix_checkpoints_boundary on checkpoints (tenant_id, covered_until)",
)
_DOWN = (
    "drop index ix_messages_roots, ix_checkpoints_chat, ix_checkpoints_boundary",
    """
    alter table messages
        drop column host_id, drop column host_hash, drop column confirmed, drop column words_hash,
        add column fingerprint text not null, add column digest text not null,
        add column content_hash text not null
    """,
    """
    alter table chats
        drop column usage_factor, drop column leaf_windows,
        add column leaf_digest text, add column beside_tokens integer default '0' not null
    """,
    """
    alter table checkpoints
        drop column windows, drop column served_at, add column covered_digest text not null
    """,
    "create index ix_messages_roots on messages (tenant_id, digest) where depth = 1",
    "create index ix_checkpoints_chat on checkpoints (chat_id, parent_id, covered_digest)",
    "create index ix_checkpoints_digest on checkpoints (tenant_id, covered_digest)",
)


def upgrade() -> None:
    for statement in (*_FORGET, *_UP):
        op.execute(statement)


def downgrade() -> None:
    for statement in (*_FORGET, *_DOWN):
        op.execute(statement)
