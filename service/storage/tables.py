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


def _now(name: str, comment: str | None = None) -> Column[object]:
    return Column(
        name, DateTime(timezone=True), nullable=False, server_default=func.now(), comment=comment
    )


def _chat(*, primary_key: bool = False) -> tuple[SchemaItem, ...]:
    """Whose row it is. Keys and indexes begin with the chat alone: its id is unique by itself."""
    return (
        Column("tenant_id", BigInteger, nullable=False),
        Column("chat_id", BigInteger, primary_key=primary_key, nullable=False),
        ForeignKeyConstraint(
            ["tenant_id", "chat_id"], ["chats.tenant_id", "chats.id"], ondelete="CASCADE"
        ),
    )


def _sealed(name: str, what: str) -> Column[Any]:
    """A column for the sealed form of `what`, which is empty then. See `storage.sealing`."""
    return Column(name, LargeBinary, comment=f"Sealed: {what}; null where they are plain.")


tenants = Table(
    "tenants",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column(
        "served_at",
        DateTime(timezone=True),
        comment="When a worker last took one of its chats: whose turn it is.",
    ),
    _now("created_at"),
    comment="One Open WebUI installation each.",
)

tenant_secrets = Table(
    "tenant_secrets",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "salt",
        LargeBinary,
        nullable=False,
        comment="Of the tenant's keys: without it, nothing sealed for the tenant can be opened. Of"
        " the hashes that stand for ids of deleted chats and erased users, too.",
    ),
    Column(
        "secret",
        LargeBinary,
        nullable=False,
        comment="Keys digests, fingerprints and hashes of contents; sealed.",
    ),
    comment="One row for each tenant. A table of its own, so that a backup can leave it out.",
)

sealing_keys = Table(
    "sealing_keys",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("proof", LargeBinary, nullable=False, comment="Tells another key of the same id."),
    _now("created_at"),
    comment="The keys of PRECIS_ENCRYPTION_KEYS that rows may be sealed with.",
)

