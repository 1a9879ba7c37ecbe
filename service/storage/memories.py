"""What a summary says, between its columns and its types.

JSON that does not fit the types is an error, not a guess.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import ColumnElement

from service.storage.tables import checkpoints
from service.summarising.memory import Memory

_COLUMNS = {
    "narrative": "sections",
    "pins": "pins",
    "talk": "talk",
    "ledger": "ledger",
    "heard": "heard",
}
"""Of a memory's fields, in tables `checkpoints` and `drafts`."""

COLUMNS: tuple[ColumnElement[Any], ...] = tuple(checkpoints.c[name] for name in _COLUMNS.values())
"""Those of a checkpoint."""


def columns(memory: Memory) -> dict[str, Any]:
    """A memory as the columns of a row."""
    parts = msgspec.to_builtins(memory)
    return {column: parts[field] for field, column in _COLUMNS.items()}


def memory_of(row: Mapping[Any, Any]) -> Memory:
    """The memory in the columns of a row.

    Raises:
        msgspec.ValidationError: a row is of another version, or was written by somebody else.
    """
    return msgspec.convert({field: row[column] for field, column in _COLUMNS.items()}, Memory)
