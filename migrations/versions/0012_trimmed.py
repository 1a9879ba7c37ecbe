"""the outcome of a verdict whose lines were partly dropped has a plain name."""

from collections.abc import Sequence

from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    _rename("mended", "trimmed")


def downgrade() -> None:
    _rename("trimmed", "mended")


def _rename(old: str, new: str) -> None:
    op.execute(
        f"update checkpoints set verdict = jsonb_set(verdict, '{{outcome}}', '\"{new}\"')"
        f" where verdict->>'outcome' = '{old}'"
    )
