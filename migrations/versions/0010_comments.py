"""Comments of columns in the words of the documents.

Revision ID: 0010
Revises: 0009
"""

from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"

_COMMENTS = (  # table, column, before, after
    (
        "chats",
        "leaf_id",
        "The newest message of the path that was handed over last.",
        "The newest message of the path that was ingested last.",
    ),
    (
        "chats",
        "dead_at",
        "Given up until a retry or the next hand-over.",
        "Given up until a retry or the next ingest.",
    ),
    (
        "chats",
        "wants_bodies",
        "Work waits for texts that are not kept any more:"
        " the next hand-over has to be the whole path.",
        "Work waits for texts that were deleted: the next ingest has to be the whole path.",
    ),
    (
        "chats",
        "expires_at",
        "From then on it is served no more,"
        " and the next sweep removes it with all that is its own.",
        "From then on it is not served,"
        " and the next sweep deletes it with everything stored for it.",
    ),
    (
        "chats",
        "compactor",
        "Who else compresses it, as the last hand-over said.",
        "Who else compresses it, as of the last ingest.",
    ),
    (
        "checkpoints",
        "verdict",
        "What the publish gate found, and who corrected or served it by hand.",
        "What the publish gate found, and who corrected or served it manually.",
    ),
    ("endpoints", "failures", "In a row.", "Consecutive."),
    (
        "endpoints",
        "open_until",
        "Nobody asks before; set from the breaker's opening on.",
        "No call is made before; set while the breaker is not closed.",
    ),
)


def upgrade() -> None:
    for table, column, before, after in _COMMENTS:
        op.alter_column(table, column, comment=after, existing_comment=before)


def downgrade() -> None:
    for table, column, before, after in _COMMENTS:
        op.alter_column(table, column, comment=before, existing_comment=after)
