"""a checkpoint may be an interim one, made by code until a summariser has read what it covers."""

from collections.abc import Sequence

from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_KINDS = "'llm', 'extractive', 'degraded', 'corrected'"


def upgrade() -> None:
    _allow(f"{_KINDS}, 'interim'")


def downgrade() -> None:
    """Interim ones are made by code alone, as the release before knows them."""
    op.execute("update checkpoints set kind = 'extractive' where kind = 'interim'")
    _allow(_KINDS)


def _allow(kinds: str) -> None:
    op.drop_constraint(op.f("ck_checkpoints_kind"), "checkpoints", type_="check")
    op.create_check_constraint(op.f("ck_checkpoints_kind"), "checkpoints", f"kind in ({kinds})")
