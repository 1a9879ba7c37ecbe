"""The ledger of the tool calls that a summary covers, made by rule and never by an LLM. Pure.

`extend` makes entries of steps, `lines` shows them within some room, `line_of` tells one call to a
summariser in the place of its whole result.
"""

from service.summarising.ledger.entries import Entry, extend, unread_calls
from service.summarising.ledger.results import Detail, Part
from service.summarising.ledger.shown import called, line_of, lines
from service.summarising.ledger.used import Field

__all__ = [
    "Detail",
    "Entry",
    "Field",
    "Part",
    "called",
    "extend",
    "line_of",
    "lines",
    "unread_calls",
]
