"""What a reader sees of a dialog's text."""

import html
import re


def shown(text: str) -> str:
    """The text without markup."""
    return html.unescape(re.sub(r"<[^>]*>", "", text))
