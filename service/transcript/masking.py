"""Masks the secrets in tools' arguments, results and code.

The input is a stored message of any of the four formats. The output is a message that parses to the
same steps, with masks in them. What users and assistants said and thought stays as it is.
"""

from typing import Any

from service.text import redaction
from service.transcript import details
from service.transcript.items import Stored

_WRITTEN = ("message", "reasoning")  # types of output items with the model's own words


def mask_message(stored: Stored) -> Stored:
    """The message with masked arguments, results and code of tools."""
    match stored.get("role"):
        case "assistant":
            return {name: _mask_field(name, value) for name, value in stored.items()}
        case "tool":
            return {name: _mask_value(name, value) for name, value in stored.items()}
        case _:
            return stored


def _mask_field(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    """A field of an answer."""
    match name, value:
        case "content", str():
            return details.rewrite_tool_values(value, _mask_text)
        case "output", list():
            return [_mask_item(one) for one in value]
        case _:
            return value


def _mask_item(item: Any) -> Any:  # noqa: ANN401 - JSON
    """An entry of `output`."""
    if isinstance(item, dict) and item.get("type") in _WRITTEN:
        return item
    return _mask_value("", item)


def _mask_value(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Any JSON value. `name` is its key, because a password is recognised by its name."""
    match value:
        case str():
            return _mask_text(value, f"{name}=")
        case list():
            return [_mask_value(name, one) for one in value]
        case dict():
            return {key: _mask_value(key, one) for key, one in value.items()}
        case _:
            return value


def _mask_text(text: str, head: str = "") -> str:
    """A text, masked as if it stood behind `head`."""
    found = redaction.mask(head + text)
    if not found.count:
        return text
    if not found.text.startswith(head):  # The head itself has a secret.
        return redaction.mask(text).text
    return found.text.removeprefix(head)
