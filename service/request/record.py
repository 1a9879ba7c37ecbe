"""How a summary stands in a request, and what the status line says of it. Pure.

A summary is a record in a user's place, which the model answers with one line. It is no system
message: that would give weight to whatever stands in it.
"""

import re
from collections.abc import Sequence

from service.summarising.message import BEGINS, NOTED
from service.transcript import Native, text_of

OFFERED = 'Older text and full tool results: precis_recall(query="…") or precis_recall(ref="T12").'
_MOST_BEFORE = 16  # messages that stay in front of a summary: another filter's, or two turns
# How Open WebUI's own compaction puts a summary into a system message, behind the prompt if there
# is one.
_OWN_COMPACTION = re.compile(r"^\[CONVERSATION SUMMARY\]\n", re.MULTILINE)


def inserted(summary: str, *, recall: bool) -> list[Native]:
    """The messages of a summary; with `recall` it says how to look up more."""
    if recall:
        said, _, end = summary.rpartition("\n\n")
        summary = f"{said}\n\n{OFFERED}\n\n{end}"
    return [{"role": "user", "content": summary}, {"role": "assistant", "content": NOTED}]


def is_inserted(messages: Sequence[Native]) -> bool:
    """Whether these two messages are a summary and what the model says to it."""
    if [one.get("role") for one in messages] != ["user", "assistant"]:
        return False
    return text_of(messages[0]).startswith(BEGINS) and text_of(messages[1]) == NOTED


def place_of(messages: Sequence[Native], head: int) -> int | None:
    """The place of a summary near the beginning of a request; None where there is none.

    Args:
        messages: the request.
        head: how many system messages it begins with.
    """
    places = range(head, min(head + _MOST_BEFORE, len(messages) - 1) + 1)
    return next((place for place in places if is_inserted(messages[place : place + 2])), None)


def mentions_compaction(head: Sequence[Native]) -> bool:
    """Whether a system message has the mark of Open WebUI's own compaction."""
    return any(_OWN_COMPACTION.search(text_of(message)) for message in head)


def summarised(messages: int, before: int, after: int, by: str = "") -> str:
    """The status line of a request with a summary.

    `before` and `after` are tokens; `by` says who wrote it where that is to be known.
    """
    told = f"Summarised {messages} earlier messages{by}"
    for digits in (0, 1):
        whole, sent = (f"{size / 1000:.{digits}f}k" for size in (before, after))
        if whole != sent:
            return f"{told}: {whole} → {sent} tokens"
    return told
