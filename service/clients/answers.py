"""Reads a model's answer, in any form in which hosts and servers hand it on. Pure.

A host's own function calls return a dict, a JSON text with a status, a stream of events as text, or
an error with status 200; the content is a text, parts, or nothing. All of that is read here, so
that whoever makes a call need not.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.errors import SummariserAway, SummariserError
from service.summarising.reading import Finish, Reply

_FINISH: Final[Mapping[str, Finish]] = {"stop": Finish.STOP, "length": Finish.LENGTH}
ABOUT_THE_REQUEST: Final = frozenset({400, 413, 422})
"""Statuses after which another chat's request may well be taken."""
_EVENT: Final = "data:"
_ENDED: Final = "[DONE]"
_EXCERPT: Final = 300  # characters of an answer in an error
_Json = Any  # what a server answered, of any shape


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer as it came: its HTTP status, and a body, parsed or as text."""

    status: int
    body: _Json


def read_answer(answer: RawAnswer, most_tokens: int) -> Reply:
    """The text that a model wrote, without its reasoning, however that is named.

    Args:
        answer: as it came.
        most_tokens: how many tokens it was allowed. Some servers say of an answer that is as long
            as this that it is finished.

    Raises:
        SummariserAway: a status that every request would meet.
        SummariserError: another error, or no answer of a chat.
    """
    body = _parse_json(answer.body)
    error = _find_error(body)
    if answer.status != 200 or error:
        away = answer.status not in (200, *ABOUT_THE_REQUEST)
        kind = SummariserAway if away else SummariserError
        what = f"HTTP {answer.status}" if answer.status != 200 else "an error in place of an answer"
        raise kind(what, f"{what}: {shorten(error or body)}")
    try:
        reply = _read_events(body) if isinstance(body, list) else read_completion(body)
    except (LookupError, TypeError, AttributeError) as error:
        what = f"not a chat answer ({type(error).__name__})"
        raise SummariserError(what, f"{what}: {shorten(body)}") from error
    if reply.completion_tokens is not None and reply.completion_tokens >= most_tokens:
        return Reply(reply.text, Finish.LENGTH, reply.prompt_tokens, reply.completion_tokens)
    return reply


def _parse_json(body: _Json) -> _Json:
    """A body that is a text as the JSON in it: of a stream, a list of its events."""
    if not isinstance(body, str):
        return body
    if body.lstrip().startswith((_EVENT, "event:", ":")):
        return list(_parse_events(body))
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def _parse_events(body: str) -> Iterator[_Json]:
    for line in body.splitlines():
        data = line.removeprefix(_EVENT).strip()
        if not line.startswith(_EVENT) or data == _ENDED:
            continue
        try:
            yield json.loads(data)
        except (ValueError, RecursionError):
            # Half an event is the end of a stream that broke off.
            return


def _find_error(body: _Json) -> _Json:
    """The error that stands in an answer under `error` or `detail`; empty for none."""
    events = body if isinstance(body, list) else [body]
    for one in events:
        if isinstance(one, dict) and not (one.get("choices") or one.get("message")):
            found = one.get("error") or one.get("detail")
            if found:
                return found
    return None


def read_completion(body: _Json) -> Reply:
    """The reply of an OpenAI-compatible answer, or of Ollama's own.

    Raises:
        LookupError, TypeError, AttributeError: it is none.
    """
    if "message" in body:
        usage = {
            "prompt_tokens": body.get("prompt_eval_count"),
            "completion_tokens": body.get("eval_count"),
        }
        return _make_reply(body["message"].get("content"), body.get("done_reason"), usage)
    choice = body["choices"][0]
    content = choice["message"].get("content")
    return _make_reply(content, choice.get("finish_reason"), body.get("usage"))


def _read_events(events: list[_Json]) -> Reply:
    """The reply of a stream: its parts joined, how it ended, and what it cost."""
    if not events:
        raise LookupError("a stream without events")
    parts: list[str] = []
    finish: object = None
    usage: Mapping[str, _Json] | None = None
    for event in events:
        usage = event.get("usage") or usage
        for choice in (event.get("choices") or [])[:1]:
            parts.append(
                _read_text((choice.get("delta") or choice.get("message") or {}).get("content"))
            )
            finish = choice.get("finish_reason") or finish
    return _make_reply("".join(parts), finish, usage)


def _make_reply(content: _Json, finish: object, usage: Mapping[str, _Json] | None) -> Reply:
    counts = usage or {}
    return Reply(
        text=_read_text(content),
        # Pipes end without a word; whether it is whole, the length says.
        finish=_FINISH.get(str(finish), Finish.OTHER) if finish else Finish.STOP,
        prompt_tokens=_read_count(counts.get("prompt_tokens")),
        completion_tokens=_read_count(counts.get("completion_tokens")),
    )


def _read_text(content: _Json) -> str:
    """The text of a message whose content is a string, a list of parts, or missing."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part["type"] == "text")
    # A cut-off answer may end in half of a surrogate pair. PostgreSQL stores neither that nor NUL.
    return (content or "").encode(errors="replace").decode().replace("\0", "")


def _read_count(value: object) -> int | None:
    return value if type(value) is int else None


def shorten(body: _Json) -> str:
    """The beginning of what was answered, on one line."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
    return " ".join(text.replace("\0", "").split())[:_EXCERPT] or "(empty)"
