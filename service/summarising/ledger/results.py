"""What a tool answered, in a few parts of a line: its size, columns, fields, errors. Pure.

In: the text of a result, as JSON, a table, log lines, an error or anything else. Out: an `Outcome`,
whose parts stand in order of worth. All else of a result is looked up when it is needed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.summarising.ledger import tables, values
from service.summarising.ledger.tables import Table
from service.summarising.ledger.values import Number, line, listed, parsed, quoted
from service.text.escapes import unescaped

_PART = 240  # characters of a part
_FIELDS = 420  # of the fields of an object
_LISTED = 1  # precedence of what has several rows
_LEVELS = 3  # of an object whose fields are shown by their path
_LAYERS = 4  # a text in a text in a text
_RARE = 0.2  # of the rows; a column that so few have says what is special about them
_MOST_RARE = 3
_TRACE = 40  # lines that an error message may have
_ERROR = re.compile(
    r"\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|timed out|"
    r"timeout (?:after|exceeded|expired))\b",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(
    r"\b(?:no|0|without) (?:error|failure)|\berrors?\W{0,2}[=:]\s*(?:0|none|null|false|\[\])",
    re.IGNORECASE,
)
_BEGINS_WITH_ERROR = re.compile(
    r"\A(?:Traceback \(most recent|(?:[\w.]*(?:Error|Exception)|ERROR|FATAL|fatal)\b[^\n:]{0,60}:)",
    re.IGNORECASE,
)
_FAILURES = ("error", "errors", "exception", "fault")
_NO_FAILURE = ("none", "false", "no", "0")
_FAILED = ("error", "failed", "failure", "fail")
_EXIT_CODES = ("exit_code", "returncode", "exitCode")
_MESSAGES = ("message", "detail", "reason", "error_message", "stderr")
_VARIES = re.compile(r"(?<![0-9a-fA-F])[a-fA-F]*+[0-9][0-9a-fA-F]*+")
_ESCAPED = re.compile(r"&(?:quot|#34|lt|gt|amp);")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)\n?```", re.DOTALL)
_DATA = re.compile(r"data:([\w.+-]{1,20}/[\w.+-]{1,40})?[^,\s]{0,40};base64,[A-Za-z0-9+/=_-]{64,}")
_BASE64 = re.compile(
    r"\A(?=[^\n]*[a-z])(?=[^\n]*[A-Z])(?=[^\n]*[0-9])[A-Za-z0-9+/_\r\n-]{200,}={0,2}"
)
_ODD = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\ufffd]")
_DATED = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d|\A\d{9,13}\Z")
_ADDRESS = re.compile(r"://|@\w|\A/|\w/\w+/")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a text is said to be: parts of a line, the first in any case; and if it is an error."""

    parts: tuple[str, ...]
    failed: bool = False


def read(text: str, asked: str = "") -> Outcome:
    """Describes any text; never raises. What stands in `asked`, the arguments, is left out."""
    return _read(text, asked, 0)


def _read(text: str, asked: str, layer: int) -> Outcome:
    text = _DATA.sub("[inline file]", _unescaped(text.lstrip("\ufeff").strip()))
    if not text or text in ("null", "None", "{}", "[]", '""'):
        return Outcome(("empty result",))
    if _is_binary(text):
        return Outcome((f"binary data ({len(text)} characters)",))
    value = parsed(text) if text[0] in '[{"' else None
    if isinstance(value, dict | list):
        return _of_json(value, text, asked, layer)
    inner = _within(text, value) if layer < _LAYERS else None
    if inner is not None:
        return _read(inner, asked, layer + 1)
    return _of_rows(text) or _of_lines(text)


def _within(text: str, value: Any) -> str | None:  # noqa: ANN401 - a tool's JSON
    """The text that a JSON string is, or that stands in a fence or below an introduction."""
    is_text = isinstance(value, str) and not isinstance(value, Number)
    return value if is_text else _introduced(text)


def _of_rows(text: str) -> Outcome | None:
    """A text that is a table, or the beginning of one; None for any other."""
    whole = tables.of_text(text)
    if whole:
        return Outcome(tuple(_of_table(whole)))
    beginning = tables.cut_off(text)
    if beginning:
        size, *rest = _of_table(beginning)
        return Outcome((f"{size} before it breaks off", *rest))
    return None


def _of_json(value: Any, text: str, asked: str, layer: int) -> Outcome:  # noqa: ANN401
    failure = _failure(value) if isinstance(value, dict) else ""
    if failure:
        return Outcome((f"error: {failure}",), failed=True)
    inner = _inner(value, len(text)) if layer < _LAYERS else None
    if inner is not None:
        return _read(inner, asked, layer + 1)
    table = tables.of_value(value)
    if table:
        return Outcome(tuple(_of_table(table)))
    if isinstance(value, dict):
        return Outcome(tuple(_of_object(value, asked)))
    size = _counted(len(value), "item")
    return Outcome((size, values.value(value, _PART)))


