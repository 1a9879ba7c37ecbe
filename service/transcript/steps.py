"""Cuts a message into steps, and counts what a message and its steps cost.

A step is an assistant text with its tool calls and all of their results, or one plain text; nothing
ever splits it into a call without its result. Calls that never finished and results without a call
are left out, as Open WebUI does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from service.text import tokens
from service.transcript import parts
from service.transcript.items import (
    Attachment,
    Call,
    CodeRun,
    Item,
    Marker,
    Message,
    Native,
    Step,
    Stored,
    Text,
    ToolCall,
    ToolResult,
)
from service.transcript.native import text_of, unfold

_SPEAKERS = ("user", "assistant")
_LINE_TOKENS = 160  # most that a summariser reads of one call: its line in the ledger
_LINE_CHARACTERS = (
    4_000  # of which a line is made; so much has more tokens than a line, or says nothing
)
_NUMBER_TOKENS, _NUMBERED_TOKENS = 6, 60  # a sentence of so many tokens gets a number of so many


@dataclass
class _Open:
    """The step under construction."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    attachments: list[Attachment] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)

    @property
    def answered(self) -> bool:
        """Results have come, and none is missing."""
        return bool(self.results) and not self.unanswered

    def add(self, item: Item) -> None:
        match item:
            case Text() if item.text.strip():
                self.texts.append(item.text.strip())
            case CodeRun():
                self.texts.append(
                    f"[ran code]\n{_quoted(item.code)}\n[it printed]\n{_quoted(item.output)}"
                )
            case ToolCall():
                self.calls.append(item)
                if item.id not in self.results:
                    self.unanswered.add(item.id)
            case ToolResult():
                self.results[item.call_id] = item
                self.unanswered.discard(item.call_id)
            case Attachment():
                self.attachments.append(item)
            case Marker():
                self.markers.append(item.id)
            case _:
                pass

    def close(self, message: Message) -> Step | None:
        calls = tuple(
            Call(c, self.results[c.id]) for c in self.calls if c.finished and c.id in self.results
        )
        if not (self.texts or calls or self.attachments):
            return None
        return Step(
            message.id,
            message.role,
            "\n".join(self.texts),
            calls,
            tuple(self.attachments),
            message.timestamp,
            tuple(self.markers),
        )


def steps(message: Message) -> list[Step]:
    """The steps of one message, in order.

    An empty or failed answer has none, and neither has what nobody said: messages of a system, a
    developer or a tool that a client put between the others, such as retrieved texts.
    """
    if message.role not in _SPEAKERS:
        return []
    done: list[Step] = []
    current = _Open()
    for item in message.items:
        # A result opens no step; whatever comes after all results does, a call with the id of an
        # earlier one too.
        if current.answered and isinstance(item, Text | CodeRun | ToolCall):
            done += [step] if (step := current.close(message)) else []
            current = _Open()
        current.add(item)
    return done + ([step] if (step := current.close(message)) else [])


def _quoted(text: str) -> str:
    """Code and what it printed are nobody's own words, whatever stands in them."""
    return "\n".join(f"| {line}" for line in text.splitlines())


def native_tokens(stored: Stored) -> int:
    """What the model is sent for this stored message.

    Texts, calls with their arguments, results, images at a flat price. Reasoning is not sent and
    not counted.
    """
    return sent_tokens(unfold([stored]))


def sent_tokens(messages: Iterable[Native]) -> int:
    """What the model is sent for a native list."""
    return sum(_native_tokens(message) for message in messages)


def _native_tokens(message: Native) -> int:
    content = message.get("content")
    rest = (
        sum(parts.tokens_of(p) for p in content if isinstance(p, dict))
        if isinstance(content, list)
        else 0
    )
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    called = "".join(f"{function['name']} {function['arguments']}\n" for function in functions)
    return tokens.MESSAGE_TOKENS + tokens.count(text_of(message) + called) + rest


def asked_tokens(stored: Stored) -> int:
    """What the last model call of an answer was sent of the answer itself: all of it but its last step."""
    native = unfold([stored])
    last = max((place for place, one in enumerate(native) if one["role"] == "assistant"), default=0)
    return sent_tokens(native[:last])


def step_tokens(step: Step) -> int:
    """What a summariser reads for this step: its text, its attachments' names, and of each call a line of the ledger.

    An estimate: the lines and the numbers of sentences are made later.
    """
    told = "\n".join([step.text, *(one.told for one in step.attachments)])
    words = tokens.count(tokens.without_data(told))
    # A number such as `[12.3] ` stands before each of a user's sentences.
    numbers = words * _NUMBER_TOKENS // _NUMBERED_TOKENS if step.role == "user" else 0
    return 2 * tokens.MESSAGE_TOKENS + words + numbers + sum(map(_line_tokens, step.calls))


def _line_tokens(call: Call) -> int:
    whole = (call.call.name, call.call.arguments, call.result.text)
    shown = " ".join(tokens.without_data(part[:_LINE_CHARACTERS]) for part in whole)
    return min(_LINE_TOKENS, tokens.count(shown))
