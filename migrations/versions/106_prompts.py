"""Prompts wait for a host that asks one of its own models; a tenant says which model that is.

Beside them, windows of models as their answers show them.
"""

from alembic import op

revision: str = "106"
down_revision: str | None = "105"

_UP = (
    "alter table tenants add column summariser text",
    """
    create table prompts (
        id text not null,
        tenant_id bigint not null,
        chat_id bigint not null,
        digest text not null,
        model text not null,
        basis jsonb not null,
        form bytea not null,
        created_at timestamptz default now() not null,
        taken_at timestamptz,
        reply bytea,
        replied_at timestamptz,
        expires_at timestamptz not null,
        constraint pk_prompts primary key (id),
        constraint uq_prompts_chat_id_digest unique (chat_id, digest),
        constraint fk_prompts_tenant_id_chat_id foreign key (tenant_id, chat_id)
            references chats (tenant_id, id) on delete cascade
    )
    """,
    "create index ix_prompts_model on prompts (tenant_id, model)",
    """
    create table shown_windows (
        tenant_id bigint not null,
        model text not null,
        window_tokens integer not null,
        shown_at timestamptz default now() not null,
        constraint pk_shown_windows primary key (tenant_id, model),
        constraint fk_shown_windows_tenant_id foreign key (tenant_id)
            references tenants (id) on delete cascade
    )
    """,
    # One breaker for each model of a tenant's host, beside the fleet's, which are nobody's.
    """
    alter table endpoints drop constraint pk_endpoints,
        add column tenant_id bigint default '0' not null,
        add constraint pk_endpoints primary key (tenant_id, name)
    """,
)
_DOWN = (
    "delete from endpoints where tenant_id <> 0",
    "alter table endpoints drop column tenant_id, add constraint pk_endpoints primary key (name)",
    "drop table shown_windows",
    "drop table prompts",
    "alter table tenants drop column summariser",
)


def upgrade() -> None:
    for statement in _UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in _DOWN:
        op.execute(statement)
