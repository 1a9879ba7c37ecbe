"""What a tool answered, in words: its size, columns, ranges, errors, the first and the last row.

In: the text of a result, as JSON, a table, log lines, an error, base64 or anything else, perhaps
escaped once or twice. Out: a `Result`, whose parts stand in order of worth. No number in it is
rounded, see `wording` and `ranges`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from service.summarising.ledger import tables, wording
from service.summarising.ledger.ranges import span
from service.summarising.ledger.tables import Table
from service.summarising.ledger.wording import Number, line, listed, parsed, told
from service.text.escapes import unescaped
from service.text.prose import is_prose

SAMPLE = 240  # characters of a row, a line or a message
_RANGES = 300
_COLUMNS = 300
_NAMES = 160  # characters of the names of an object's fields
_PLAIN = 4  # so many plain fields make an object of what has rows too
_PAIRS = 40  # names of log lines that are looked at
_TRACE = 40  # lines that an error message may have
_LAYERS = 4  # a text in a text in a text
_NULLS = {"null", "None", '""', "''", "{}", "[null]"}
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
    r"\A(?:Traceback \(most recent|(?:[\w.]*(?:Error|Exception)|ERROR|FATAL|fatal)\b[^\n:]{0,60}:)"
)
_FAILURES = ("error", "errors", "exception", "fault")
_NO_FAILURE = ("none", "false", "no")
_FAILED = ("error", "failed", "failure", "fail")
_EXIT_CODES = ("exit_code", "returncode", "exitCode")
_MESSAGES = ("message", "detail", "reason", "error_message")
_VARIES = re.compile(r"(?<![0-9a-fA-F])[a-fA-F]*+[0-9][0-9a-fA-F]*+")
_PAIR = re.compile(r"(?<![^\s,;(\[{])([A-Za-z_][\w.-]{0,40})=([^\s,;)\]}]+)")
_ESCAPED = re.compile(r"&(?:quot|#34|lt|gt|amp);")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)\n?```", re.DOTALL)
_DATA = re.compile(r"data:([\w.+-]{1,20}/[\w.+-]{1,40})?[^,\s]{0,40};base64,[A-Za-z0-9+/=_-]{64,}")
_BASE64 = re.compile(
    r"\A(?=[^\n]*[a-z])(?=[^\n]*[A-Z])(?=[^\n]*[0-9])[A-Za-z0-9+/_\r\n-]{200,}={0,2}"
)
_MAGIC = {
    "PNG image": ("iVBORw0KGgo", "\x89PNG", "\ufffdPNG"),
    "JPEG image": ("/9j/",),
    "GIF image": ("R0lGOD", "GIF8"),
    "WebP image": ("UklGR",),
    "PDF": ("JVBERi0", "%PDF-"),
    "ZIP archive": ("UEsDB", "PK\x03\x04"),
    "gzip data": ("H4sI",),
}
"""How a file begins, in base64 and as it is."""
_UNESCAPED_QUOTE = re.compile(r'(?<!\\)"')
_LEVEL = re.compile(r"\A\W*+(?:ERROR|INFO|WARN|WARNING|DEBUG|FATAL)\b")
_ODD = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\ufffd]")
_REPR = re.compile(
    r"""Decimal\('([^'\\]*)'\)|(datetime\.\w+\([\d, ]*\))|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    # An escape outside a string is passed over, which keeps this linear.
    r"""|\b(None|True|False|nan)\b|([()])|(\\.)|,\s*(?=[\])])""",
    re.DOTALL,
)


class Part(StrEnum):
    """What a detail is, by what stands before it."""

    NOTE = ""
    COLUMNS = "columns"
    RANGES = "ranges"
    ERRORS = "errors"
    ALSO = "also"
    BESIDE = "beside"
    FIRST = "first"
    LAST = "last"


FIGURES = (Part.COLUMNS, Part.RANGES, Part.ERRORS, Part.ALSO)
SAMPLES = (Part.FIRST, Part.LAST)


@dataclass(frozen=True, slots=True)
class Detail:
    """What is said of a result besides its outcome."""

    part: Part
    text: str

    def __str__(self) -> str:
        return f"{self.part}: {self.text}" if self.part else self.text


