"""How much of a request begins like the one before it: a provider charges a tenth for that, a local server reads none.

In: the messages of two requests. Out: a `Beginning`. Tool specifications are left out: they are always the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from service.summarising.message import BEGINS
from service.text import tokens
from tests.e2e.model import plain

_OWN = "[CONVERSATION SUMMARY]"  # Open WebUI's own compaction begins with it, behind the system prompt

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a request has of the one before.

    Attributes:
        share: of its tokens, those up to the first difference.
        is_new: whether it has another summary.
    """

    share: float
    is_new: bool


def measure_beginning(before: Sequence[Message], after: Sequence[Message]) -> Beginning:
    """How much of `after` begins like `before`."""
    earlier, text = _text(before), _text(after)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(earlier, text, strict=False)))
    share = tokens.count(text[:same]) / max(tokens.count(text), 1)
    return Beginning(share, _summary(before) != _summary(after))


def _text(messages: Sequence[Message]) -> str:
    """All that a model reads of messages, in its order."""
    parts = []
    for message in messages:
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        parts.append(f"{message['role']}\n{plain(message.get('content'))}\n{json.dumps(calls)}")
    return "\n".join(parts)


def _summary(messages: Sequence[Message]) -> str:
    """The summary in a request; "" where there is none."""
    for message in messages:
        text = plain(message.get("content"))
        if text.startswith(BEGINS):
            return text
        if _OWN in text:
            return text.partition(_OWN)[2]
    return ""
