"""The publish gate: whether a summariser's reply may become a summary.

Pure. A rejected reply is never stored as a summary; the previous checkpoint keeps serving, and the reason is
recorded with the run.
"""

import re
from dataclasses import dataclass

from service import tokens
from service.summarising.reading import Finish, Reply

_REASONING = re.compile(r"</?(?:think|thinking|reasoning|thought)\b|<\|(?:channel|start)\|>|◁think▷", re.IGNORECASE)
_PROTOCOL = re.compile(
    r"<[|｜]?/?(?:tool_calls?(?:_\w+)?|function_calls?|tool_response|invoke|tool▁)\b|<function=|\[TOOL_CALLS\]|"
    r'^\s*\{\s*"(?:tool_calls|function_call|name"\s*:\s*"[^"]*",\s*"(?:arguments|parameters))\b',
    re.IGNORECASE | re.MULTILINE,
)
_SLACK = 5 / 4  # a model cannot count its own tokens exactly


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is empty when the reply may be published."""

    reason: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the reply may be published."""
        return not self.reason


def judge(reply: Reply, *, limit: int, size: int, replaced: int) -> Verdict:
    """Whether `reply` finished normally, says something, is neither reasoning nor tool protocol, and saves tokens.

    Args:
        reply: what the summariser wrote.
        limit: bound on the narrative, in tokens.
        size: tokens of the summary message that it would make.
        replaced: tokens of what that message would stand for: everything that it covers.
    """
    text = reply.text.strip()
    if not text:
        return Verdict("empty answer")
    if reply.finish is Finish.LENGTH:
        return Verdict("cut off: the summariser reached its output limit")
    if reply.finish is not Finish.STOP:
        return Verdict("not finished normally")
    if _REASONING.search(text):
        return Verdict("contains reasoning")
    if _PROTOCOL.search(text):
        return Verdict("contains tool protocol")
    written = tokens.count(text)
    if written > limit * _SLACK:
        return Verdict(f"too long: {written} tokens where {limit} were asked for")
    if size >= replaced:
        return Verdict(f"not smaller than what it replaces: {size} tokens for {replaced}")
    return Verdict()
