"""The filters with which templates write values on a page."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup, escape

from service.text.characters import escape_hidden

_CODE: Final = re.compile("`([^`]+)`")
_ITEM: Final = re.compile(r"^(?:- | {4}(?=\w+:))", re.MULTILINE)
"""Where an item of a list begins: after a dash, or with the name of an attribute."""
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def number(value: float) -> str:
    """A number with groups of thousands, as `12,345`."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """A large number in three digits, as `1.2M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.1f}{unit}"
    return f"{value:.0f}"


def moment(value: datetime | None) -> str:
    """Date and time in UTC, to the minute."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M}" if value else ""


def age(value: datetime | float) -> str:
    """The age of a moment, or some seconds, in its largest unit, as `3 min`."""
    if isinstance(value, datetime):
        passed = datetime.now(UTC) - value
        value = passed.total_seconds()
    for size, unit in _AGES:
        if value >= size:
            return f"{value / size:.0f} {unit}"
    return f"{max(value, 0):.0f} s"


def segment(value: object) -> str:
    """A value as one segment of a path: an id may have slashes."""
    return quote(str(value), safe="")


def compact(value: object) -> str:
    """The value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def kind(schema: dict[str, Any]) -> str:
    """The type of an OpenAPI schema in words, as `list of string or null`."""
    if options := schema.get("anyOf"):
        return " or ".join(map(kind, options))
    if values := schema.get("enum"):
        return " or ".join(map(compact, values))
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if places := schema.get("prefixItems"):
        return f"list of {', '.join(map(kind, places))}"
    if items := schema.get("items"):
        return f"list of {kind(items)}"
    return str(schema.get("type", "anything"))


def visible(value: object) -> object:
    """A value with escapes for characters that turn or hide the text around them."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return escape_hidden(value)
    return value


def coded(text: str) -> Markup:
    """A sentence as HTML, which shows text between back-ticks as code."""
    safe = str(escape(escape_hidden(text)))
    return Markup(_CODE.sub(r"<code>\1</code>", safe))  # noqa: S704 - escaped above


def prose(text: str) -> Markup:
    """The Markdown of our descriptions as HTML: paragraphs, lists, and code in back-ticks."""
    parts: list[Markup] = []
    for block in text.split("\n\n"):
        beginning, *items = _ITEM.split(block)
        if beginning.strip():
            parts.append(Markup("<p>{}</p>").format(coded(beginning)))
        if items:
            listed = Markup("")
            for item in items:
                listed += Markup("<li>{}</li>").format(coded(item))
            parts.append(Markup("<ul>{}</ul>").format(listed))
    return Markup("\n").join(parts)


def exact(value: object) -> Markup:
    """A value without such escapes, for fields: a form sends it back."""
    return escape(value)


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "number": number,
    "short": short,
    "moment": moment,
    "age": age,
    "segment": segment,
    "compact": compact,
    "exact": exact,
    "coded": coded,
    "prose": prose,
    "kind": kind,
}
