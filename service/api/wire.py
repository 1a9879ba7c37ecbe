"""The bodies of requests and answers between the filter and the service.

Their descriptions are the page `/docs` of a running service.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from pydantic import BaseModel, Field, StringConstraints

from service.names import RequestOutcome
from service.processes import intake
from service.processes.intake import CONTROL
from service.request.edit import Count, RequestShape
from service.storage.chats import ServedModel

# Open WebUI's ids are UUIDs, or `temporary:<socket id>`.
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=rf"^[^{CONTROL}]+$")]
_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Label = Annotated[str, Meta(max_length=200)]

# Seconds of ten years.
_LONGEST = 10 * 366 * 24 * 3600


def schema_of(model: type[msgspec.Struct]) -> dict[str, Any]:
    """A body's JSON schema without references.

    A route puts it into the OpenAPI page by itself, where `#/$defs/…` would lead nowhere.
    """
    schema = msgspec.json.schema(model)
    definitions = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inline(schema, definitions)
    return inlined


def _inline(node: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON schema
    """A part of a schema with its references replaced by what they name."""
    if isinstance(node, list):
        return [_inline(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        return _inline(definitions[name], definitions)
    return {key: _inline(value, definitions) for key, value in node.items()}


_Windows = Annotated[
    list[int],
    Meta(
        max_length=32,
        description="Sizes that Open WebUI and its settings give for the model's context window,"
        " the most trusted first. Of none that is plausible, the service takes the model's in"
        " `PRECIS_MODELS`, else for a `context` the last ingest's, and for that `PRECIS_WINDOW`.",
    ),
]


_Beside = Annotated[
    Annotated[int, Meta(ge=0, le=2**29)] | None,
    Meta(
        description="Tokens that go to the model beside the messages of the path, as you estimate"
        " them: system prompts, tools, retrieved texts. What a provider counts is compared with it."
    ),
]


class ContextRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request that is going to a model: its path, leaf first, and what stands in it."""

    # The bodies of the hot route are msgspec's: it decodes 64 pairs in 10 µs, pydantic in 44.

    model: Annotated[_Name, Meta(description="The model that is going to answer.")]
    depth: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Number of messages on the whole path.")
    ]
    path: Annotated[
        list[tuple[_Name, Annotated[str, Meta(min_length=1, max_length=128)]]],
        Meta(
            min_length=1,
            description="`[message id, digest]`, leaf first, as they are stored (`PUT transcript`)."
            " 16 are enough to be found, because a digest stands for everything above it; send more"
            " after `unknown`, and down to the boundary of a summary, which is compared.",
        ),
    ]
    sizes: Annotated[
        list[Count],
        Meta(
            description="Tokens of each message of `path`, as you estimate them; they count for"
            " those that are not stored yet."
        ),
    ]
    windows: _Windows = []
    native: Annotated[
        RequestShape | None,
        Meta(
            description="What the answer needs to say what to `drop`. A host that knows where the"
            " messages of `path` stand in its request sends none."
        ),
    ] = None
    user_id: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(
            description="The user who asks. A fork that is not stored yet is served summaries of"
            " this user's other chats."
        ),
    ] = None
    beside: _Beside = None
    running: Annotated[
        Count,
        Meta(description="Of `beside`, what this answer has so far: calls of tools and results."),
    ] = 0
    wait: Annotated[
        Annotated[float, Meta(ge=0, le=10)] | None,
        Meta(
            description="Seconds to wait while a summary is written that the request needs. To be"
            " used after an upload that says `due`."
        ),
    ] = None
    room: Annotated[
        Annotated[int, Meta(ge=1, le=2**40)] | None,
        Meta(
            description="Most tokens that the request may have: the window less the answer's share."
        ),
    ] = None


class FilterAnswer(BaseModel):
    """Who answers the filter, and models with little room or an assumed window."""

    version: str = Field(description="Version of the service.")
    tenant: str = Field(description="Name of the tenant that the key belongs to.")
    crowded: list[ServedModel] = Field(
        description="Models of recent chats whose tools leave little room for the chat."
    )
    assumed: list[ServedModel] = Field(
        description="Models of recent chats whose window nobody told."
    )


class TranscriptRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The messages that follow `after`, root to leaf."""

    # They stay bytes here: `service.processes.intake` decodes them one at a time.

    model: intake.Id
    user_id: intake.Id
    messages: Annotated[
        list[Annotated[msgspec.Raw, Meta(extra_json_schema=schema_of(intake.HandedMessage))]],
        Meta(min_length=1),
    ]
    windows: _Windows = []
    after: Annotated[
        tuple[intake.Id, intake.Hash] | None,
        Meta(
            description="`[message id, digest]` of the last message that is stored already; null"
            " when `messages` is the whole path."
        ),
    ] = None
    served: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(
            description="Id of the checkpoint that was in the request of the newest answer, 0 for"
            " none; needed to compare the provider's `usage` with our count."
        ),
    ] = None
    outcome: Annotated[
        RequestOutcome | None,
        Meta(description="What became of the requests of the newest turn, for the statistics."),
    ] = None
    beside: _Beside = None
    expires_in: Annotated[
        Annotated[int, Meta(ge=60, le=_LONGEST)] | None,
        Meta(
            description="Seconds from now after which the chat is deleted with everything stored"
            " for it, unless new messages come; null keeps it."
        ),
    ] = None
    compactor: Annotated[
        Literal["open-webui"] | None,
        Meta(description="Who else compresses this chat, which is then stored, not summarised."),
    ] = None
    title: Annotated[
        _Label | None, Meta(description="Title of the chat, which operators are shown.")
    ] = None
    user_name: Annotated[
        _Label | None,
        Meta(description="Name of the user, which operators are shown beside chats of this user."),
    ] = None


class TranscriptAnswer(msgspec.Struct, frozen=True):
    """The messages are stored."""

    due: Annotated[
        bool, Meta(description="Whether a summary is going to be written in the background.")
    ]


_Owner = Annotated[intake.Id, Meta(description="The user who asks; it has to be their chat.")]
_Branch = Annotated[
    list[tuple[intake.Id, intake.Hash]],
    Meta(
        min_length=1,
        max_length=10_000,
        description="`[message id, digest]` of the branch, leaf first, as for `context`.",
    ),
]
# A model may give null, and numbers as texts and texts as numbers.
_Given = str | int | float | bool | None


class RecallRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model looks up in the earlier part of its own chat: `query` or `ref`."""

    user_id: _Owner
    path: _Branch
    checkpoint_id: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(description="The checkpoint in the request; what it covers can be looked up."),
    ] = None
    whole: Annotated[
        bool,
        Meta(
            description="Whether something that no checkpoint covers was left out of the request or"
            " shortened: then all that is stored of the branch can be looked up."
        ),
    ] = False
    query: Annotated[
        _Given, Meta(description="Words to look for: three places in a line each.")
    ] = None
    ref: Annotated[
        _Given,
        Meta(
            description="What to read exactly, rather than `query`: `T12`, the twelfth call of a"
            " tool; `M34`, the message at depth 34; `12.3`, a sentence; `marker:…`, or the id of a"
            " call.",
        ),
    ] = None
    line: Annotated[
        _Given, Meta(description="Where to begin to read; of `query`, which result.")
    ] = None
    grep: Annotated[
        _Given,
        Meta(
            description="Only lines with these words, as they stand, and two lines around.",
        ),
    ] = None
    max_tokens: Annotated[int, Meta(ge=200, le=8000, description="Most tokens of the answer.")] = (
        2000
    )


class ViewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user looks at what stands for the earlier part of a branch of their chat."""

    user_id: _Owner
    path: _Branch
    depth: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Number of messages on the whole branch.")
    ]

    wait: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="Seconds to wait for a newer summary, which is then due at once.",
        ),
    ] = 0


class ViewAnswer(BaseModel):
    """What stands for the earlier part of a branch."""

    left_alone: bool = Field(description="Whether the chat is left alone.")
    window: int = Field(description="The model's, in tokens.")
    text: str = Field(description="What its user is shown, in Markdown; no word of it is markup.")


class LeftAloneAnswer(BaseModel):
    """Whether a chat is left alone."""

    left_alone: bool = Field(
        description="No summary of it is made, and its requests carry none; what is stored stays."
    )


class LeftAloneRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user wants of their chat."""

    user_id: _Owner
    left_alone: Annotated[
        bool, Meta(description="True: leave it alone; false: summarise it again.")
    ]