@dataclass(frozen=True, slots=True)
class Result:
    """What a text is said to be.

    Attributes:
        said: the outcome in a few words.
        details: the most valuable first.
        failed: whether it reports an error.
        whole: whether it is one object, which is shown by its fields.
        content: parsed JSON, a table or a text, in which values may be looked for.
    """

    said: str
    details: tuple[Detail, ...] = ()
    failed: bool = False
    whole: bool = False
    content: Any = None

    def also(self, part: Part, text: str, place: int = 2) -> "Result":
        """The same with one more detail, at `place` among the others."""
        details = (*self.details[:place], Detail(part, text), *self.details[place:])
        return replace(self, details=details)


def read(text: str) -> Result:
    """Describes any text; never raises."""
    return _read(text, 0)


def _read(text: str, layer: int) -> Result:
    text = text.lstrip("\ufeff").strip()
    if not text or text in _NULLS:
        return Result("empty result" + (f" ({text})" if text else ""))
    if (data := _binary(text)) is not None:
        return data
    text, inline = _without_data(_unescaped(text))
    found = _structured(text, layer) or _lines(text)
    if not inline:
        return found
    return found.also(Part.NOTE, _counted(inline, "inline file"), len(found.details))


def _structured(text: str, layer: int) -> Result | None:
    """Describes JSON and tables; None for any other text."""
    value = _value(text)
    if isinstance(value, str) and not isinstance(value, Number):
        return _read(value, layer + 1) if layer < _LAYERS else None
    if isinstance(value, dict | list):
        return _of_json(value, text, layer)
    inner = _introduced(text) if layer < _LAYERS else None
    if inner is not None:
        return _read(inner, layer + 1)
    if table := tables.in_text(text):
        return _of_table(table)
    if table := tables.cut_off(text):
        found = _of_table(table)
        return replace(found, said=f"{found.said} before it breaks off")
    return None


def _value(text: str) -> Any:  # noqa: ANN401 - a tool's JSON
    """The JSON value that a text is: plain, as a string with JSON in it, or as Python prints it."""
    if text[0] not in '[{"(':
        return None
    value = parsed(text)
    if value is None and text.startswith(('[{\\"', '{\\"', '[\\"')):
        value = parsed(parsed(f'"{text}"') or "")
    if value is None and _may_be_repr(text):
        value = parsed(_REPR.sub(_as_json, text))
    return value


def _may_be_repr(text: str) -> bool:
    return text[0] in "[({" and any(mark in text for mark in ("'", "None", "("))


def _as_json(match: re.Match[str]) -> str:
    """A token of Python's repr as one of JSON."""
    number, moment, string, word, bracket, stray = match.groups()
    if string:
        return _string_as_json(string)
    if word:
        return {"None": "null", "True": "true", "False": "false"}.get(word, "null")
    if bracket:
        return "[" if bracket == "(" else "]"
    if moment and not number:
        return f'"{moment}"'
    return number or stray or ""


def _string_as_json(string: str) -> str:
    if string.startswith('"'):
        return string
    inner = _UNESCAPED_QUOTE.sub(r"\"", string[1:-1].replace("\\'", "'"))
    return '"' + inner.replace("\\x", "\\u00") + '"'


def _introduced(text: str) -> str | None:
    """What one fenced block around the whole text has, or JSON below a line or two of words."""
    if text.startswith("```") and (fenced := _FENCED.fullmatch(text)):
        return fenced[1]
    begins = [at for at in (text.find("\n["), text.find("\n{")) if at >= 0]
    begin = min(begins, default=-1)
    if not 0 < begin < SAMPLE or text[-1] not in "]}" or text[0] in "[{":
        return None
    # Words may end with a bracket too, so only what can be parsed counts.
    below = text[begin:]
    return below if isinstance(parsed(below), dict | list) else None


def _of_json(value: dict[str, Any] | list[Any], text: str, layer: int) -> Result:
    if not value:
        return Result("0 items" if isinstance(value, list) else "empty result ({})")
    failure = _failure(value) if isinstance(value, dict) else ""
    inner = _inner(value, len(text)) if layer < _LAYERS else None
    if inner is not None:
        return _marked(_unwrapped(value, inner, layer), failure)
    found = tables.in_value(value)
    if isinstance(value, dict) and _is_object(found, len(text)):
        return _of_object(value, failure, len(text))
    return _of_rows(value, found, failure)


