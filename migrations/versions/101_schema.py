"""The schema of 1.0.0, as SQL that psql runs too."""

from pathlib import Path

from alembic import op

revision: str = "101"
down_revision: str | None = None

_SCHEMA = Path(__file__).with_suffix(".sql")


def upgrade() -> None:
    # One statement at a time: asyncpg prepares each.
    for statement in _SCHEMA.read_text().split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    tables = [
        line.split()[2]
        for line in _SCHEMA.read_text().splitlines()
        if line.startswith("create table")
    ]
    op.execute(f"drop table {', '.join(tables)}")
