"""Row-level security: see `service/storage/row_security.py`.

It is built by each upgrade to the newest migration (`migrations/env.py`), because a login that may
make no roles leaves it for later. An older schema has no column for the policies.

Revision ID: 0023
Revises: 0022
"""

from collections.abc import Sequence

from alembic import op

from service.storage import row_security

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Nothing here."""


def downgrade() -> None:
    """Takes the policies away."""
    row_security.tear_down(op.get_bind())
