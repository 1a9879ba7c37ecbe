"""Daily sums of tokens are those of a model: they name no user and no chat."""

from alembic import op

revision: str = "110"
down_revision: str | None = "109"

_UP = (
    """
    create temporary table merged on commit drop as
    select tenant_id, day, model, sum(tokens_not_sent) as tokens_not_sent,
        sum(tokens_read) as tokens_read, sum(truncated) as truncated
    from sums group by tenant_id, day, model
    """,
    "delete from sums",
    "drop index ix_sums_day",
    """
    alter table sums drop constraint pk_sums, drop column user_id, drop column chat_number,
        add constraint pk_sums primary key (tenant_id, day, model)
    """,
    """
    insert into sums (tenant_id, day, model, tokens_not_sent, tokens_read, truncated)
    select tenant_id, day, model, tokens_not_sent, tokens_read, truncated from merged
    """,
)
_DOWN = (
    """
    alter table sums drop constraint pk_sums,
        add column user_id text default '' not null, add column chat_number bigint default 0 not null,
        add constraint pk_sums primary key (tenant_id, user_id, day, chat_number, model)
    """,
    "alter table sums alter column user_id drop default, alter column chat_number drop default",
    "create index ix_sums_day on sums (tenant_id, day)",
)


def upgrade() -> None:
    for statement in _UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in _DOWN:
        op.execute(statement)