def _of_rows(value: Any, found: tables.Found, failure: str) -> Result:  # noqa: ANN401
    # Rows below an error are what it is about, and no result.
    if failure and found.path.startswith("error"):
        return _of_failure(failure, value)
    result = _of_table(found.table, _beside(found)) if found.table else Result("")
    return _marked(replace(result, content=value), failure)


def _of_failure(failure: str, value: Any) -> Result:  # noqa: ANN401 - a tool's JSON
    return Result(f"error: {failure}", failed=True, content=value)


def _of_object(value: Mapping[str, Any], failure: str, size: int) -> Result:
    """An object with fields of its own, of which rows may be one."""
    if failure:
        return _of_failure(failure, value)
    shown = wording.whole(value, SAMPLE) if size <= SAMPLE else ""
    if shown:
        return Result(shown, content=value)
    return Result(f"object of {_counted(len(value), 'field')}", whole=True, content=value)


def _is_object(found: tables.Found, size: int) -> bool:
    """Whether rows are one part of an object among others, rather than what it was made for."""
    if not found.table:
        return True
    plain, rows = len(found.beside), len(found.table.rows)
    if found.table.what == "items":
        return size <= SAMPLE or rows <= 2 * plain
    return plain >= _PLAIN and rows <= 2 * plain


def _marked(result: Result, failure: str) -> Result:
    """A result that came together with a failure."""
    if not failure or result.failed:
        return result
    return result.also(Part.NOTE, f"error: {failure}", 1)


def _failure(value: Mapping[str, Any]) -> str:
    """What an object reports as failure, or ""; tools have many ways to report one."""
    for key in _FAILURES:
        one = value.get(key)
        if _is_failure(one):
            return _message(value) if one is True else _told(one)
    status = str(value.get("status"))
    if status.lower() in _FAILED:
        return _message(value) or status
    if _is_unsuccessful(value):
        return _message(value) or "not successful"
    if exited := _exit(value):
        return exited
    # FastAPI answers like this; beside other fields, `detail` may be anything.
    return _told(value["detail"]) if set(value) == {"detail"} else ""


