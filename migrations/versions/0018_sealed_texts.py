"""encryption at rest: columns for what is sealed, a salt for each tenant, and which keys were used."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_SEALED = {
    "checkpoints": {
        "sealed_memory": "sections, pins, talk and ledger",
        "sealed_summary": "summary",
        "sealed_rules": "rules",
        "sealed_record": "record",
        "sealed_verdict": "what of the verdict quotes a text",
    },
    "drafts": {"sealed_memory": "sections, pins, talk and ledger"},
    "runs": {"sealed_reason": "reason"},
    "chats": {"sealed_wishes": "wishes"},
}


def upgrade() -> None:
    op.create_table(
        "tenant_secrets",
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "salt",
            sa.LargeBinary(),
            nullable=False,
            comment="Of the tenant's keys: without it, nothing sealed for the tenant can be opened.",
        ),
        sa.Column(
            "digest_key", sa.LargeBinary(), nullable=False, comment="Seals digests; itself sealed."
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
            name=op.f("fk_tenant_secrets_tenant_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_tenant_secrets")),
        comment="One row for each tenant that has something sealed. A table of its own, so that a"
        " backup can leave it out.",
    )
    op.create_table(
        "sealing_keys",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "proof", sa.LargeBinary(), nullable=False, comment="Tells another key of the same id."
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sealing_keys")),
        comment="The keys of PRECIS_ENCRYPTION_KEYS that rows may be sealed with.",
    )
    for table, columns in _SEALED.items():
        for name, what in columns.items():
            comment = f"Sealed: {what}; null where they are plain."
            op.add_column(table, sa.Column(name, sa.LargeBinary(), comment=comment))


def downgrade() -> None:
    sealed = (
        op.get_bind().execute(sa.text("select exists (select 1 from sealing_keys)")).scalar_one()
    )
    if sealed:
        raise RuntimeError(
            "texts are sealed, and would be lost: put `none` before the keys in"
            " PRECIS_ENCRYPTION_KEYS, and run `precis keys rotate-encryption` first"
        )
    for table, columns in _SEALED.items():
        for name in columns:
            op.drop_column(table, name)
    op.drop_table("sealing_keys")
    op.drop_table("tenant_secrets")
