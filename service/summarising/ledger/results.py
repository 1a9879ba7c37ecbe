"""What a tool answered, in a few parts of a line: its size, first rows, fields, errors. Pure.

In: the text of a result, as JSON, an error or anything else. Out: an `Outcome`, whose parts stand
in order of worth. All else of a result is looked up when it is needed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.summarising.ledger import values
from service.summarising.ledger.values import Number, parsed, quoted
from service.text import tokens
from service.text.sentences import reports_failure

_PART = 240  # characters of a part
_FIELDS = 420  # of the fields of an object
_LAYERS = 4  # a text in a text in a text
_TRACE = 40  # lines that an error message may have
_EMPTY = ("", "null", "None", "{}", "[]")
_BEGINS_WITH_ERROR = re.compile(
    r"\A(?:Traceback \(most recent|(?:[\w.]*(?:Error|Exception)|ERROR|FATAL|fatal)\b[^\n:]{0,60}:)",
    re.IGNORECASE,
)
_FAILURES = ("error", "errors", "exception", "fault")
_NO_FAILURE = ("none", "false", "no", "0")
_FAILED = ("error", "failed", "failure", "fail")
_EXIT_CODES = ("exit_code", "returncode", "exitCode")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a text is said to be: parts of a line, the first in any case; and if it is an error."""

    parts: tuple[str, ...]
    failed: bool = False


def read(text: str) -> Outcome:
    """Describes any text; never raises."""
    text = tokens.without_data(text).strip()
    value = _unwrapped(text)
    if text in _EMPTY or value in _EMPTY:
        return Outcome(("empty result",))
    if isinstance(value, dict):
        return Outcome((values.fields(value, _FIELDS),), _failed(value))
    if isinstance(value, list):
        return Outcome((_counted(len(value), "item"), values.value(value, _PART)))
    return _of_text(value if isinstance(value, str) else text)


def _unwrapped(text: str) -> Any:  # noqa: ANN401 - a tool's JSON
    """The value of a text; of a text within a text, or within the parts of MCP, the innermost."""
    value: Any = text
    for _ in range(_LAYERS):
        inner = _text_of(value)
        if inner is None:
            return value
        value = parsed(inner)
        if value is None:
            return inner.strip()
    return value


def _text_of(value: Any) -> str | None:  # noqa: ANN401 - a tool's JSON
    """The text that a value only wraps; None for a value of its own."""
    if isinstance(value, str):
        return None if isinstance(value, Number) else value
    if isinstance(value, dict) and not value.get("isError"):
        value = value.get("content")
    if isinstance(value, list) and value and all(map(_is_text_part, value)):
        return "\n".join(part["text"] for part in value)
    return None


def _is_text_part(one: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return isinstance(one, dict) and one.get("type") == "text" and isinstance(one.get("text"), str)


def _failed(value: Mapping[str, Any]) -> bool:
    """Whether an object reports a failure; tools have many ways to report one."""
    if any(_is_failure(value.get(key)) for key in _FAILURES) or value.get("isError") is True:
        return True
    if value.get("success") is False or value.get("ok") is False:
        return True
    code = next((value[key] for key in _EXIT_CODES if key in value), "0")
    return str(value.get("status")).lower() in _FAILED or (isinstance(code, Number) and code != "0")


def _is_failure(reported: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    """Whether what stands under `error` is one; a number there is a count or a rate."""
    if not reported or isinstance(reported, Number):
        return False
    return str(reported).lower() not in _NO_FAILURE


def _of_text(text: str) -> Outcome:
    """Describes a text without a structure: an error, lines, or words."""
    written = [one for one in text.splitlines() if one.strip()]
    if _BEGINS_WITH_ERROR.match(text) and len(written) <= _TRACE:
        # A traceback says what happened in its last line, any other error in its first.
        words = written[-1] if text.startswith("Traceback") else text
        return Outcome((f"error: {quoted(words, _PART)}",), failed=True)
    if len(text) <= _PART:
        return Outcome((quoted(text, _PART),))
    return Outcome(tuple(_of_long_text(text, written)))


def _of_long_text(text: str, written: Sequence[str]) -> Iterator[str]:
    yield f"{_counted(len(written), 'line')} ({len(text)} characters)"
    mentions = [one for one in written if reports_failure(one)]
    if mentions:
        yield f"{len(mentions)} mention an error: {quoted(mentions[0], _PART // 2)}"
    yield f"begins {quoted(text, _PART)}"
    if len(written) > 1:
        yield f"ends {quoted(written[-1], _PART // 2)}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
