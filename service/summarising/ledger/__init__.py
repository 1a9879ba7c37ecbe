"""The ledger of the tool calls that a summary covers, made by rule and never by an LLM. Pure.

`extend` makes entries of steps, and `lines` shows them within some room; `of` and `line` tell one
call, and `called` what was asked.
"""

from service.summarising.ledger.entries import (
    Entry,
    called,
    extend,
    last_number,
    line,
    lines,
    of,
    unread_calls,
)

__all__ = ["Entry", "called", "extend", "last_number", "line", "lines", "of", "unread_calls"]
