"""Cuts a message into steps, and counts the tokens of a message and its steps.

A step is an assistant text with its tool calls and all of their results, or one plain text. Nothing
ever separates a call from its result. Unfinished calls and results without a call are left out, as
Open WebUI does.
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
from service.transcript.native import list_calls, read_text, unfold_messages

_SPEAKERS = ("user", "assistant")  # Messages of any other role were put in by a client.
RESULT_TOKENS = 400
"""A summariser reads a result whole if it has at most so many tokens."""
_CALL_TOKENS = RESULT_TOKENS + 120  # most that it reads of one call: its line and its beginning
# Characters of a call that are counted. More of them have more tokens than are read, or no words.
_CALL_CHARACTERS = 6_000
# A number such as `[12.3] ` costs 6 tokens before each sentence, and a sentence has 30 on average.
_NUMBER_TOKENS, _SENTENCE_TOKENS = 6, 30


@dataclass
class _StepBuilder:
    """Builds one step."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)
    attachments: list[Attachment] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)

    @property
    def answered(self) -> bool:
        """Whether results have come and none is missing."""
        return bool(self.results) and not self.unanswered

    def add(self, item: Item) -> None:
        match item:
            case Text() if item.text.strip():
                self.texts.append(item.text.strip())
            case CodeRun():
                self.texts.append(_render_code_run(item))
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
        if call.id not in self.results:  # A result may stand before its call.
            self.unanswered.add(call.id)

    def _add_result(self, result: ToolResult) -> None:
        self.results[result.call_id] = result
        self.unanswered.discard(result.call_id)

    def close(self, message: Message) -> Step | None:
        """The step; None if it is empty."""
        # Open WebUI sends only finished calls, so no summary may name another.
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


def split_steps(message: Message) -> list[Step]:
    """The steps of one message, in order.

    An empty or failed answer has none. Neither has a message of a system, a developer or a tool,
    which a client put between the others, such as retrieved texts.
    """
    if message.role not in _SPEAKERS:
        return []
    closed: list[Step | None] = []
    current = _StepBuilder()
    for item in message.items:
        # Any item after all results opens a new step, but another result does not. A call does so
        # even with the id of an earlier one.
        if current.answered and isinstance(item, Text | CodeRun | ToolCall):
            closed.append(current.close(message))
            current = _StepBuilder()
        current.add(item)
    closed.append(current.close(message))
    return [step for step in closed if step]


def _render_code_run(run: CodeRun) -> str:
    return f"[ran code]\n{_quote_code(run.code)}\n[it printed]\n{_quote_code(run.output)}"


def _quote_code(text: str) -> str:
    """Text with a bar before each line, which marks it as nobody's own words (`text.blocks`)."""
    return "\n".join(f"| {line}" for line in text.splitlines())


def count_stored_tokens(stored: Stored, count: Callable[[str], int] = tokens.count) -> int:
    """The tokens that the model is sent for a stored message.

    They are those of texts, of calls with their arguments, of results, and a flat price for each
    image. Reasoning is not sent.
    """
    return count_sent_tokens(unfold_messages([stored]), count)


def count_sent_tokens(
    messages: Iterable[Native], count: Callable[[str], int] = tokens.count
) -> int:
    """The tokens that the model is sent for native messages."""
    total = 0
    for message in messages:
        calls = [f"{call.get('name')} {call.get('arguments')}\n" for _, call in list_calls(message)]
        text = read_text(message) + "".join(calls)
        total += tokens.MESSAGE_TOKENS + count(text)
        total += _count_other_parts(message.get("content"))
    return total


def _count_other_parts(content: object) -> int:
    if not isinstance(content, list):
        return 0
    return sum(parts.count_part_tokens(part) for part in content if isinstance(part, dict))


def estimate_step_tokens(step: Step, count: Callable[[str], int] = tokens.count) -> int:
    """An estimate of the tokens that a summariser reads for a step.

    It reads the step's text with numbers of sentences, the names of its attachments, and each call
    with the shown part of its result. The exact text is made later.
    """
    names = [attachment.told for attachment in step.attachments]
    text = tokens.drop_data("\n".join([step.text, *names]))
    text_tokens = count(text)
    number_tokens = text_tokens * _NUMBER_TOKENS // _SENTENCE_TOKENS
    call_tokens = sum(map(_estimate_call_tokens, step.calls))
    return 2 * tokens.MESSAGE_TOKENS + text_tokens + number_tokens + call_tokens


def _estimate_call_tokens(call: Call) -> int:
    """An estimate of the tokens that a summariser reads of a call."""
    texts = (call.call.name, call.call.arguments, call.result.text)
    cut = [tokens.drop_data(text[:_CALL_CHARACTERS]) for text in texts]
    return min(_CALL_TOKENS, tokens.count(" ".join(cut)))
