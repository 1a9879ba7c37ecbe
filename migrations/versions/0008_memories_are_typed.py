"""a summary is stored typed: the narrative by section, the talk, and pins with their speaker."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Row = dict[str, Any]

_BATCH = 500
_KEYS = {"checkpoints": "id", "drafts": "chat_id"}
_HEADS = (
    "Goal",
    "Constraints and preferences",
    "Decisions",
    "Facts and values",
    "Files and artifacts",
    "Open questions",
    "Current state",
)
_BY_NAME = {head.casefold(): head for head in _HEADS}
_ENTRY = (
    "first",
    "last",
    "tool",
    "arguments",
    "outcome",
    "failed",
    "comment",
    "count",
    "details",
    "short",
)
"""The fields of a ledger entry of the release before."""
_PARTS = ("columns", "ranges", "errors", "also", "beside", "first", "last")
"""What stands before a detail of an entry; there it is a field of its own."""


def upgrade() -> None:
    for table in _KEYS:
        op.add_column(table, _json("sections", "The narrative."))
        op.add_column(table, _json("talk"))
        op.add_column(
            table,
            sa.Column(
                "heard", sa.Integer(), server_default="0", nullable=False, comment="Steps read."
            ),
        )
        _rewrite(table, "narrative", "sections", _typed)
        op.drop_column(table, "narrative")
    op.add_column("checkpoints", _text("rules", "Of it, what users laid down; for `record`."))
    op.add_column("checkpoints", _text("record", "And all else; empty in older checkpoints."))


def downgrade() -> None:
    for table in _KEYS:
        op.add_column(table, _text("narrative"))
        _rewrite(table, "sections", "narrative", _untyped)
        op.alter_column(table, "narrative", server_default=None)
        for column in ("sections", "talk", "heard"):
            op.drop_column(table, column)
    for column in ("rules", "record"):
        op.drop_column("checkpoints", column)


def _json(name: str, comment: str | None = None) -> sa.Column[object]:
    empty = sa.text("'[]'::jsonb")
    return sa.Column(
        name, postgresql.JSONB(), server_default=empty, nullable=False, comment=comment
    )


def _text(name: str, comment: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default="", nullable=False, comment=comment)


def _rewrite(table: str, old: str, new: str, convert: Callable[[Row], Row]) -> None:
    """Converts all rows in batches, so that no more than a batch is held at once."""
    key = _KEYS[table]
    read = sa.text(
        f"select {key} as key, to_jsonb({old})::text as said,"
        " pins::text as pins, ledger::text as ledger"
        f" from {table} where {key} > :after order by {key} limit {_BATCH}"
    )
    said = "one.said" if new == "sections" else "one.said #>> '{}'"
    write = sa.text(
        f"update {table} set {new} = {said}, pins = one.pins, ledger = one.ledger"
        " from jsonb_to_recordset(cast(:batch as jsonb))"
        " as one (key bigint, said jsonb, pins jsonb, ledger jsonb)"
        f" where {table}.{key} = one.key"
    )
    connection, after = op.get_bind(), -1
    while batch := connection.execute(read, {"after": after}).all():
        rows = [
            {
                "key": row.key,
                **convert(
                    {name: json.loads(getattr(row, name)) for name in ("said", "pins", "ledger")}
                ),
            }
            for row in batch
        ]
        connection.execute(write, {"batch": json.dumps(rows)})
        after = batch[-1].key


def _typed(row: Row) -> Row:
    """A row of the release before as it is from now on."""
    return {
        "said": _sections(row["said"]),
        "pins": [_pin(pin) for pin in row["pins"]],
        "ledger": [_entry(entry) for entry in row["ledger"]],
    }


def _untyped(row: Row) -> Row:
    """A row as the release before reads it."""
    return {
        "said": _markdown(row["said"]),
        "pins": [_older_pin(pin) for pin in row["pins"]],
        "ledger": [_older_entry(entry) for entry in row["ledger"]],
    }


def _sections(narrative: str) -> list[Row]:
    """Markdown under `## ` heads; lines under no known head are the current state."""
    found: dict[str, list[str]] = {}
    current = _HEADS[-1]
    for raw in narrative.splitlines():
        line = raw.strip()
        head = _BY_NAME.get(line.strip("#* :").casefold()) if line.startswith("#") else None
        current = head or current
        if line and not head:
            found.setdefault(current, []).append(line.removeprefix("- "))
    return [{"section": head, "lines": found[head]} for head in _HEADS if head in found]


def _markdown(sections: list[Row]) -> str:
    return "\n\n".join(
        "\n".join([f"## {one['section']}", *(f"- {line}" for line in one["lines"])])
        for one in sections
    )


def _pin(old: Row) -> Row:
    """A pin says who spoke, which a paste never did."""
    return {
        "number": old["number"],
        "kind": old["kind"],
        "text": old["text"],
        "source": old["source"],
        "speaker": "assistant" if old.get("role") == "assistant" else "user",
        "utterance": "",
        "at": None,
        "replaced_by": old.get("replaced_by"),
    }


def _older_pin(new: Row) -> Row:
    return {
        "number": new["number"],
        "kind": new["kind"],
        "text": new["text"],
        "source": new["source"],
        "role": new["speaker"],
        "replaced_by": new["replaced_by"],
        "amended_by": None,
    }


def _entry(old: Row) -> Row:
    """An entry with its details typed; the shorter ones are made of those when they are shown."""
    kept = {name: value for name, value in old.items() if name != "short"}
    return kept | {"details": [_detail(text) for text in old.get("details", [])]}


def _detail(text: str) -> Row:
    part, colon, rest = text.partition(": ")
    return {"part": part, "text": rest} if colon and part in _PARTS else {"part": "", "text": text}


def _older_entry(new: Row) -> Row:
    kept = {name: new[name] for name in _ENTRY if name in new}
    details = [
        f"{one['part']}: {one['text']}" if one["part"] else one["text"]
        for one in new.get("details", [])
    ]
    return kept | {"details": details, "short": []}
