"""HTML escapes of a text. Pure."""

import re
from html import unescape

_ZEROS = re.compile(r"&#0++(?=[0-9])")
# No character has so many digits, and Python refuses to read thousands of them as a number.
_ENDLESS = re.compile(r"&(?=#[0-9]{20})")


def unescape_html(text: str) -> str:
    """Replaces HTML escapes by their characters, as a browser does. Never raises."""
    if "&" not in text:
        return text
    return unescape(_ENDLESS.sub("&amp;", _ZEROS.sub("&#", text)))
