"""The tables and their columns, and the terms that statements on them share.

The migrations define the schema, with its keys, defaults and indexes; a test compares the two.
Every WHERE on a table of chats carries the tenant (`match_chat`). Values come as one array, because
a statement has at most 32,767 parameters. Only the database's clock decides.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Date,
    DateTime,
    Double,
    FromClause,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Update,
    Uuid,
    all_,
    and_,
    any_,
    func,
    literal,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData()
_TIME = DateTime(timezone=True)


def _make_chat_columns() -> tuple[Column[int], ...]:
    """Columns of the owner. Keys and indexes begin with the chat alone: its id is unique."""
    return Column("tenant_id", BigInteger), Column("chat_id", BigInteger)


# One Open WebUI installation each.
tenants = Table(
    "tenants",
    metadata,
    Column("id", BigInteger),
    Column("name", Text),
    # When a worker last took one of its chats: whose turn it is.
    Column("served_at", _TIME),
    # Which of the host's models writes summaries: `chat` is each chat's own, empty none, and null
    # says that nobody has chosen.
    Column("summariser", Text),
    Column("created_at", _TIME),
)

# One row for each tenant. A table of its own, so that a backup can leave it out.
tenant_secrets = Table(
    "tenant_secrets",
    metadata,
    Column("tenant_id", BigInteger),
    # The tenant's keys derive from it: without it, nothing sealed for the tenant can be opened.
    # The hashes that stand for ids of deleted chats and erased users are keyed with it, too.
    Column("salt", LargeBinary),
    # Keys ids of messages and hashes of texts; sealed.
    Column("secret", LargeBinary),
)

# The keys of PRECIS_ENCRYPTION_KEYS that rows may be sealed with.
sealing_keys = Table(
    "sealing_keys",
    metadata,
    Column("id", SmallInteger),
    Column("proof", LargeBinary),  # tells another key of the same id
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", BigInteger),
    Column("tenant_id", BigInteger),
    Column("scope", Text),
    Column("name", Text),
    Column("prefix", Text),  # the first characters, to recognise a key by
    Column("hash", LargeBinary),  # SHA-256 of the whole key
    Column("created_at", _TIME),
    Column("revoked_at", _TIME),
    Column("expires_at", _TIME),  # from then on it opens nothing
    Column("last_used_at", _TIME),
    Column("last_filter", Text),  # the version of the filter that asked last with it
)

# Operators who are signed in to the pages.
sessions = Table(
    "sessions",
    metadata,
    Column("hash", LargeBinary),  # SHA-256 of the cookie's value
    Column("key_id", BigInteger),
    Column("expires_at", _TIME),
)

chats = Table(
    "chats",
    metadata,
    Column("id", BigInteger),
    Column("tenant_id", BigInteger),
    Column("external_id", Text),  # Open WebUI's chat id
    Column("user_id", Text),  # who began it
    Column("model", Text),
    Column("window_tokens", Integer),
    # Whether nobody told the model's window, so that PRECIS_WINDOW was taken.
    Column("window_assumed", Boolean),
    Column("overhead_tokens", Integer),
    # The tokens that a provider counts for one that is counted here.
    Column("usage_factor", Double),
    Column("leaf_id", Text),  # the newest message of the path that was ingested last
    # The read on the request path needs these of that path; `chats.note_leaf` keeps them.
    Column("leaf_tokens", BigInteger),  # of the path to the leaf
    # The deepest checkpoints on the path to the leaf, at most 16, oldest first.
    Column("leaf_line", ARRAY(BigInteger)),
    Column("leaf_savings", ARRAY(BigInteger)),  # what each of them saves
    Column("leaf_windows", ARRAY(Integer)),  # for which window each was written, in tokens
    Column("served_id", BigInteger),  # the checkpoint in the newest request that had one
    # Raised by a reset; fences publishing.
    Column("epoch", Integer),
    # Due work. The row is the truth; Redis only wakes workers.
    Column("handed_seq", BigInteger),
    Column("due_at", _TIME),
    # The leaves of the branches that are due, newest first; `ingests.sql` bounds their number.
    Column("due_leaves", ARRAY(Text)),
    # The lease on the model's work.
    Column("lease_token", Uuid),
    Column("lease_until", _TIME),
    Column("lease_endpoint", Text),  # the summariser endpoint that the work under this lease asks
    Column("leased_by", Text),  # the worker: host and process id
    # When code's work is due; null: code has nothing to do. While it is worked on, that is the end
    # of its lease, unless an ingest came.
    Column("code_at", _TIME),
    # The lease on code's work.
    Column("code_token", Uuid),
    Column("code_until", _TIME),
    Column("dead_at", _TIME),  # given up until a retry or the next ingest
    Column("attempts", SmallInteger),
    Column("last_error", Text),
    Column("request_id", Text),  # of the request that made work due last
    # From then on it is not served, and the next sweep deletes it with everything stored for it.
    Column("expires_at", _TIME),
    Column("compactor", Text),  # who else compresses it, as of the last ingest
    # Since when its user wants no summaries of it: none is made and none serves.
    Column("left_alone_at", _TIME),
    # Operators recognise the chat by these; they are sealed.
    Column("title", LargeBinary),
    Column("user_name", LargeBinary),  # of who began it
    Column("created_at", _TIME),
    Column("updated_at", _TIME),
)

messages = Table(
    "messages",
    metadata,
    *_make_chat_columns(),
    # The hash of all words from the path's first message to this one (`request.native`), keyed.
    Column("message_id", Text),
    Column("parent_id", Text),
    Column("role", Text),
    Column("depth", Integer),  # 1 for a root
    # The host's own id, and the hash of what it stores; null until the host has told them.
    Column("host_id", Text),
    Column("host_hash", Text),  # keyed
    # Seen more than once: in two requests, or as the host stores it.
    Column("confirmed", Boolean),
    Column("tokens", Integer),  # what the model is sent for it
    Column("path_tokens", BigInteger),  # running total from the root to here
    Column("step_tokens", ARRAY(Integer)),  # what a summariser reads, by step
    Column("step_calls", ARRAY(Integer)),  # its calls of tools, by step
    Column("sent_at", BigInteger),  # Open WebUI's timestamp, Unix seconds
    # The deepest checkpoint that covers a part of the path to here.
    Column("checkpoint_id", BigInteger),
    # See `storage.codec`; null once it was deleted for its age, as all bodies above it are then.
    Column("body", LargeBinary),
    Column("author_id", Text),  # who sent it; null: who began the chat
    Column("created_at", _TIME),  # when it was first stored
)

# Who wrote in a chat, and in the chats that it was forked from.
chat_authors = Table(
    "chat_authors",
    metadata,
    *_make_chat_columns(),
    Column("user_id", Text),
)

# Chats and users that were deleted, and are not stored again before `until`.
tombstones = Table(
    "tombstones",
    metadata,
    Column("tenant_id", BigInteger),
    # The hash of Open WebUI's id of a chat or of a user, keyed with the tenant's salt.
    Column("hash", LargeBinary),
    Column("until", _TIME),
)


INTERIM = "interim"
"""The kind of a checkpoint that code made at once; it serves until a summariser has read as far."""

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", BigInteger),
    *_make_chat_columns(),
    # The checkpoint that it grew from; 0 for none.
    Column("parent_id", BigInteger),
    Column("ancestors", ARRAY(BigInteger)),  # what it grew from, oldest first
    # Tokens that each ancestor, and at last this one, saves a request: the running maximum.
    Column("savings", ARRAY(BigInteger)),
    # For which windows they were written, in tokens; as long as `savings`.
    Column("windows", ARRAY(Integer)),
    Column("covered_until", Text),
    Column("covered_messages", Integer),
    Column("covered_tokens", BigInteger),
    Column("kind", Text),
    # The next one grows from this; see `storage.codec`.
    Column("memory", LargeBinary),
    # The summary message, packed, rendered once: its bytes never change.
    Column("summary", LargeBinary),
    Column("tokens", Integer),  # size of the summary message
    Column("summariser", Text),
    Column("prompt_version", Text),
    # The findings of the publish gate, or who corrected it; packed.
    Column("verdict", LargeBinary),
    Column("created_at", _TIME),
    # When another was put in its place: no message leads to it.
    Column("retired_at", _TIME),
)

# Prompts for a host's own models.
prompts = Table(
    "prompts",
    metadata,
    Column("id", Text),  # cannot be guessed
    *_make_chat_columns(),
    Column("digest", Text),  # of its form, keyed
    Column("model", Text),  # the host's, which it is for
    Column("basis", JSONB),  # what its round was planned on
    Column("form", LargeBinary),  # the request's fields, packed
    Column("created_at", _TIME),
    Column("taken_at", _TIME),  # when a host took it, which happens once
    Column("reply", LargeBinary),  # as the host handed it in, packed
    Column("replied_at", _TIME),
    # When its round ends if there is no reply.
    Column("expires_at", _TIME),
)

# Windows of models that nobody has told, as their answers show them.
shown_windows = Table(
    "shown_windows",
    metadata,
    Column("tenant_id", BigInteger),
    Column("model", Text),
    Column("window_tokens", Integer),
    Column("shown_at", _TIME),
)

# The circuit breaker of each summariser endpoint.
endpoints = Table(
    "endpoints",
    metadata,
    Column("tenant_id", BigInteger),  # whose host has the model; 0: the fleet's
    Column("name", Text),
    Column("failures", Integer),  # consecutive
    # No call is made before; set while the breaker is not closed.
    Column("open_until", _TIME),
    Column("last_error", Text),
    Column("changed_at", _TIME),
)

runs = Table(
    "runs",
    metadata,
    Column("id", BigInteger),
    *_make_chat_columns(),
    Column("seq", BigInteger),  # the handed_seq that it worked on
    Column("by_code", Boolean),  # whether it was code's work
    # The request that made the work due; all log lines of the round have its id.
    Column("request_id", Text),
    Column("outcome", Text),
    Column("reason", LargeBinary),  # packed; null for none
    Column("calls", Integer),
    Column("tokens_read", BigInteger),
    Column("tokens_written", BigInteger),
    Column("published", Integer),
    Column("started_at", _TIME),
    Column("ended_at", _TIME),
)

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger),
    Column("tenant_id", BigInteger),
    Column("actor", Text),  # an API key's prefix and name, or `cli`
    Column("action", Text),
    Column("chat", Text),  # Open WebUI's chat id, if it was about one
    Column("details", JSONB),
    Column("at", _TIME),
)

# Daily sums of tokens.
sums = Table(
    "sums",
    metadata,
    Column("tenant_id", BigInteger),
    Column("day", Date),  # in UTC
    Column("model", Text),  # of the chats, or a summariser
    Column("tokens_not_sent", BigInteger),  # summaries kept them out of requests to the model
    Column("tokens_read", BigInteger),  # the model read them as a summariser
    Column("truncated", BigInteger),  # turns that lost text without a summary of it
)


class ChatKey(NamedTuple):
    """One chat of one tenant. `id` is the internal one, not Open WebUI's."""

    tenant: int
    id: int

    @property
    def columns(self) -> dict[str, int]:
        """The first columns of a new row of this chat."""
        return {"tenant_id": self.tenant, "chat_id": self.id}

    def parameters(self, **others: object) -> dict[str, object]:
        """The parameters of a statement about this chat: `tenant`, `chat` and `others`."""
        return {"tenant": self.tenant, "chat": self.id, **others}


def match_chat(chat: ChatKey, table: FromClause) -> ColumnElement[bool]:
    """The rows of `table` that belong to this chat.

    `table` is chats, one of the tables below it, or an alias. The id alone would find the same
    rows. The tenant is there so that an id from the wrong hands finds nothing.
    """
    identity = table.c.chat_id if "chat_id" in table.c else table.c.id
    return and_(table.c.tenant_id == chat.tenant, identity == chat.id)


def update_chat(chat: ChatKey) -> Update:
    """An update of the chat's own row."""
    return update(chats).where(match_chat(chat, chats))


Value = TypeVar("Value", int, str, bytes)


def in_values(column: ColumnElement[Value], values: Collection[Value]) -> ColumnElement[bool]:
    """Whether the column's value is one of these."""
    return column == any_(literal(list(values), ARRAY(column.type)))


def not_in_values(column: ColumnElement[Value], values: Collection[Value]) -> ColumnElement[bool]:
    """Whether the column's value is none of these."""
    return column != all_(literal(list(values), ARRAY(column.type)))


def after_seconds(seconds: float | ColumnElement[float]) -> ColumnElement[datetime]:
    """The database's time in so many seconds: the only one that decides, as clocks may differ."""
    return func.now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds, type_=Interval)
