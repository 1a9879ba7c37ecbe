"""a checkpoint has versions, pins and a verdict; a chat counts the secrets that were masked."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_KINDS = "kind in ('llm', 'extractive', 'degraded'{})"
_ONE = "uq_checkpoints_chat_id_parent_id_covered_digest"
_VERSIONS = "uq_checkpoints_chat_id_parent_id_covered_digest_version"

# The release before knows one version of each checkpoint: the newest that was not replaced stays,
# and the others are deleted with what grew from them. Their messages fall back to what stays. The
# greatest remaining ancestor is the nearest one, because a child's id is above its parent's.
_ONE_VERSION = (
    """
    create temporary table gone on commit drop as
    with others as (
        select id from (
            select id, row_number() over (
                partition by chat_id, parent_id, covered_digest order by retired_at is not null, version desc
            ) as place
            from checkpoints
        ) ranked where place > 1
    )
    select id from checkpoints where id in (select id from others) or ancestors && array(select id from others)
    """,
    """
    update messages
    set checkpoint_id = (select max(a) from unnest(made.ancestors) a where a not in (select id from gone))
    from checkpoints made where made.id = messages.checkpoint_id and made.id in (select id from gone)
    """,
    "delete from checkpoints where id in (select id from gone)",
    """
    update chats set leaf_line = (made.ancestors || made.id)[cardinality(made.ancestors) - 14:],
        leaf_savings = made.savings[cardinality(made.savings) - 15:]
    from messages leaf left join checkpoints made on made.id = leaf.checkpoint_id
    where leaf.chat_id = chats.id and leaf.message_id = chats.leaf_id
    """,
    "update checkpoints set kind = 'llm' where kind = 'corrected'",
)


def upgrade() -> None:
    op.add_column(
        "chats",
        sa.Column(
            "masked",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Secrets masked in what is stored of it.",
        ),
    )
    for table in ("checkpoints", "drafts"):
        op.add_column(table, _json("pins", "[]"))
    op.add_column(
        "checkpoints",
        _json(
            "verdict", "{}", "What the publish gate found, and who corrected or served it by hand."
        ),
    )
    op.add_column(
        "checkpoints",
        sa.Column(
            "version",
            sa.SmallInteger(),
            server_default="1",
            nullable=False,
            comment="Of those of one parent and boundary.",
        ),
    )
    op.add_column(
        "checkpoints",
        sa.Column(
            "retired_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When another was put in its place:"
            " no message leads to it, nor finds it by its digest.",
        ),
    )
    op.create_unique_constraint(
        _VERSIONS, "checkpoints", ["chat_id", "parent_id", "covered_digest", "version"]
    )
    op.drop_constraint(_ONE, "checkpoints", type_="unique")
    _allow(", 'corrected'")


def downgrade() -> None:
    for statement in _ONE_VERSION:
        op.execute(statement)
    _allow("")
    op.create_unique_constraint(_ONE, "checkpoints", ["chat_id", "parent_id", "covered_digest"])
    op.drop_constraint(_VERSIONS, "checkpoints", type_="unique")
    for column in ("retired_at", "version", "verdict", "pins"):
        op.drop_column("checkpoints", column)
    op.drop_column("drafts", "pins")
    op.drop_column("chats", "masked")


def _json(name: str, default: str, comment: str | None = None) -> sa.Column[object]:
    empty = sa.text(f"'{default}'::jsonb")
    return sa.Column(
        name, postgresql.JSONB(), server_default=empty, nullable=False, comment=comment
    )


def _allow(more: str) -> None:
    op.drop_constraint(op.f("ck_checkpoints_kind"), "checkpoints", type_="check")
    op.create_check_constraint(op.f("ck_checkpoints_kind"), "checkpoints", _KINDS.format(more))
