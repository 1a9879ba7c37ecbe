"""Cuts a message into steps, and counts what a message and its steps cost.

A step is an assistant text with its tool calls and all of their results, or one plain text; nothing
ever splits it into a call without its result. Calls that never finished and results without a call
are left out, as Open WebUI does.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from service.text import tokens
from service.transcript import parts
from service.transcript.items import (
    Attachment,
    Call,
    CodeRun,
    Item,
    Message,
    Native,
    Step,
    Stored,
    Text,
    ToolCall,
    ToolResult,
)
from service.transcript.native import calls_of, text_of, unfold

_SPEAKERS = ("user", "assistant")  # what all others wrote was put in by a client, not said
RESULT_TOKENS = 400
"""A result of at most so many is read whole by a summariser."""
_CALL_TOKENS = RESULT_TOKENS + 120  # most that it reads of one call: its line, and its beginning
# Characters that are counted: so many have more tokens than are read, or say nothing.
_CALL_CHARACTERS = 6_000
# A number such as `[12.3] ` costs 6 tokens and stands before each sentence, of 30 in the mean.
_NUMBER_TOKENS, _NUMBERED_TOKENS = 6, 30


@dataclass
class _Open:
    """The step under construction."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    attachments: list[Attachment] = field(default_factory=list)
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
                self.texts.append(_ran(item))
            case ToolCall():
                self._add_call(item)
            case ToolResult():
                self._add_result(item)
            case Attachment():
                self.attachments.append(item)
            case _:
                pass

    def _add_call(self, call: ToolCall) -> None:
        self.calls.append(call)
        if call.id not in self.results:  # a result may stand before its call
            self.unanswered.add(call.id)

    def _add_result(self, result: ToolResult) -> None:
        self.results[result.call_id] = result
        self.unanswered.discard(result.call_id)

    def close(self, message: Message) -> Step | None:
        """The step; None when nothing stands in it."""
        # Open WebUI sends no call that is not finished, so no summary may claim one.
        finished = (call for call in self.calls if call.finished and call.id in self.results)
        calls = tuple(Call(call, self.results[call.id]) for call in finished)
        if not (self.texts or calls or self.attachments):
            return None
        return Step(
            message.id,
            message.role,
            "\n".join(self.texts),
            calls,
            tuple(self.attachments),
            message.timestamp,
        )


def steps(message: Message) -> list[Step]:
    """The steps of one message, in order.

    An empty or failed answer has none, and neither has what nobody said: messages of a system, a
    developer or a tool that a client put between the others, such as retrieved texts.
    """
    if message.role not in _SPEAKERS:
        return []
    closed: list[Step | None] = []
    current = _Open()
    for item in message.items:
        # A result opens no step; whatever comes after all results does, a call with the id of an
        # earlier one too.
        if current.answered and isinstance(item, Text | CodeRun | ToolCall):
            closed.append(current.close(message))
            current = _Open()
        current.add(item)
    closed.append(current.close(message))
    return [step for step in closed if step]


def _ran(run: CodeRun) -> str:
    return f"[ran code]\n{_quoted(run.code)}\n[it printed]\n{_quoted(run.output)}"


def _quoted(text: str) -> str:
    """Text with a bar before each line, which marks code: nobody's own words (`text.blocks`)."""
    return "\n".join(f"| {line}" for line in text.splitlines())


def native_tokens(stored: Stored, count: Callable[[str], int] = tokens.count) -> int:
    """What the model is sent for this stored message.

    Texts, calls with their arguments, results, images at a flat price. Reasoning is not sent and
    not counted.
    """
    return sent_tokens(unfold([stored]), count)


def sent_tokens(messages: Iterable[Native], count: Callable[[str], int] = tokens.count) -> int:
    """What the model is sent for a native list."""
    sent = 0
    for message in messages:
        calls = calls_of(message)
        called = "".join(f"{call.get('name')} {call.get('arguments')}\n" for _, call in calls)
        sent += tokens.MESSAGE_TOKENS + count(text_of(message) + called)
        sent += _other_parts_tokens(message.get("content"))
    return sent


def _other_parts_tokens(content: object) -> int:
    if not isinstance(content, list):
        return 0
    return sum(parts.tokens_of(part) for part in content if isinstance(part, dict))


def step_tokens(step: Step, count: Callable[[str], int] = tokens.count) -> int:
    """What a summariser reads for this step.

    Its text, the names of its attachments, and each call with its result, as far as it is shown. An
    estimate: what is shown and the numbers of sentences are made later.
    """
    shown = "\n".join([step.text, *(attachment.told for attachment in step.attachments)])
    words = count(tokens.drop_data(shown))
    numbers = words * _NUMBER_TOKENS // _NUMBERED_TOKENS
    return 2 * tokens.MESSAGE_TOKENS + words + numbers + sum(map(_call_tokens, step.calls))


def _call_tokens(call: Call) -> int:
    """An estimate of what is read of a call."""
    whole = (call.call.name, call.call.arguments, call.result.text)
    shown = " ".join(tokens.drop_data(part[:_CALL_CHARACTERS]) for part in whole)
    return min(_CALL_TOKENS, tokens.count(shown))