api_keys = Table(
    "api_keys",
    metadata,
    _id(),
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    Column("scope", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False, comment="The first characters, to recognise a key by."),
    Column("hash", LargeBinary, nullable=False, unique=True, comment="SHA-256 of the whole key."),
    _now("created_at"),
    Column("revoked_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True), comment="From then on it opens nothing."),
    Column("networks", ARRAY(Text), comment="From where it opens anything; null: from anywhere."),
    Column("last_used_at", DateTime(timezone=True), comment="To the minute."),
    Column("last_filter", Text, comment="The version of the filter that asked last with it."),
    CheckConstraint("scope in ('filter', 'events', 'operator:read', 'operator')", name="scope"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", LargeBinary, primary_key=True, comment="SHA-256 of the cookie's value."),
    Column("key_id", BigInteger, ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    _now("created_at"),
    Index("ix_sessions_key", "key_id"),
    comment="Operators who are signed in to the pages.",
)

chats = Table(
    "chats",
    metadata,
    _id(),
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    Column("external_id", Text, nullable=False, comment="Open WebUI's chat id."),
    Column("user_id", Text, nullable=False, comment="Who began it."),
    Column("model", Text, nullable=False),
    Column("window_tokens", Integer, nullable=False),
    Column(
        "window_assumed",
        Boolean,
        nullable=False,
        server_default="false",
        comment="Whether nobody told the model's window, so that PRECIS_WINDOW was taken.",
    ),
    Column("overhead_tokens", Integer, nullable=False, server_default="0"),
    Column("leaf_id", Text, comment="The newest message of the path that was ingested last."),
    # What the read on the request path needs of that path; `chats.note_leaf` keeps it.
    Column("leaf_digest", Text),
    Column("leaf_tokens", BigInteger, comment="Of the path to the leaf."),
    Column(
        "leaf_line",
        ARRAY(BigInteger),
        comment="The deepest checkpoints on the path to the leaf, at most 16, oldest first.",
    ),
    Column("leaf_savings", ARRAY(BigInteger), comment="What each of them saves."),
    Column(
        "epoch",
        Integer,
        nullable=False,
        server_default="0",
        comment="Raised by a reset; fences publishing.",
    ),
    # Due work. The row is the truth; Redis only wakes workers.
    Column("handed_seq", BigInteger, nullable=False, server_default="0"),
    Column("done_seq", BigInteger, nullable=False, server_default="0"),
    Column("due_at", DateTime(timezone=True)),
    Column(
        "pressing",
        Boolean,
        nullable=False,
        server_default="false",
        comment="Its requests are over apply_at now.",
    ),
    Column("lease_token", Uuid),
    Column("lease_until", DateTime(timezone=True)),
    Column(
        "lease_endpoint",
        Text,
        comment="The summariser endpoint that the work under this lease asks.",
    ),
    Column("leased_by", Text, comment="The worker: host and process id."),
    Column(
        "dead_at", DateTime(timezone=True), comment="Given up until a retry or the next ingest."
    ),
    Column(
        "wants_bodies",
        Boolean,
        nullable=False,
        server_default="false",
        comment="Work waits for texts that were deleted: the next ingest has to be the whole path.",
    ),
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("last_error", Text),
    Column("request_id", Text, comment="Of the request that made work due last."),
    Column(
        "expires_at",
        DateTime(timezone=True),
        comment="From then on it is not served,"
        " and the next sweep deletes it with everything stored for it.",
    ),
    Column("compactor", Text, comment="Who else compresses it, as of the last ingest."),
    Column(
        "masked",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="Secrets masked in what is stored of it.",
    ),
    Column(
        "left_alone_at",
        DateTime(timezone=True),
        comment="Since when its user wants no summaries of it: none is made and none serves.",
    ),
    _now("created_at"),
    _now("updated_at"),
    CheckConstraint("compactor in ('open-webui', 'provider')", name="compactor"),
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
    Column("depth", Integer, nullable=False, comment="1 for a root."),
    Column("fingerprint", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column(
        "content_hash",
        Text,
        nullable=False,
        comment="Of role, text and output; guards the fingerprint.",
    ),
    Column("tokens", Integer, nullable=False, comment="What the model is sent for it."),
    Column(
        "path_tokens", BigInteger, nullable=False, comment="Running total from the root to here."
    ),
    Column(
        "step_tokens", ARRAY(Integer), nullable=False, comment="What a summariser reads, by step."
    ),
    Column("step_calls", ARRAY(Integer), nullable=False, comment="Its calls of tools, by step."),
    Column("sent_at", BigInteger, comment="Open WebUI's timestamp, Unix seconds."),
    Column(
        "checkpoint_id",
        BigInteger,
        comment="The deepest checkpoint that covers a part of the path to here.",
    ),
    Column("body", LargeBinary, comment="See storage.codec."),
    Column(
        "words",
        LargeBinary,
        comment="What recall searches it by, packed as bodies are; null where that is made of the"
        " body when somebody asks.",
    ),
    Column(
        "author_id",
        Text,
        comment="Whose turn it is of; null: who began the chat; empty: erased.",
    ),
    _now("created_at", comment="When this version of it was stored: a body's age."),
    Index("ix_messages_parent", "chat_id", "parent_id"),
    # Forks and clones begin with the same message.
    Index("ix_messages_roots", "tenant_id", "digest", postgresql_where=text("depth = 1")),
    # For retention.
    Index("ix_messages_kept", "created_at", postgresql_where=text("body is not null")),
)

chat_authors = Table(
    "chat_authors",
    metadata,
    *_chat(primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column(
        "sent",
        Boolean,
        nullable=False,
        server_default="true",
        comment="Whether they sent a message to this chat; copies came with a fork.",
    ),
    Index("ix_chat_authors_user", "tenant_id", "user_id"),
    comment="Whose messages a chat has.",
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "hash",
        LargeBinary,
        primary_key=True,
        comment="Of Open WebUI's id of a chat or of a user, keyed with the tenant's salt.",
    ),
    Column("until", DateTime(timezone=True), nullable=False),
    Index("ix_tombstones_until", "until"),
    comment="What was deleted, and is not stored again before `until`.",
)


def _memory() -> list[Column[Any]]:
    """What `storage.memories` reads and writes."""
    none = text("'[]'::jsonb")
    return [
        Column("state", JSONB, nullable=False, server_default=none, comment="Its lines."),
        Column("pins", JSONB, nullable=False, server_default=none),
        Column("talk", JSONB, nullable=False, server_default=none),
        Column("ledger", JSONB, nullable=False),
        Column("heard", Integer, nullable=False, server_default="0", comment="Steps read."),
        Column(
            "told",
            Integer,
            nullable=False,
            server_default="0",
            comment="Steps that the state tells of.",
        ),
        _sealed("sealed_memory", "state, pins, talk and ledger"),
    ]


INTERIM = "interim"
"""The kind of a checkpoint that code made at once; it serves until a summariser has read as far."""

checkpoints = Table(
    "checkpoints",
    metadata,
    _id(),
    *_chat(),
    # 0 and not null: of nulls, the unique constraint below would let any number pass.
    Column(
        "parent_id",
        BigInteger,
        nullable=False,
        comment="The checkpoint that it grew from; 0 for none.",
    ),
    Column(
        "ancestors", ARRAY(BigInteger), nullable=False, comment="What it grew from, oldest first."
    ),
    Column(
        "savings",
        ARRAY(BigInteger),
        nullable=False,
        comment="Tokens that each ancestor, and at last this one, saves a request:"
        " the running maximum. Never falling,"
        " so that the read on the request path finds the shallowest that saves enough"
        " by bisection.",
    ),
    Column("covered_until", Text, nullable=False),
    Column("covered_digest", Text, nullable=False),
    Column("covered_messages", Integer, nullable=False),
    Column("covered_tokens", BigInteger, nullable=False),
    Column(
        "version",
        SmallInteger,
        nullable=False,
        server_default="1",
        comment="Of those of one parent and boundary.",
    ),
    Column("kind", Text, nullable=False),
    *_memory(),
    Column(
        "summary",
        Text,
        nullable=False,
        comment="The summary message, rendered once: its bytes never change.",
    ),
    # Apart, because the read on the request path opens one or two of them.
    _sealed("sealed_summary", "summary"),
    _sealed("sealed_verdict", "what of the verdict quotes a text"),
    Column("tokens", Integer, nullable=False, comment="Size of the summary message."),
    Column("summariser", Text, nullable=False),
    Column("prompt_version", Text, nullable=False),
    Column(
        "verdict",
        JSONB,
        nullable=False,
        server_default=text("'{}'::jsonb"),
        comment="What the publish gate found, and who corrected or served it manually.",
    ),
    _now("created_at"),
    Column(
        "retired_at",
        DateTime(timezone=True),
        comment="When another was put in its place:"
        " no message leads to it, nor finds it by its digest.",
    ),
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

endpoints = Table(
    "endpoints",
    metadata,
    Column("name", Text, primary_key=True),
    Column("failures", Integer, nullable=False, server_default="0", comment="Consecutive."),
    Column(
        "open_until",
        DateTime(timezone=True),
        comment="No call is made before; set while the breaker is not closed.",
    ),
    Column("last_error", Text),
    _now("changed_at"),
    comment="The circuit breaker of each summariser endpoint.",
)

partials = Table(
    "partials",
    metadata,
    *_chat(primary_key=True),
    Column(
        "base_id",
        BigInteger,
        nullable=False,
        comment="The checkpoint that the reading goes on from; 0 for none.",
    ),
    Column("message_id", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("piece", Integer, nullable=False),
    Column("pieces", Integer, nullable=False),
    *_memory(),
    _now("updated_at"),
    comment="How far a turn too long for one call has been read.",
)

runs = Table(
    "runs",
    metadata,
    _id(),
    *_chat(),
    Column("seq", BigInteger, nullable=False, comment="The handed_seq that it worked on."),
    Column(
        "request_id",
        Text,
        comment="Of the request that made the work due; all log lines of the round have it.",
    ),
    Column("outcome", Text, nullable=False, server_default="running"),
    Column("reason", Text, nullable=False, server_default=""),
    _sealed("sealed_reason", "reason"),
    Column("calls", Integer, nullable=False, server_default="0"),
    Column("tokens_read", BigInteger, nullable=False, server_default="0"),
    Column("tokens_written", BigInteger, nullable=False, server_default="0"),
    Column("published", Integer, nullable=False, server_default="0"),
    Column(
        "markers",
        Integer,
        nullable=False,
        server_default="0",
        comment="Hidden marker lines left out.",
    ),
    _now("started_at"),
    Column("ended_at", DateTime(timezone=True)),
    Index("ix_runs_chat", "chat_id", "id"),
)

audit = Table(
    "audit",
    metadata,
    _id(),
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    Column("actor", Text, nullable=False, comment="An API key's prefix and name, or `cli`."),
    Column("action", Text, nullable=False),
    Column("chat", Text, comment="Open WebUI's chat id, if it was about one."),
    Column("details", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    _now("at"),
    Index("ix_audit_tenant", "tenant_id", text("id desc")),
)


def _count(name: str, comment: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0", comment=comment)


sums = Table(
    "sums",
    metadata,
    Column("tenant_id", BigInteger, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", Text, primary_key=True, comment="Empty: unknown, or deleted."),
    Column("day", Date, primary_key=True, comment="In UTC."),
    # No foreign key: what a deleted chat was worth stays in the totals, under a number that says
    # nothing, and who counts locks no chat.
    Column("chat_number", BigInteger, primary_key=True, comment="`chats.id`; 0: not stored."),
    Column("model", Text, primary_key=True, comment="Of the chat, or of its summariser."),
    _count("tokens_not_sent", "What summaries kept out of requests to the chat's model."),
    _count("tokens_read", "By the summariser."),
    _count("truncated", "Requests that lost text without any summary of it."),
    Index("ix_sums_day", "tenant_id", "day"),
    comment="What was saved and spent.",
)