def _of_object(value: Mapping[str, Any], asked: str) -> Iterator[str]:
    """An object by its size and its fields: those first that say how things stand."""
    fields: list[tuple[int, str]] = []
    for level, name, one in _flat(value, "", 0):
        if isinstance(one, list | dict):
            fields.append((_LISTED, f"{name}: {_several(one)}"))
        elif str(one) not in asked or len(str(one)) < 2:
            fields.append((_precedence(one, level), f"{name}: {values.value(one)}"))
    # Sorting keeps the order of those of one precedence.
    ordered = [field for _, field in sorted(fields, key=lambda pair: pair[0])]
    yield listed(ordered, _FIELDS, len(ordered)) or f"object of {_counted(len(value), 'field')}"


def _flat(value: Mapping[str, Any], above: str, level: int) -> Iterator[tuple[int, str, Any]]:
    """The values of an object with their level and path, from the outside in."""
    nested: list[tuple[str, Mapping[str, Any]]] = []
    for key, one in value.items():
        name = f"{above}.{line(key, values.VALUE)}".lstrip(".")
        if isinstance(one, dict) and one and level < _LEVELS and not _are_alike(one):
            nested.append((name, one))
        else:
            yield level, name, one
    for name, one in nested:
        yield from _flat(one, name, level + 1)


def _are_alike(value: Mapping[str, Any]) -> bool:
    """Whether what stands under the keys are objects of one kind, so that the keys are data."""
    cells = list(value.values())
    first = cells[0]
    if len(cells) < 2 or not isinstance(first, dict):
        return False
    return all(isinstance(cell, dict) and cell.keys() & first.keys() for cell in cells)


def _several(value: Any) -> str:  # noqa: ANN401 - a tool's JSON
    """Objects of one kind, each by its values; any other list as it is."""
    rows: Sequence[Any] = value
    if isinstance(value, dict):
        rows = [{"": key, **one} if isinstance(one, dict) else one for key, one in value.items()]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return values.value(value, _PART)
    shown = (" ".join(dict.fromkeys(_cells(row))) for row in rows)
    return f"{_counted(len(rows), 'row')} ({listed(shown, _PART)})"


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    """The single values of a row, without those that the one before it says."""
    known = ""
    for one in row.values():
        if isinstance(one, dict | list) or one is None or str(one) in known:
            continue
        known += f" {one}"
        yield values.value(one, values.VALUE)


def _precedence(one: Any, level: int) -> int:  # noqa: ANN401 - a tool's JSON
    """Words and figures of the object itself first, then of what is in it; addresses last."""
    text = str(one)
    if _ADDRESS.search(text) or len(text) > values.VALUE:
        return 4
    if _DATED.search(text):
        return 3
    return 2 if level else 0


def _failure(value: Mapping[str, Any]) -> str:
    """What an object reports as failure, or ""; tools have many ways to report one."""
    reported = _reported(value)
    if reported:
        return reported
    if str(value.get("status")).lower() in _FAILED:
        return _message(value) or str(value["status"])
    if _is_refused(value):
        return _message(value) or "not successful"
    # FastAPI answers like this; beside other fields, `detail` may be anything.
    return _words(value["detail"]) if set(value) == {"detail"} else _exit_code(value)


def _reported(value: Mapping[str, Any]) -> str:
    """What stands in a field of its own for an error; `true` there points to the message."""
    for key in _FAILURES:
        one = value.get(key)
        if _is_failure(one):
            return _message(value) if one is True else _words(one)
    return ""


def _exit_code(value: Mapping[str, Any]) -> str:
    code = next((value[key] for key in _EXIT_CODES if key in value), "0")
    if not isinstance(code, Number) or code == "0":
        return ""
    return f"exit code {code} {_message(value)}".rstrip()


