"""From the bytes of an ingested message to what is stored of it. Pure, picklable values.

A request is held as bytes, and one message of it at a time is decoded, hashed, weighed, masked and
packed. So an ingest needs memory for its bytes and for its largest message alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from service.recall import parts
from service.storage import codec
from service.text import tokens
from service.transcript import (
    Stored,
    count_stored_tokens,
    estimate_step_tokens,
    fold_answer,
    mask_message,
    parse,
    split_steps,
)

_LATEST = 1e15  # Unix seconds; imported chats have milliseconds
_NOTE_FIELDS = ("role", "timestamp")
_FILE_FIELDS = ("type", "name", "content_type")  # not the content, which may be megabytes
_BYTES_PER_TOKEN = 4  # of a text that cannot be read, and so not be counted
_ROLES = ("user", "assistant", "system", "tool", "developer")
_NUL = re.compile(rb"\\u0000")  # the only way to write it in JSON

CONTROL = r"\x00-\x1f\x7f-\x9f"
"""Control characters (C0, DEL and C1) for a class of a pattern.

They are never part of an id, and a terminal obeys them.
"""

# Open WebUI's ids are UUIDs, or `temporary:<socket id>`; a control character is never part of one,
# not at its end either, where `$` alone would let a line end pass.
Id = Annotated[str, Meta(min_length=1, max_length=200, pattern=rf"^[^{CONTROL}]+$(?!\n)")]
Hash = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$(?!\n)")]


def _describe(*kinds: str, description: str = "") -> Meta:
    return Meta(
        description=description or None,
        extra_json_schema={"anyOf": [{"type": kind} for kind in kinds]},
    )


class UploadedMessage(msgspec.Struct, frozen=True):
    """A question or a whole answer, as Open WebUI has it or a chat completion (`native`).

    Fields that are not named here are dropped, and so is a field of another type than it says here:
    one odd message must not keep a chat from being ingested.
    """

    role: Annotated[
        Any,
        _describe(
            "string",
            "null",
            description="`user`, `assistant`, `system`, `tool` or `developer`; any other is taken"
            " for `assistant`: the model is sent its text, and it is nothing that the user said.",
        ),
    ] = None
    content: Annotated[Any, _describe("string", "array", "null")] = None
    output: Annotated[Any, _describe("array", "null")] = None
    native: Annotated[
        Any,
        _describe(
            "array",
            "null",
            description="An answer as the model is sent it, in place of `content` and `output`:"
            " one message of a chat completion or, with calls of tools, several: calls, results"
            " and the answer.",
        ),
    ] = None
    files: Annotated[
        Any,
        _describe(
            "array", "null", description="Of each file, `type`, `name` and `content_type` are kept."
        ),
    ] = None
    usage: Annotated[
        Any,
        _describe("object", "null", description="What the provider has counted; not stored."),
    ] = None
    timestamp: Annotated[
        Any,
        _describe("number", "null", description="Unix seconds; imported chats have milliseconds."),
    ] = None


_DECODE = msgspec.json.Decoder(UploadedMessage).decode


@dataclass(frozen=True, slots=True)
class TokenCountedMessage:
    """A message as it is stored, but for its place in the chat.

    Attributes:
        body: the packed message, its secrets masked, and what it is searched by.
        tokens: what the model is sent for it.
        step_tokens: what a summariser reads for each of its steps.
        step_calls: how many calls of tools each of its steps has.
        sent_at: Unix seconds.
    """

    role: str
    body: bytes
    tokens: int
    step_tokens: list[int]
    step_calls: list[int]
    sent_at: int | None


@dataclass(frozen=True, slots=True)
class RawMessage:
    """A message to be parsed.

    Attributes:
        text: the message as JSON.
        searched: whether what recall searches it by is stored too.
    """

    text: bytes
    searched: bool = False


def parse_messages(messages: Sequence[RawMessage], mask_secrets: bool) -> list[TokenCountedMessage]:
    """Parses messages, one after the other."""
    return [
        _count_tokens(_decode(one.text), mask_secrets, searched=one.searched) for one in messages
    ]


def make_placeholders(messages: Sequence[RawMessage]) -> list[TokenCountedMessage]:
    """Replaces messages that are too hard to parse: each text becomes a note of its size.

    The tokens that a model is sent for the text are estimated from its length. The text itself is
    not kept: it could not be searched for secrets, and it would be too hard again.
    """
    results = []
    for one in messages:
        stored = _decode(one.text)
        size = len(one.text)
        head = {name: stored[name] for name in _NOTE_FIELDS if name in stored}
        counted = _note(head, f"[A message of {size:,} bytes that could not be read in time]")
        tokens_of_it = max(size // _BYTES_PER_TOKEN, counted.tokens)
        results.append(replace(counted, tokens=tokens_of_it))
    return results


def _note(head: Stored, note: str) -> TokenCountedMessage:
    """A message whose text is a note, with the other fields of `head`."""
    return _count_tokens(head | {"content": note}, mask_secrets=False)


def _decode(text: bytes) -> Stored:
    """A message as it was ingested, without NUL characters."""
    stored = _select_fields(_DECODE(text))
    has_nul = _NUL.search(text)  # nearly never: then there is no need of a copy
    return _drop_nul(stored) if has_nul else stored


def _count_tokens(
    stored: Stored, mask_secrets: bool, *, searched: bool = False
) -> TokenCountedMessage:
    body = _pack(stored, mask_secrets, searched)
    parsed = parse(stored)
    cut = split_steps(parsed)
    count = cache(tokens.count)  # nearly always, what was said is all that is sent
    return TokenCountedMessage(
        role=parsed.role,
        body=body,
        tokens=count_stored_tokens(stored, count),
        step_tokens=[estimate_step_tokens(step, count) for step in cut],
        step_calls=[len(step.calls) for step in cut],
        sent_at=parsed.timestamp,
    )


def _pack(stored: Stored, mask_secrets: bool, searched: bool) -> bytes:
    """The packed body, perhaps with the words that it is `searched` by.

    This is a function of its own, so that the masked copy is free before tokens are counted.
    """
    clean = mask_message(stored) if mask_secrets else stored
    words = parts.make_parts(parse(clean)) if searched else None
    return codec.pack(clean, words)


def _select_fields(message: UploadedMessage) -> Stored:
    """The fields of a message that have the types that they should have."""
    native = _keep_fields(message.native, list)
    output = fold_answer(message.native) if native else _keep_fields(message.output, list)
    fields = {
        "role": message.role if message.role in _ROLES else "assistant",
        "content": _keep_fields(message.content, str, list),
        "output": output,
        "files": _list_files(message.files),
        "timestamp": _read_time(message.timestamp),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _keep_fields(value: object, *kinds: type) -> object:
    return value if isinstance(value, kinds) else None


def _list_files(value: object) -> list[dict[str, str]] | None:
    if not isinstance(value, list):
        return None
    return [_name_fields(file) for file in value if isinstance(file, dict)]


def _name_fields(file: dict[str, Any]) -> dict[str, str]:
    return {name: file[name] for name in _FILE_FIELDS if isinstance(file.get(name), str)}


def _read_time(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= _LATEST else None


def _drop_nul(value: Any) -> Any:  # noqa: ANN401 - JSON
    """A JSON value without NUL characters.

    PostgreSQL has no NUL, neither in texts nor in JSON, where a summary or a ledger would carry it.
    """
    match value:
        case str():
            return value.replace("\0", "")
        case list():
            return [_drop_nul(one) for one in value]
        case dict():
            return {_drop_nul(key): _drop_nul(one) for key, one in value.items()}
        case _:
            return value
