"""The tables. Alembic compares them with the migrations; nothing else defines the schema."""

from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import SchemaItem

# Migrations drop constraints by name, so the names follow from tables and columns.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _id() -> Column[int]:
    return Column("id", BigInteger, Identity(), primary_key=True)


def _now(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def _chat(*, primary_key: bool = False) -> tuple[SchemaItem, ...]:
    """Whose row it is. Keys and indexes begin with the chat alone: its id is unique by itself."""
    return (
        Column("tenant_id", BigInteger, nullable=False),
        Column("chat_id", BigInteger, primary_key=primary_key, nullable=False),
        ForeignKeyConstraint(
            ["tenant_id", "chat_id"], ["chats.tenant_id", "chats.id"], ondelete="CASCADE"
        ),
    )


# One Open WebUI installation each.
tenants = Table(
    "tenants",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    # When a worker last took one of its chats: whose turn it is.
    Column("served_at", DateTime(timezone=True)),
    _now("created_at"),
)

# One row for each tenant. A table of its own, so that a backup can leave it out.
tenant_secrets = Table(
    "tenant_secrets",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    # Of the tenant's keys: without it, nothing sealed for the tenant can be opened. Of the hashes
    # that stand for ids of deleted chats and erased users, too.
    Column("salt", LargeBinary, nullable=False),
    # Keys digests, fingerprints and hashes of contents; sealed.
    Column("secret", LargeBinary, nullable=False),
)

# The keys of PRECIS_ENCRYPTION_KEYS that rows may be sealed with.
sealing_keys = Table(
    "sealing_keys",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("proof", LargeBinary, nullable=False),  # tells another key of the same id
    _now("created_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    _id(),
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    Column("scope", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False),  # the first characters, to recognise a key by
    Column("hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of the whole key
    _now("created_at"),
    Column("revoked_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True)),  # from then on it opens nothing
    Column("networks", ARRAY(Text)),  # from where it opens anything; null: from anywhere
    Column("last_used_at", DateTime(timezone=True)),  # to the minute
    Column("last_filter", Text),  # the version of the filter that asked last with it
    CheckConstraint("scope in ('filter', 'events', 'operator:read', 'operator')", name="scope"),
)

# Operators who are signed in to the pages.
sessions = Table(
    "sessions",
    metadata,
    Column("hash", LargeBinary, primary_key=True),  # SHA-256 of the cookie's value
    Column("key_id", BigInteger, ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    _now("created_at"),
    Index("ix_sessions_key", "key_id"),
)

chats = Table(
    "chats",
    metadata,
    _id(),
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    Column("external_id", Text, nullable=False),  # Open WebUI's chat id
    Column("user_id", Text, nullable=False),  # who began it
    Column("model", Text, nullable=False),
    Column("window_tokens", Integer, nullable=False),
    # Whether nobody told the model's window, so that PRECIS_WINDOW was taken.
    Column("window_assumed", Boolean, nullable=False, server_default="false"),
    Column("overhead_tokens", Integer, nullable=False, server_default="0"),
    Column("leaf_id", Text),  # the newest message of the path that was ingested last
    # What the read on the request path needs of that path; `chats.note_leaf` keeps it.
    Column("leaf_digest", Text),
    Column("leaf_tokens", BigInteger),  # of the path to the leaf
    # The deepest checkpoints on the path to the leaf, at most 16, oldest first.
    Column("leaf_line", ARRAY(BigInteger)),
    Column("leaf_savings", ARRAY(BigInteger)),  # what each of them saves
    # Raised by a reset; fences publishing.
    Column("epoch", Integer, nullable=False, server_default="0"),
    # Due work. The row is the truth; Redis only wakes workers.
    Column("handed_seq", BigInteger, nullable=False, server_default="0"),
    Column("done_seq", BigInteger, nullable=False, server_default="0"),
    Column("due_at", DateTime(timezone=True)),
    # Its requests are over apply_at now.
    Column("pressing", Boolean, nullable=False, server_default="false"),
    Column("lease_token", Uuid),
    Column("lease_until", DateTime(timezone=True)),
    Column("lease_endpoint", Text),  # the summariser endpoint that the work under this lease asks
    Column("leased_by", Text),  # the worker: host and process id
    Column("dead_at", DateTime(timezone=True)),  # given up until a retry or the next ingest
    # Work waits for texts that were deleted: the next ingest has to be the whole path.
    Column("wants_bodies", Boolean, nullable=False, server_default="false"),
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("last_error", Text),
    Column("request_id", Text),  # of the request that made work due last
    # From then on it is not served, and the next sweep deletes it with everything stored for it.
    Column("expires_at", DateTime(timezone=True)),
    Column("compactor", Text),  # who else compresses it, as of the last ingest
    # Secrets masked in what is stored of it.
    Column("masked", BigInteger, nullable=False, server_default="0"),
    # Since when its user wants no summaries of it: none is made and none serves.
    Column("left_alone_at", DateTime(timezone=True)),
    _now("created_at"),
    _now("updated_at"),
    CheckConstraint("compactor = 'open-webui'", name="compactor"),
    UniqueConstraint("tenant_id", "external_id"),
    UniqueConstraint("tenant_id", "id"),  # for the foreign keys of the tables below
    Index("ix_chats_due", "tenant_id", "due_at", postgresql_where=text("due_at is not null")),
    Index(
        "ix_chats_leased",
        "tenant_id",
        "lease_until",
        postgresql_where=text("lease_until is not null"),
    ),
    Index(
        "ix_chats_jobs",
        "tenant_id",
        "id",
        postgresql_where=text("due_at is not null or dead_at is not null"),
    ),
    Index("ix_chats_recent", "tenant_id", text("updated_at desc"), text("id desc")),
    Index("ix_chats_longest", "tenant_id", text("coalesce(leaf_tokens, 0) desc"), text("id desc")),
    Index("ix_chats_expires", "expires_at", postgresql_where=text("expires_at is not null")),
)

messages = Table(
    "messages",
    metadata,
    *_chat(primary_key=True),
    Column("message_id", Text, primary_key=True),
    Column("parent_id", Text),
    Column("role", Text, nullable=False),
    Column("depth", Integer, nullable=False),  # 1 for a root
    Column("fingerprint", Text, nullable=False),
    Column("digest", Text, nullable=False),
    # Of role, text and output; guards the fingerprint.
    Column("content_hash", Text, nullable=False),
    Column("tokens", Integer, nullable=False),  # what the model is sent for it
    Column("path_tokens", BigInteger, nullable=False),  # running total from the root to here
    Column("step_tokens", ARRAY(Integer), nullable=False),  # what a summariser reads, by step
    Column("step_calls", ARRAY(Integer), nullable=False),  # its calls of tools, by step
    Column("sent_at", BigInteger),  # Open WebUI's timestamp, Unix seconds
    # The deepest checkpoint that covers a part of the path to here.
    Column("checkpoint_id", BigInteger),
    Column("body", LargeBinary),  # see storage.codec
    # What recall searches it by, packed as bodies are; null where that is made of the body when
    # somebody asks.
    Column("words", LargeBinary),
    Column("author_id", Text),  # whose turn it is of; null: who began the chat; empty: erased
    _now("created_at"),  # when this version of it was stored: a body's age
    Index("ix_messages_parent", "chat_id", "parent_id"),
    # Forks and clones begin with the same message.
    Index("ix_messages_roots", "tenant_id", "digest", postgresql_where=text("depth = 1")),
    # For retention.
    Index("ix_messages_kept", "created_at", postgresql_where=text("body is not null")),
)

# Whose messages a chat has.
chat_authors = Table(
    "chat_authors",
    metadata,
    *_chat(primary_key=True),
    Column("user_id", Text, primary_key=True),
    # Whether they sent a message to this chat; copies came with a fork.
    Column("sent", Boolean, nullable=False, server_default="true"),
    Index("ix_chat_authors_user", "tenant_id", "user_id"),
)

# What was deleted, and is not stored again before `until`.
tombstones = Table(
    "tombstones",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    # Of Open WebUI's id of a chat or of a user, keyed with the tenant's salt.
    Column("hash", LargeBinary, primary_key=True),
    Column("until", DateTime(timezone=True), nullable=False),
    Index("ix_tombstones_until", "until"),
)


def _memory() -> list[Column[Any]]:
    """What `storage.memories` reads and writes."""
    none = text("'[]'::jsonb")
    return [
        Column("state", JSONB, nullable=False, server_default=none),  # its lines
        Column("pins", JSONB, nullable=False, server_default=none),
        Column("talk", JSONB, nullable=False, server_default=none),
        Column("ledger", JSONB, nullable=False),
        Column("heard", Integer, nullable=False, server_default="0"),  # steps read
        # Steps that the state tells of.
        Column("told", Integer, nullable=False, server_default="0"),
        # Sealed: state, pins, talk and ledger; null where they are plain.
        Column("sealed_memory", LargeBinary),
    ]


INTERIM = "interim"
"""The kind of a checkpoint that code made at once; it serves until a summariser has read as far."""

checkpoints = Table(
    "checkpoints",
    metadata,
    _id(),
    *_chat(),
    # 0 and not null: of nulls, the unique constraint below would let any number pass.
    # The checkpoint that it grew from; 0 for none.
    Column("parent_id", BigInteger, nullable=False),
    Column("ancestors", ARRAY(BigInteger), nullable=False),  # what it grew from, oldest first
    # Tokens that each ancestor, and at last this one, saves a request: the running maximum. Never
    # falling, so that the read on the request path finds the shallowest that saves enough by
    # bisection.
    Column("savings", ARRAY(BigInteger), nullable=False),
    Column("covered_until", Text, nullable=False),
    Column("covered_digest", Text, nullable=False),
    Column("covered_messages", Integer, nullable=False),
    Column("covered_tokens", BigInteger, nullable=False),
    # Of those of one parent and boundary.
    Column("version", SmallInteger, nullable=False, server_default="1"),
    Column("kind", Text, nullable=False),
    *_memory(),
    # The summary message, rendered once: its bytes never change.
    Column("summary", Text, nullable=False),
    # Apart, because the read on the request path opens one or two of them.
    # Sealed: summary; null where they are plain.
    Column("sealed_summary", LargeBinary),
    # Sealed: what of the verdict quotes a text; null where they are plain.
    Column("sealed_verdict", LargeBinary),
    Column("tokens", Integer, nullable=False),  # size of the summary message
    Column("summariser", Text, nullable=False),
    Column("prompt_version", Text, nullable=False),
    # What the publish gate found, and who corrected or served it manually.
    Column("verdict", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    _now("created_at"),
    # When another was put in its place: no message leads to it, nor finds it by its digest.
    Column("retired_at", DateTime(timezone=True)),
    CheckConstraint(
        "kind in ('llm', 'extractive', 'degraded', 'interim', 'corrected')", name="kind"
    ),
    UniqueConstraint("chat_id", "parent_id", "covered_digest", "version"),
    # Forks have the digests of another chat.
    Index("ix_checkpoints_digest", "tenant_id", "covered_digest"),
    # For the list of chats that have one.
    Index(
        "ix_checkpoints_degraded",
        "tenant_id",
        "chat_id",
        postgresql_where=text("kind = 'degraded' and retired_at is null"),
    ),
)

# The circuit breaker of each summariser endpoint.
endpoints = Table(
    "endpoints",
    metadata,
    Column("name", Text, primary_key=True),
    Column("failures", Integer, nullable=False, server_default="0"),  # consecutive
    # No call is made before; set while the breaker is not closed.
    Column("open_until", DateTime(timezone=True)),
    Column("last_error", Text),
    _now("changed_at"),
)

# How far a turn too long for one call has been read.
partials = Table(
    "partials",
    metadata,
    *_chat(primary_key=True),
    # The checkpoint that the reading goes on from; 0 for none.
    Column("base_id", BigInteger, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("piece", Integer, nullable=False),
    Column("pieces", Integer, nullable=False),
    *_memory(),
    _now("updated_at"),
)

runs = Table(
    "runs",
    metadata,
    _id(),
    *_chat(),
    Column("seq", BigInteger, nullable=False),  # the handed_seq that it worked on
    # Of the request that made the work due; all log lines of the round have it.
    Column("request_id", Text),
    Column("outcome", Text, nullable=False, server_default="running"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("sealed_reason", LargeBinary),  # sealed: reason; null where they are plain
    Column("calls", Integer, nullable=False, server_default="0"),
    Column("tokens_read", BigInteger, nullable=False, server_default="0"),
    Column("tokens_written", BigInteger, nullable=False, server_default="0"),
    Column("published", Integer, nullable=False, server_default="0"),
    Column("markers", Integer, nullable=False, server_default="0"),  # hidden marker lines left out
    _now("started_at"),
    Column("ended_at", DateTime(timezone=True)),
    Index("ix_runs_chat", "chat_id", "id"),
)

audit = Table(
    "audit",
    metadata,
    _id(),
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    Column("actor", Text, nullable=False),  # an API key's prefix and name, or `cli`
    Column("action", Text, nullable=False),
    Column("chat", Text),  # Open WebUI's chat id, if it was about one
    Column("details", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    _now("at"),
    Index("ix_audit_tenant", "tenant_id", text("id desc")),
)


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


# What was saved and spent.
sums = Table(
    "sums",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", Text, primary_key=True),  # empty: unknown, or deleted
    Column("day", Date, primary_key=True),  # in UTC
    # No foreign key: what a deleted chat was worth stays in the totals, under a number that says
    # nothing, and who counts locks no chat.
    # `chats.id`; 0: not stored.
    Column("chat_number", BigInteger, primary_key=True),
    Column("model", Text, primary_key=True),  # of the chat, or of its summariser
    _count("tokens_not_sent"),  # what summaries kept out of requests to the chat's model
    _count("tokens_read"),  # by the summariser
    _count("truncated"),  # requests that lost text without any summary of it
    Index("ix_sums_day", "tenant_id", "day"),
)