def _is_failure(one: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    """Whether what stands under `error` is one; a number there is a count or a rate."""
    return bool(one) and not isinstance(one, Number) and str(one).lower() not in _NO_FAILURE


def _is_unsuccessful(value: Mapping[str, Any]) -> bool:
    refused = value.get("success") is False or value.get("ok") is False
    return refused or value.get("isError") is True  # MCP


def _exit(value: Mapping[str, Any]) -> str:
    """The exit code of a command that failed, with its last words; "" of any other object."""
    code = next((value[key] for key in _EXIT_CODES if key in value), None)
    if not isinstance(code, Number) or code == "0":
        return ""
    said = f"exit code {wording.value(code)}"
    written = str(value.get("stderr") or "").strip().splitlines()
    return f"{said}: {told(written[-1], SAMPLE, wording.FAILURE)}" if written else said


def _message(value: Mapping[str, Any]) -> str:
    return next((_told(value[key]) for key in _MESSAGES if value.get(key)), "")


def _told(one: Any) -> str:  # noqa: ANN401 - a tool's JSON
    """A failure in words, whatever it is written as."""
    if isinstance(one, str):
        return told(one, SAMPLE, wording.FAILURE)
    if isinstance(one, list):
        several = f" ({len(one)} errors)" if len(one) > 2 else ""
        return wording.array(one, SAMPLE) + several
    return wording.row(one, SAMPLE) if isinstance(one, dict) else wording.value(one)


def _inner(value: dict[str, Any] | list[Any], size: int) -> str | None:
    """The text that an object or a list of text parts (as MCP has them) is only the wrapping of."""
    joined = _joined_parts(value.get("content") if isinstance(value, dict) else value)
    if joined is not None:
        return joined
    if not isinstance(value, dict):
        return None
    longest = _longest_text(value)
    structured = longest.lstrip().startswith(("[", "{"))
    if structured and len(value) == 1:
        return longest
    # Most of the object, and more than a sentence: the other fields only describe it.
    most = len(longest) * 10 > size * 7
    return longest if most and (structured or "\n" in longest) else None


def _joined_parts(parts: Any) -> str | None:  # noqa: ANN401 - a tool's JSON
    """The text of a list of nothing but text parts."""
    if not isinstance(parts, list) or not parts:
        return None
    texts = [one.get("text") for one in parts if _is_text_part(one)]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        return None
    return "\n".join(map(str, texts))


def _is_text_part(one: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return isinstance(one, dict) and one.get("type") == "text"


def _longest_text(value: Mapping[str, Any]) -> str:
    texts = [one for one in value.values() if isinstance(one, str) and not isinstance(one, Number)]
    return max(texts, key=len, default="")


def _unwrapped(value: dict[str, Any] | list[Any], inner: str, layer: int) -> Result:
    result = _read(inner, layer + 1)
    if not isinstance(value, dict):
        return result
    single = {key: one for key, one in value.items() if not isinstance(one, dict | list)}
    beside = {key: one for key, one in single.items() if one is not inner}
    return result.also(Part.BESIDE, wording.row(beside, SAMPLE)) if beside else result


def _beside(found: tables.Found) -> str:
    """What stood beside the rows, in words: single values, and other tables by their size."""
    values = [wording.row(found.beside, SAMPLE)] if found.beside else []
    others = (f"{wording.name(name)}: {_counted(count, 'row')}" for name, count in found.others)
    return listed([*values, *others], SAMPLE)


def _of_table(table: Table, beside: str = "") -> Result:
    said = _counted(len(table.rows), table.what.removesuffix("s"))
    others = [Detail(Part.BESIDE, beside)] if beside else []
    if table.what == "items":
        columns = []
        ends = [wording.value(row[0], SAMPLE) for row in _ends(table.rows)]
    else:
        columns = [Detail(Part.COLUMNS, wording.names(table.names, _COLUMNS))]
        places = _ends(range(len(table.rows)))
        ends = [wording.row(table.row(place), SAMPLE) for place in places]
    samples = map(Detail, SAMPLES, ends)
    return Result(said, (*columns, *_figures(table), *others, *samples), content=table)


def _figures(table: Table) -> list[Detail]:
    """Ranges and sums of all columns that have some."""
    said = _spans(table.columns())
    return [Detail(Part.RANGES, said)] if said else []


def _spans(columns: Iterable[tuple[str, Sequence[Any]]]) -> str:
    """`name range` of each column with a range, as many as fit."""
    spans = ((name, span(cells, name)) for name, cells in columns)
    said = (f"{wording.name(name)} {found}".lstrip() for name, found in spans if found)
    return listed(said, _RANGES)


def _ends(rows: Sequence[Any]) -> list[Any]:
    """The first and the last."""
    return [*rows[:1], *rows[1:][-1:]]


def _lines(text: str) -> Result:
    """Describes a text without a structure: an error, lines, or words."""
    lines = [one for one in text.splitlines() if one.strip()]
    if not lines:
        return Result(f"{len(text)} blank characters")
    if _is_trace(text, lines):
        return _of_trace(text, lines)
    if len(text) > SAMPLE and len(lines) > 1:
        return _of_lines(text, lines)
    return _of_words(text)


def _of_words(text: str) -> Result:
    shown = told(text, SAMPLE)
    size = f"{len(text)} characters"
    failed = bool(_ERROR.match(text))
    if shown == '""':  # all of it is invisible
        return Result(f"{size} that show nothing", failed=failed, content=text)
    if len(text) <= SAMPLE or is_prose(text):
        return Result(shown, failed=failed, content=text)
    # A text that cannot be cut is shown by its size alone, which need not be said twice.
    begins = () if f"[{size}]" in shown else (Detail(Part.FIRST, shown),)
    return Result(size, begins, failed, content=text)


def _is_trace(text: str, lines: Sequence[str]) -> bool:
    """Whether a text is one error message, rather than a log that begins with one."""
    few = len(lines) <= _TRACE or text.startswith("Traceback")
    return few and bool(_BEGINS_WITH_ERROR.match(text)) and not _is_log(lines)


def _is_log(lines: Sequence[str]) -> bool:
    """Several lines begin with a level."""
    return sum(bool(_LEVEL.match(one)) for one in lines[:20]) > 1


def _of_trace(text: str, lines: Sequence[str]) -> Result:
    """A traceback says what happened in its last line, any other error in its first."""
    trace = text.startswith("Traceback")
    said = told(lines[-1] if trace else text, SAMPLE, wording.FAILURE)
    if not trace or len(lines) == 1:
        return Result(said, failed=True, content=text)
    note = Detail(Part.NOTE, f"traceback of {len(lines)} lines")
    return Result(f"error: {said}", (note,), failed=True, content=text)


def _of_lines(text: str, lines: Sequence[str]) -> Result:
    mentions = [one for one in lines if _ERROR.search(one) and not _NO_ERROR.search(one)]
    said = f"{_counted(len(lines), 'line')} ({len(text)} characters)"
    details: list[Detail] = []
    if mentions:
        said += f", {len(mentions)} mention an error"
        details.append(Detail(Part.ERRORS, _messages(mentions, 2, SAMPLE // 2)))
    details += _data_in(text, lines)
    details.append(Detail(Part.FIRST, told(lines[0], SAMPLE // 2)))
    details.append(Detail(Part.LAST, told(lines[-1], SAMPLE // 2)))
    return Result(said, tuple(details), content=text)


def _data_in(text: str, lines: Sequence[str]) -> list[Detail]:
    """The first table in a text, or else the ranges of the `name=number` in its lines."""
    table = tables.within(text)
    if table:
        note = Detail(Part.NOTE, f"a table of {_counted(len(table.rows), 'row')}")
        # Columns and ranges; its first and last row would be one sample more of the text.
        return [note, *_of_table(table).details[:2]]
    ranges = _pairs(lines)
    return [Detail(Part.RANGES, ranges)] if ranges else []


def _messages(mentions: Sequence[str], most: int, room: int) -> str:
    """The most frequent kinds of lines, each with its first line.

    Lines that differ in numbers only are of one kind.
    """
    kinds: Counter[str] = Counter()
    firsts: dict[str, str] = {}
    for one in mentions:
        kind = _VARIES.sub("#", one[:400])
        kinds[kind] += 1
        firsts.setdefault(kind, one)
    shown = [(told(firsts[kind], room), count) for kind, count in kinds.most_common(most)]
    said = (f"{one} × {count}" if count > 1 else one for one, count in shown)
    return "; ".join(said) + ("; …" if len(kinds) > most else "")


def _pairs(lines: Sequence[str]) -> str:
    """Ranges of the `name=number` of log lines."""
    cells: dict[str, list[str]] = {}
    for one in lines:
        pairs = _PAIR.findall(one[:2000]) if "=" in one else []
        for name, figure in pairs:
            if name in cells or len(cells) < _PAIRS:
                cells.setdefault(name, []).append(figure)
    # What few lines have is no column of the log.
    return _spans((name, found) for name, found in cells.items() if len(found) * 2 >= len(lines))


def _unescaped(text: str) -> str:
    """Undoes HTML escaping of a text that was escaped as a whole.

    Then nothing in it needs escaping any more. Proxies may have escaped it several times.
    """
    for _ in range(3):
        if not _ESCAPED.search(text) or any(mark in text for mark in '<>"'):
            return text
        text = unescaped(text)
    return text


def _without_data(text: str) -> tuple[str, int]:
    """A text without its inline files, and how many it had."""
    if ";base64," not in text:  # saves a search of every text
        return text, 0
    return _DATA.subn(lambda match: f"[{match[1] or 'file'}]", text)


def _binary(text: str) -> Result | None:
    """Describes what is no text, by what it begins with."""
    kind = _kind_of_file(text)
    size = f"{len(text)} characters"
    if _is_odd(text[:4000], bool(kind)):
        return Result(f"binary data ({kind or 'unknown'}, {size})")
    if match := _DATA.fullmatch(text):
        return Result(f"inline file ({line(match[1] or 'unknown', wording.VALUE)}, {size})")
    # Base64 is wrapped at one width, unlike a list of ids.
    if _BASE64.fullmatch(text) and len({len(one) for one in text.splitlines()[:-1]}) < 2:
        return Result(f"base64 data ({kind or 'unknown'}, {size})")
    return None


def _kind_of_file(text: str) -> str:
    return next((name for name, begins in _MAGIC.items() if text.startswith(begins)), "")


def _is_odd(start: str, known: bool) -> bool:
    """Whether control characters stand where no text has so many; a known kind needs one only."""
    odd = len(_ODD.findall(start))
    return odd > 0 if known else odd * 10 > len(start)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
