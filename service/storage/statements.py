"""Long statements: a file for each noun in `sql/`, with parameters by name.

Each begins with a line `-- name --`. SQLAlchemy's `text` takes their parameters as they are, psql
as variables; for asyncpg, which knows `$1` only, they are numbered once.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_FOLDER = Path(__file__).with_name("sql")
_NAME = re.compile(r"^-- (\w+) --\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")  # no cast (`::bigint`), no slice (`[1:n]`)


class NumberedStatement(NamedTuple):
    """A statement for asyncpg, and what its parameters are called, from `$1` on."""

    sql: str
    names: tuple[str, ...]

    def given(self, values: Mapping[str, Any]) -> list[Any]:
        """The values of its parameters, in their order; `values` may have others too."""
        return [values[name] for name in self.names]


def load_statements(noun: str) -> dict[str, str]:
    """The statements of `sql/noun.sql` by name, without their comments."""
    _, *parts = _NAME.split((_FOLDER / f"{noun}.sql").read_text(encoding="utf-8"))
    return {
        name: _COMMENT.sub("", statement)
        for name, statement in zip(parts[::2], parts[1::2], strict=True)
    }


def number_parameters(statement: str) -> NumberedStatement:
    """A statement as asyncpg takes it."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(statement)))
    sql = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return NumberedStatement(sql, names)