def _is_failure(reported: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    """Whether what stands under `error` is one; a number there is a count or a rate."""
    if not reported or isinstance(reported, Number):
        return False
    return str(reported).lower() not in _NO_FAILURE


def _is_refused(value: Mapping[str, Any]) -> bool:
    refused = value.get("success") is False or value.get("ok") is False
    return refused or value.get("isError") is True  # MCP


def _message(value: Mapping[str, Any]) -> str:
    return next((_words(value[key]) for key in _MESSAGES if value.get(key)), "")


def _words(one: Any) -> str:  # noqa: ANN401 - a tool's JSON
    if isinstance(one, str):
        written = one.strip().splitlines()
        return quoted(written[-1], _PART) if written else ""
    return values.value(one, _PART)


def _inner(value: Any, size: int) -> str | None:  # noqa: ANN401 - a tool's JSON
    """The text that an object or a list of text parts (as MCP has them) is only the wrapping of."""
    parts = value.get("content") if isinstance(value, dict) else value
    if isinstance(parts, list) and parts and all(map(_is_text_part, parts)):
        return "\n".join(part["text"] for part in parts)
    return _longest(value, size) if isinstance(value, dict) else None


def _longest(value: Mapping[str, Any], size: int) -> str | None:
    """The text that is most of an object, whose other fields only describe it."""
    texts = [one for one in value.values() if type(one) is str]  # a `Number` is none
    longest = max(texts, key=len, default="")
    if len(longest) * 10 <= size * 7 and len(value) > 1:
        return None
    # More than a sentence: that would be a field.
    structured = longest.lstrip().startswith(("[", "{"))
    return longest if structured or "\n" in longest else None


def _is_text_part(one: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return isinstance(one, dict) and one.get("type") == "text" and isinstance(one.get("text"), str)


def _introduced(text: str) -> str | None:
    """What one fenced block around the whole text has, or JSON below a line or two of words."""
    if text.startswith("```") and (fenced := _FENCED.fullmatch(text)):
        return fenced[1]
    begins = [at for at in (text.find("\n["), text.find("\n{")) if at >= 0]
    begin = min(begins, default=-1)
    if not 0 < begin < _PART or text[-1] not in "]}":
        return None
    # Words may end with a bracket too, so only what can be parsed counts.
    below = text[begin:]
    return below if isinstance(parsed(below), dict | list) else None


def _of_table(table: Table) -> Iterator[str]:
    yield _counted(len(table.rows), "row")
    yield f"columns: {listed((line(name, values.VALUE) for name in table.names), _PART, 40)}"
    yield from _rare(table)
    for label, row in zip(("first", "last"), [*table.rows[:1], *table.rows[1:][-1:]], strict=False):
        yield f"{label}: {values.row(row, _PART)}"


def _rare(table: Table) -> Iterator[str]:
    """The cells of columns that few rows have: what is special about those."""
    few = max(int(len(table.rows) * _RARE), 1)
    if len(table.rows) <= few:
        return
    shown = 0
    for name in table.names:
        cells = [row[name] for row in table.rows if row.get(name) not in (None, "", [])]
        if 0 < len(cells) <= few and shown < _MOST_RARE:
            shown += 1
            column = listed((values.value(cell) for cell in cells), _PART)
            yield f"{line(name, values.VALUE)}: {column}"


def _of_lines(text: str) -> Outcome:
    """Describes a text without a structure: an error, lines, or words."""
    written = [one for one in text.splitlines() if one.strip()]
    if _BEGINS_WITH_ERROR.match(text) and len(written) <= _TRACE:
        # A traceback says what happened in its last line, any other error in its first.
        words = written[-1] if text.startswith("Traceback") else text
        return Outcome((f"error: {quoted(words, _PART)}",), failed=True)
    if len(text) <= _PART:
        return Outcome((quoted(text, _PART),), failed=bool(_ERROR.match(text)))
    return Outcome(tuple(_of_long_text(text, written)))


def _of_long_text(text: str, written: Sequence[str]) -> Iterator[str]:
    yield f"{_counted(len(written), 'line')} ({len(text)} characters)"
    mentions = [one for one in written if _ERROR.search(one) and not _NO_ERROR.search(one)]
    if mentions:
        yield f"{len(mentions)} mention an error: {_kinds(mentions)}"
    yield f"begins {quoted(text, _PART)}"
    if len(written) > 1:
        yield f"ends {quoted(written[-1], _PART // 2)}"


def _kinds(mentions: Sequence[str]) -> str:
    """The two most frequent kinds of lines; those that differ in numbers only are of one kind."""
    kinds: Counter[str] = Counter()
    firsts: dict[str, str] = {}
    for one in mentions:
        kind = _VARIES.sub("#", one[:400])
        kinds[kind] += 1
        firsts.setdefault(kind, one)
    shown = (
        f"{quoted(firsts[kind], _PART // 2)} × {count}" for kind, count in kinds.most_common(2)
    )
    return "; ".join(shown)


def _unescaped(text: str) -> str:
    """Undoes HTML escaping of a text that was escaped as a whole, perhaps several times."""
    for _ in range(3):
        if not _ESCAPED.search(text) or any(mark in text for mark in '<>"'):
            return text
        text = unescaped(text)
    return text


def _is_binary(text: str) -> bool:
    """Whether control characters stand where no text has so many, or it is base64 of one width."""
    start = text[:4000]
    if len(_ODD.findall(start)) * 10 > len(start):
        return True
    return bool(_BASE64.fullmatch(text)) and len({len(one) for one in text.splitlines()[:-1]}) < 2


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
