"""Puts a summary into a request, and describes it for the status line. Pure.

A summary is a record in a user's place, which the model answers with one line. It is no system
message, because that would give weight to whatever the record says.
"""

import re
from collections.abc import Sequence

from service.summarising.message import BEGINS, NOTED
from service.transcript import Native, read_text

OFFERED = 'Older text and full tool results: precis_recall(query="…") or precis_recall(ref="T12").'
_MOST_BEFORE = 16  # messages that may stand in front of a summary: another filter's, or two turns
# How Open WebUI's own compaction puts a summary into a system message, behind the prompt if there
# is one.
_OWN_COMPACTION = re.compile(r"^\[CONVERSATION SUMMARY\]\n", re.MULTILINE)


def make_record_messages(summary: str, *, recall: bool) -> list[Native]:
    """The messages of a summary. With `recall` it tells the model how to look up more."""
    if recall:
        body, _, last_line = summary.rpartition("\n\n")
        summary = f"{body}\n\n{OFFERED}\n\n{last_line}"
    return [{"role": "user", "content": summary}, {"role": "assistant", "content": NOTED}]


def is_record(messages: Sequence[Native]) -> bool:
    """Whether these two messages are a summary and the model's line after it."""
    if [one.get("role") for one in messages] != ["user", "assistant"]:
        return False
    return read_text(messages[0]).startswith(BEGINS) and read_text(messages[1]) == NOTED


def find_record(messages: Sequence[Native], head: int) -> int | None:
    """The place of a summary near the beginning of a request; None if there is none.

    Args:
        messages: the request.
        head: number of system messages at its beginning.
    """
    for place in range(head, head + _MOST_BEFORE + 1):
        if is_record(messages[place : place + 2]):
            return place
    return None


def mentions_compaction(head: Sequence[Native]) -> bool:
    """Whether a system message has the mark of Open WebUI's own compaction."""
    return any(_OWN_COMPACTION.search(read_text(message)) for message in head)


def describe_summary(messages: int, before: int, after: int, by: str = "") -> str:
    """The status line of a request with a summary.

    Args:
        messages: number of messages that the summary covers.
        before: tokens of the request without it.
        after: tokens of the request with it.
        by: who wrote it, if the user should know.
    """
    line = f"Summarised {messages} earlier messages{by}"
    for digits in (0, 1):
        whole = f"{before / 1000:.{digits}f}k"
        sent = f"{after / 1000:.{digits}f}k"
        if whole != sent:
            return f"{line}: {whole} → {sent} tokens"
    return line
