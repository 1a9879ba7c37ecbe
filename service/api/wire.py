"""The bodies of requests and answers between the filter and the service."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from service.edit import Asked, Question
from service.processes import intake
from service.processes.intake import CONTROL

# Open WebUI's ids are UUIDs, or `temporary:<socket id>`.
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=rf"^[^{CONTROL}]+$")]
Hash = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$")]
_Name = Annotated[str, Meta(min_length=1, max_length=200)]

_LONGEST = 10 * 366 * 24 * 3600  # seconds, ten years


def schema_of(model: type[BaseModel] | type[msgspec.Struct]) -> dict[str, Any]:
    """A body's JSON schema in one piece."""
    schema = (
        model.model_json_schema() if issubclass(model, BaseModel) else msgspec.json.schema(model)
    )
    inner = schema.pop("$defs", {})

    def inline(node: Any) -> Any:  # noqa: ANN401 - JSON schema
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).rpartition("/")[2]
            return (
                inline(inner[name]) if name else {key: inline(value) for key, value in node.items()}
            )
        return [inline(one) for one in node] if isinstance(node, list) else node

    whole: dict[str, Any] = inline(schema)
    return whole


class Strict(BaseModel):
    """A body in which an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Count = Annotated[int, Meta(ge=0, le=2**40)]
_Windows = Annotated[
    list[int],
    Meta(
        max_length=32,
        description="What is told of the model's window, the most trusted first; the first that can be one counts.",
    ),
]


class NativeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request as it is going to be sent, described so that the service can say how to edit it."""

    leading: Annotated[_Count, Meta(description="With how many system messages it begins.")]
    questions: Annotated[
        list[Question],
        Meta(
            description="Its messages that a user wrote, the newest first: `[place, tokens before it, its tokens, hash"
            " of its words]`, tokens as the filter estimates them. 32 are enough for most requests."
        ),
    ]
    asked: Annotated[
        list[Asked],
        Meta(
            description="The path's messages of users, the newest first: `[place from the root, hash of its words]`."
        ),
    ]
    all_questions: Annotated[_Count, Meta(description="How many such messages the request has.")]
    all_asked: Annotated[_Count, Meta(description="How many such messages the path has.")]
    images: Annotated[_Count, Meta(description="Images before the newest question.")] = 0
    guided: Annotated[
        bool,
        Meta(
            description="The newest question is an instruction of a regeneration, and is not stored."
        ),
    ] = False


class ContextRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The path of a request, leaf first.

    The two bodies of the hot route are msgspec's: decoding 64 pairs takes 10 µs, where pydantic
    takes 44.
    """

    model: Annotated[_Name, Meta(description="The model that is going to answer.")]
    depth: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Number of messages on the whole path.")
    ]
    path: Annotated[
        list[tuple[_Name, Annotated[str, Meta(min_length=1, max_length=128)]]],
        Meta(
            min_length=1,
            description="`[message id, digest]`, leaf first. 16 are enough: a digest speaks for everything above it;"
            " send more only after `unknown`.",
        ),
    ]
    window_tokens: Annotated[
        Annotated[int, Meta(ge=2048, le=100_000_000)] | None,
        Meta(
            description="Its window, when it is known; `windows` instead lets the service choose."
        ),
    ] = None
    windows: _Windows = []
    sizes: Annotated[
        list[Annotated[int, Meta(ge=0, le=2**40)]],
        Meta(
            description="Characters of each message of `path`; counts messages that were not handed over yet."
        ),
    ] = []
    user_id: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(
            description="Who asks. A fork that is not stored yet is served the summaries of this user's other chats."
        ),
    ] = None
    summary_role: Annotated[
        Literal["system", "record"],
        Meta(
            description="`system`: the whole summary is a system message. `record`: only what users laid down"
            " themselves is, and all else is a record with the role of a user."
        ),
    ] = "system"
    overhead: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(
            description="Tokens of the tools that go to this model, as the filter has seen them in any chat. Counts"
            " while the chat knows of none, or of much less."
        ),
    ] = None
    room: Annotated[
        Annotated[int, Meta(ge=1, le=2**40)] | None,
        Meta(
            description="Tokens that the request may have at most: what its answer leaves of the window."
        ),
    ] = None
    native: Annotated[
        NativeRequest | None,
        Meta(description="With it, an answer also says how to edit the request."),
    ] = None


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """Estimated size of the request without and with the summary, and what of it the messages do not explain."""

    before: int
    after: int
    overhead: Annotated[
        int, Meta(description="System prompt, tool specifications: as the provider counted them.")
    ] = 0


class Inserted(msgspec.Struct, frozen=True):
    """A message that is put into the request."""

    role: str
    content: str


class Edit(msgspec.Struct, frozen=True):
    """How the request is changed.

    Apply it only if the digest of the boundary is yours, the range ends at the first question below
    the boundary, and the questions from the one above it to the newest but one have the words that
    are stored.
    """

    drop: Annotated[
        list[int],
        Meta(min_length=2, max_length=2, description="Messages to leave out, as `[first, end)`."),
    ]
    insert: Annotated[
        list[Inserted],
        Meta(description="What stands in their place. Changes only with the checkpoint."),
    ]


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
    window: Annotated[
        int | None, Meta(description="The window that the answer is for, in tokens.")
    ] = None
    checkpoint_id: int | None = None
    covered_until: Annotated[
        str | None, Meta(description="Id of the last message that the summary covers.")
    ] = None
    covered_digest: Annotated[
        str | None, Meta(description="The digest there; use the summary only if yours is equal.")
    ] = None
    covered_messages: int | None = None
    summary: Annotated[
        str | None,
        Meta(
            description="The summary message, for the role `system`. Its bytes change only with the checkpoint. Null"
            " beside a `record` when users laid down nothing, and beside an `edit`, which has it."
        ),
    ] = None
    record: Annotated[
        str | None,
        Meta(
            description="What else the summary says, for the role `user`; only when `summary_role` asks for it."
        ),
    ] = None
    tokens: Tokens | None = None
    edit: Annotated[
        Edit | None,
        Meta(
            description="With `ready` and `native`; null when the request is not described far enough, or unlike."
        ),
    ] = None
    density: Annotated[
        float | None,
        Meta(
            description="Tokens that the service counts for one that the filter estimates; null: too few."
        ),
    ] = None
    status_text: Annotated[
        str | None,
        Meta(
            description="With `native`: what users are told of a summary; with `pending`, of a request that was cut for"
            " want of one."
        ),
    ] = None


class CrowdedModel(BaseModel):
    """A model whose tools and system prompts leave little of its window for the chat itself."""

    model: str
    window: int = Field(description="Its window in tokens.")
    overhead: int = Field(description="Tokens of its tools and system prompts.")


class FilterAnswer(BaseModel):
    """Who answers the filter, and what it should know."""

    version: str = Field(description="Of the service.")
    tenant: str = Field(description="Whose key it is.")
    least_filter: str = Field(description="The oldest filter that is taken, see `Precis-Filter`.")
    crowded: list[CrowdedModel] = Field(
        description="Models, of the newest chats, whose tools leave them little room."
    )


class TranscriptRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The messages that follow `after`, root to leaf.

    The messages stay bytes here: `service.processes.intake` decodes them one at a time.
    """

    model: intake.Id
    user_id: intake.Id
    messages: Annotated[
        list[msgspec.Raw],
        Meta(min_length=1, extra_json_schema={"items": schema_of(intake.HandedMessage)}),
    ]
    window_tokens: Annotated[int, Meta(ge=2048, le=100_000_000)] | None = None
    windows: _Windows = []
    after: Annotated[
        tuple[intake.Id, intake.Hash] | None,
        Meta(
            description="`[message id, digest]` of the last message that the service has; null sends the whole path."
        ),
    ] = None
    served: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(
            description="Checkpoint that was in the request of the newest answer, 0 for none; compares `usage` with it."
        ),
    ] = None
    overhead: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(
            description="Tokens that went to the model beside the messages (tool specifications), as the filter"
            " estimates them. Counts until a `usage` could be compared."
        ),
    ] = None
    expires_in: Annotated[
        Annotated[int, Meta(ge=60, le=_LONGEST)] | None,
        Meta(
            description="Seconds from now after which the chat goes with all that is its own, unless it is handed over"
            " again; null keeps it."
        ),
    ] = None
    compactor: Annotated[
        Literal["open-webui", "provider"] | None,
        Meta(
            description="Who else compresses this chat. While it is `open-webui`, the chat is stored and no summary"
            " made; `provider` is only shown to operators."
        ),
    ] = None


class TranscriptAnswer(BaseModel):
    """Stored."""

    due: bool = Field(description="Whether a summary is going to be computed in the background.")
