"""The bodies of requests and answers between the filter and the service."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

# Open WebUI's ids are UUIDs, or `temporary:<socket id>`; a control character is never part of one.
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Hash = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$")]
Window = Annotated[int, Field(ge=2048, le=100_000_000)]
_Name = Annotated[str, Meta(min_length=1, max_length=200)]

_LONGEST = 10 * 366 * 24 * 3600  # seconds, ten years
_LAST = 1e15  # Unix seconds; imported chats have milliseconds
_OF_A_FILE = ("type", "name", "content_type")


def _only(*kinds: type) -> BeforeValidator:
    """A value of another type is dropped: whatever plugins and old versions stored, the message is taken."""
    return BeforeValidator(lambda value: value if isinstance(value, kinds) else None)


def _time(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST else None


def _files(value: object) -> list[dict[str, str]] | None:
    if not isinstance(value, list):
        return None
    files = (file for file in value if isinstance(file, dict))
    return [{name: file[name] for name in _OF_A_FILE if isinstance(file.get(name), str)} for file in files]


class Strict(BaseModel):
    """A body in which an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ContextRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The path of a request, leaf first.

    The two bodies of the hot route are msgspec's: decoding 64 pairs takes 10 µs, where pydantic takes 44.
    """

    model: Annotated[_Name, Meta(description="The model that is going to answer.")]
    depth: Annotated[int, Meta(ge=1, le=1_000_000, description="Number of messages on the whole path.")]
    path: Annotated[
        list[tuple[_Name, Annotated[str, Meta(min_length=1, max_length=128)]]],
        Meta(
            min_length=1,
            description="`[message id, digest]`, leaf first. 16 are enough: a digest speaks for everything above it;"
            " send more only after `unknown`.",
        ),
    ]
    window_tokens: Annotated[
        Annotated[int, Meta(ge=2048, le=100_000_000)] | None, Meta(description="Its window, when it is known.")
    ] = None
    sizes: Annotated[
        list[Annotated[int, Meta(ge=0, le=2**40)]],
        Meta(description="Characters of each message of `path`; counts messages that were not handed over yet."),
    ] = []
    user_id: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="Who asks. A fork that is not stored yet is served the summaries of this user's other chats."),
    ] = None


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """Estimated size of the request without and with the summary, and what of it the messages do not explain."""

    before: int
    after: int
    overhead: Annotated[int, Meta(description="System prompt, tool specifications: as the provider counted them.")] = 0


class ContextAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the request should carry."""

    status: Literal["ready", "not_needed", "pending", "unknown"]
    known: Annotated[
        str | None,
        Meta(
            description="The newest message of the path that is stored; null when none is, and also when this is a fork"
            " that another chat's summary fits: hand over the whole path."
        ),
    ] = None
    window: Annotated[int | None, Meta(description="The window that the answer is for, in tokens.")] = None
    checkpoint_id: int | None = None
    covered_until: Annotated[str | None, Meta(description="Id of the last message that the summary covers.")] = None
    covered_digest: Annotated[
        str | None, Meta(description="The digest there; use the summary only if yours is equal.")
    ] = None
    covered_messages: int | None = None
    summary: Annotated[
        str | None, Meta(description="The summary message. Its bytes change only with the checkpoint.")
    ] = None
    tokens: Tokens | None = None


class FilterAnswer(BaseModel):
    """Who answers the filter."""

    version: str = Field(description="Of the service.")
    tenant: str = Field(description="Whose key it is.")
    least_filter: str = Field(description="The oldest filter that is taken, see `Precis-Filter`.")


class HandedMessage(BaseModel):
    """A stored message as Open WebUI has it.

    Fields that are not named here are dropped, and so is a field of another type than it says here: one odd message
    must not keep a chat from being handed over.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Id
    fingerprint: Hash
    digest: Hash
    role: Literal["user", "assistant", "system", "tool", "developer"]
    content: Annotated[str | list[Any] | None, _only(str, list)] = None
    output: Annotated[list[Any] | None, _only(list)] = None
    files: Annotated[list[dict[str, str]] | None, BeforeValidator(_files)] = Field(
        None, description="Of each file, `type`, `name` and `content_type` are kept."
    )
    usage: Annotated[dict[str, Any] | None, _only(dict)] = None
    error: Any = None
    timestamp: Annotated[float | None, BeforeValidator(_time)] = Field(
        None, description="Unix seconds; imported chats have milliseconds."
    )


class TranscriptRequest(Strict):
    """The messages that follow `after`, root to leaf."""

    model: Id
    user_id: Id
    window_tokens: Window | None = None
    after: tuple[Id, Hash] | None = Field(
        None, description="`[message id, digest]` of the last message that the service has; null sends the whole path."
    )
    messages: list[HandedMessage] = Field(min_length=1)
    served: int | None = Field(
        None,
        ge=0,
        le=2**62,
        description="Checkpoint that was in the request of the newest answer, 0 for none; compares `usage` with it.",
    )
    overhead: int | None = Field(
        None,
        ge=0,
        le=2**31 - 1,
        description="Tokens that went to the model beside the messages (tool specifications), as the filter estimates"
        " them. Counts until a `usage` could be compared.",
    )
    expires_in: int | None = Field(
        None,
        ge=60,
        le=_LONGEST,
        description="Seconds from now after which the chat goes with all that is its own, unless it is handed over"
        " again; null keeps it.",
    )
    compactor: Literal["open-webui", "provider"] | None = Field(
        None,
        description="Who else compresses this chat. While it is `open-webui`, the chat is stored and no summary made;"
        " `provider` is only shown to operators.",
    )


class TranscriptAnswer(BaseModel):
    """Stored."""

    due: bool = Field(description="Whether a summary is going to be computed in the background.")
