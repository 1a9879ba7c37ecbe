"""Masks the secrets in tools' arguments, results and code.

The input is a stored message of any of the four formats. The output is a message that parses to the
same steps, with masks in them, and the number of masks. Words of users and assistants, and the
model's thoughts, stay as they are.
"""

from typing import Any

from service.text import redaction
from service.transcript import details
from service.transcript.items import Stored

_WRITTEN = ("message", "reasoning")  # types of output items with the model's own words


def mask_message(stored: Stored) -> tuple[Stored, int]:
    """The message with masked arguments, results and code of tools, and the number of masks."""
    masking = _Masking()
    match stored.get("role"):
        case "assistant":
            new = {name: masking.answer(name, value) for name, value in stored.items()}
        case "tool":
            new = {name: masking.value(name, value) for name, value in stored.items()}
        case _:
            return stored, 0
    return new, masking.count


class _Masking:
    """Masks secrets and counts the masks."""

    def __init__(self) -> None:
        self.count = 0

    def answer(self, name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        """A field of an answer."""
        match name, value:
            case "content", str():
                return details.rewrite_tool_values(value, self.text)
            case "output", list():
                return [self.item(one) for one in value]
            case _:
                return value

    def item(self, item: Any) -> Any:  # noqa: ANN401 - JSON
        """An entry of `output`."""
        if isinstance(item, dict) and item.get("type") in _WRITTEN:
            return item
        return self.value("", item)

    def value(self, name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Any JSON value. `name` is its key, because a password is recognised by its name."""
        match value:
            case str():
                return self.text(value, f"{name}=")
            case list():
                return [self.value(name, one) for one in value]
            case dict():
                return {key: self.value(key, one) for key, one in value.items()}
            case _:
                return value

    def text(self, text: str, head: str = "") -> str:
        """A text, masked as if it stood behind `head`."""
        found = redaction.mask(head + text)
        if not found.count:
            return text
        if not found.text.startswith(head):  # The head itself has a secret.
            found, head = redaction.mask(text), ""
        self.count += found.count
        return found.text.removeprefix(head)
