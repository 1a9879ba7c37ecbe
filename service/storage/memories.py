"""What a summary says, between its columns and its types.

Sealed, all of it is one value in a column of its own, and the plain columns are empty. The talk, by
far the longest, is packed where it is not sealed. JSON that does not fit the types is an error, not
a guess.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import ColumnElement

from service.storage import codec
from service.storage.sealing import Seal, Where
from service.storage.tables import checkpoints
from service.summarising.memory import Memory

SEALED = "sealed_memory"
"""The column for the sealed form of all that are texts."""
TEXTS = ("state", "pins", "talk", "ledger")
"""The columns that are empty then: lists as JSON, but for the talk."""

PLAIN = (*TEXTS, "heard", "told")
"""The columns of a row that is not sealed, as a memory's fields are called."""

COLUMNS: tuple[ColumnElement[Any], ...] = tuple(checkpoints.c[name] for name in [*PLAIN, SEALED])
"""Those of a checkpoint."""


def plain(memory: Memory) -> dict[str, Any]:
    """A memory as columns that are not sealed yet."""
    # A text may be of a class of its own, such as a number that stands as in its source.
    columns: dict[str, Any] = msgspec.to_builtins(memory, enc_hook=str)
    return columns


def stored(columns: Mapping[str, Any], seal: Seal, where: Where) -> dict[str, Any]:
    """The plain columns as they are stored: sealed, or as they are."""
    if seal.writes is None:
        talk = codec.pack_text(msgspec.json.encode(columns["talk"]).decode())
        return {**columns, "talk": talk, SEALED: None}
    texts = {name: columns[name] for name in TEXTS}
    sealed = seal.seal_text(where, msgspec.json.encode(texts).decode())
    return {**columns, **{name: [] for name in TEXTS}, "talk": None, SEALED: sealed}


def opened(row: Mapping[Any, Any], seal: Seal, where: Where) -> dict[str, Any]:
    """The plain columns of a row, however it is stored."""
    columns = {name: row[name] for name in PLAIN}
    if row[SEALED] is None:
        talk = msgspec.json.decode(codec.unpack_text(row["talk"])) if row["talk"] else []
        return columns | {"talk": talk}
    texts: dict[str, Any] = msgspec.json.decode(seal.open_text(where, row[SEALED], ""))
    return columns | texts


def memory_of(row: Mapping[Any, Any], seal: Seal, where: Where) -> Memory:
    """The memory in the columns of a row.

    Raises:
        msgspec.ValidationError: a row is of another version, or was written by somebody else.
        KeyMissing: its key is not among ours.
        CannotOpen: it was not sealed for this row.
    """
    columns = opened(row, seal, where)
    return msgspec.convert(columns, Memory)
