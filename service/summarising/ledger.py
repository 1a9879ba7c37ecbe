"""The ledger: what each covered tool call was and what came back, made by rule and never by an LLM.

In: steps. Out: entries, in order, each with a reference (`T12`) that stays the same in all later checkpoints.
A result is read as JSON (rows under any key), CSV, a Markdown table or lines of text; what fits none of these is
described by its size.
"""

import csv
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from itertools import accumulate
from typing import Any

from service import tokens
from service.transcript import Step
from service.transcript.items import Call

_ARGUMENTS = 100  # characters of the arguments that an entry shows
_SAMPLE = 240
_VALUE = 60
_COMMENT = 200
_COLUMNS = 12
_SEVERAL = "several tools"
_MOMENT = re.compile(r"\W*\d{1,4}[-/:.]\d{1,2}[-/:.T ]")
_ERROR = re.compile(r"\b(error|exception|traceback|failed|failure|denied|timed? ?out)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Entry:
    """One covered call, or several merged ones (`count` > 1, from `first` to `last`)."""

    first: int
    last: int
    tool: str
    arguments: str
    outcome: str
    failed: bool = False
    comment: str = ""
    count: int = 1

    def render(self) -> str:
        """The entry as one line of the summary message."""
        name = f"T{self.first}" if self.count == 1 else f"T{self.first}–T{self.last}"
        called = f"{self.tool}({self.arguments})" if self.count == 1 else f"{self.tool} × {self.count}"
        comment = f" | then: {self.comment}" if self.comment else ""
        return f"- {name} {called} → {self.outcome}{comment}"


def extend(entries: Sequence[Entry], steps: Iterable[Step], limit: int) -> tuple[Entry, ...]:
    """`entries` and those of the newly covered steps; the oldest merge until all fit into `limit` tokens.

    Args:
        entries: the ledger of the checkpoint that this one grows from.
        steps: the newly covered steps, in order.
        limit: bound on the rendered ledger, in tokens.
    """
    number = max((entry.last for entry in entries), default=0)
    added: list[Entry] = []
    for step in steps:
        if added and not added[-1].comment and step.role == "assistant" and step.text:
            added[-1] = replace(added[-1], comment=_line(step.text, _COMMENT))
        for call in step.calls:
            number += 1
            added.append(_entry(number, call))
    return _bounded([*entries, *added], limit)


def render(entries: Sequence[Entry]) -> str:
    """All entries, one a line."""
    return "\n".join(entry.render() for entry in entries)


def describe(result: str) -> tuple[str, bool]:
    """What a tool answered, in one line, and whether it was an error."""
    text = result.strip()
    if not text:
        return "empty result", False
    parsed = _json(text)
    if parsed is not None:
        with suppress(RecursionError):  # nested some hundred deep: described as text
            return _describe_json(parsed, text)
    if table := _markdown(text) or _csv(text):
        return _describe_rows(table), False
    lines = text.splitlines()
    if len(lines) == 1 or len(text) <= _SAMPLE:
        return _line(text, _SAMPLE), bool(_ERROR.match(text))
    errors = sum(bool(_ERROR.search(line)) for line in lines)
    found = f", {errors} mention an error" if errors else ""
    return f"{len(lines)} lines ({len(text)} characters){found} | first: {_line(lines[0], _VALUE * 2)}", False


def _entry(number: int, call: Call) -> Entry:
    outcome, failed = describe(call.result.text)
    if call.result.images:
        outcome += f" | {len(call.result.images)} images"
    arguments = _line(_arguments(call.call.arguments), _ARGUMENTS)
    return Entry(number, number, _line(call.call.name, _VALUE) or "tool", arguments, outcome, failed)


def _arguments(raw: str) -> str:
    value = _json(raw)
    with suppress(RecursionError):
        if isinstance(value, dict):
            return ", ".join(f"{key}={json.dumps(one, ensure_ascii=False)}" for key, one in value.items())
        if value is not None:
            return json.dumps(value, ensure_ascii=False)
    return raw


def _json(text: str) -> Any:  # noqa: ANN401 - a tool's answer
    """The parsed object or array, or None: a lone number or word is text."""
    if text[:1] not in "[{":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _describe_json(value: Any, text: str) -> tuple[str, bool]:  # noqa: ANN401 - a tool's answer
    if isinstance(value, dict) and (error := value.get("error") or value.get("errors")):
        return f"error: {_line(error if isinstance(error, str) else json.dumps(error), _SAMPLE)}", True
    rows = _rows(value)
    if rows is not None:
        return _describe_rows(rows), False
    if isinstance(value, list):
        return (
            f"{len(value)} items | first: {_line(json.dumps(value[0], ensure_ascii=False), _SAMPLE)}"
            if value
            else "0 items",
            False,
        )
    if len(text) <= _SAMPLE:
        return _line(json.dumps(value, ensure_ascii=False), _SAMPLE), False
    return f"object with {_names(value)} | {_sample(value)}", False


def _rows(value: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401 - a tool's answer
    """Rows of a table, or None.

    A list of objects, columns and arrays, an object of equally long arrays, or one of these under the key that holds
    the most.
    """
    if isinstance(value, list):
        return value if value and all(isinstance(row, dict) for row in value) else None
    if not isinstance(value, dict):
        return None
    names, data = value.get("columns") or value.get("header"), value.get("rows") or value.get("data")
    if isinstance(names, list) and isinstance(data, list) and data and all(isinstance(row, list) for row in data):
        titles = [str(name.get("name") if isinstance(name, dict) else name) for name in names]
        return [dict(zip(titles, row, strict=False)) for row in data]
    arrays = {key: one for key, one in value.items() if isinstance(one, list)}
    if len(arrays) == len(value) > 1 and len({len(one) for one in arrays.values()}) == 1:
        return [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]
    nested = [rows for one in value.values() if isinstance(one, list | dict) and (rows := _rows(one))]
    return max(nested, key=len, default=None)


def _markdown(text: str) -> list[dict[str, str]] | None:
    written = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line.strip("|") for line in written if line.startswith("|")]
    if len(lines) * 5 < len(written) * 4:
        return None  # a text with a table in it
    if len(lines) < 3 or not re.fullmatch(r"[\s|:-]+", lines[1]):
        return None
    head, *body = ([cell.strip() for cell in line.split("|")] for line in (lines[0], *lines[2:]))
    return [dict(zip(head, row, strict=False)) for row in body]


def _csv(text: str) -> list[dict[str, str]] | None:
    lines = text.splitlines()
    delimiter = max(",;\t", key=lines[0].count)
    columns = lines[0].count(delimiter) + 1
    if len(lines) < 3 or columns < 2 or any(line.count(delimiter) + 1 < columns for line in lines[:5]):
        return None
    try:
        head, *body = csv.reader(StringIO(text), delimiter=delimiter)
    except csv.Error:
        return None
    same = sum(len(row) == len(head) for row in body)
    # A head does not begin with a date or a time: that is a log, with a comma in its times.
    if not body or same < len(body) * 9 // 10 or any(len(name) > _VALUE for name in head) or _MOMENT.match(head[0]):
        return None
    return [dict(zip(head, row, strict=False)) for row in body]


def _describe_rows(rows: Sequence[dict[str, Any]]) -> str:
    columns = dict.fromkeys(key for row in rows[:20] for key in row)
    parts = [
        f"{len(rows)} rows" if len(rows) != 1 else "1 row",
        f"columns: {_names(columns)}",
        f"first: {_sample(rows[0])}",
    ]
    if len(rows) > 1:
        parts.append(f"last: {_sample(rows[-1])}")
    return " | ".join(parts)


def _names(keys: Iterable[str]) -> str:
    names = [_line(key, _VALUE) for key in keys]
    return ", ".join(names[:_COLUMNS]) + (", …" if len(names) > _COLUMNS else "")


def _sample(row: dict[str, Any]) -> str:
    short = {key: _line(one, _VALUE) if isinstance(one, str) else one for key, one in list(row.items())[:_COLUMNS]}
    return _line(json.dumps(short, ensure_ascii=False, default=str), _SAMPLE)


def _line(text: str, limit: int) -> str:
    flat = " ".join(text[: limit * 4].split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _bounded(entries: list[Entry], limit: int) -> tuple[Entry, ...]:
    """Makes the oldest entries smaller, step by step, until all fit into `limit` tokens.

    First they lose their samples and comments, then they merge into a line per tool, and with so many tools that a
    line each is too much, the oldest lines merge across tools.
    """
    entries = [_fitted(entry, limit // 2) for entry in _merge_failures(entries)]
    costs = [_cost(entry) for entry in entries]
    total = sum(costs)
    for place, entry in enumerate(entries):
        if total <= limit:
            return tuple(entries)
        entries[place] = replace(entry, outcome=entry.outcome.partition(" | ")[0], comment="")
        total -= costs[place] - _cost(entries[place])
    below = [0, *accumulate(_cost(entry) for entry in reversed(entries))][::-1]  # cost of the entries from a place on

    def fits(taken: int) -> bool:
        return sum(map(_cost, _merge_by_tool(entries[:taken]))) + below[taken] <= limit

    taken = bisect_left(range(len(entries)), True, key=fits)
    entries = [*_merge_by_tool(entries[:taken]), *entries[taken:]]
    while len(entries) > 1 and sum(map(_cost, entries)) > limit:
        entries[:2] = [_joined(entries[0], entries[1])]
    return tuple(entries)


def _cost(entry: Entry) -> int:
    return tokens.count(entry.render()) + 1


def _fitted(entry: Entry, room: int) -> Entry:
    """An entry that alone costs more than `room` is shortened."""
    if _cost(entry) <= room:
        return entry
    arguments, outcome = tokens.cut(entry.arguments, room // 4), tokens.cut(entry.outcome, room // 3)
    return replace(entry, tool=tokens.cut(entry.tool, room // 6), arguments=arguments, outcome=outcome, comment="")


def _merge_failures(entries: Sequence[Entry]) -> list[Entry]:
    out: list[Entry] = []
    for entry in entries:
        if out and entry.failed and out[-1].failed and entry.tool == out[-1].tool:
            count = out[-1].count + entry.count
            outcome = f"{count} failed calls, last {entry.outcome.removeprefix(f'{entry.count} failed calls, last ')}"
            out[-1] = replace(
                out[-1],
                last=entry.last,
                outcome=outcome,
                count=count,
                comment=entry.comment or out[-1].comment,
            )
        else:
            out.append(entry)
    return out


def _merge_by_tool(entries: Sequence[Entry]) -> list[Entry]:
    merged: dict[str, Entry] = {}
    for entry in entries:
        old = merged.get(entry.tool)
        merged[entry.tool] = _joined(old, entry) if old else entry
    return sorted(merged.values(), key=lambda entry: entry.first)


def _joined(old: Entry, new: Entry) -> Entry:
    failures, count = _failures(old) + _failures(new), old.count + new.count
    outcome = f"{count - failures} results" + (f", {failures} errors" if failures else "")
    tool = old.tool if old.tool == new.tool else _SEVERAL
    return Entry(min(old.first, new.first), max(old.last, new.last), tool, "", outcome, count=count)


def _failures(entry: Entry) -> int:
    if entry.failed:
        return entry.count
    found = re.search(r", (\d+) errors$", entry.outcome) if entry.count > 1 else None
    return int(found[1]) if found else 0
