"""The bodies of requests and answers between the filter and the service.

Their descriptions are the page `/docs` of a running service.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from pydantic import BaseModel, Field, StringConstraints

from service.processes import intake
from service.processes.intake import CONTROL
from service.usecases.weigh import State

# Open WebUI's ids are UUIDs, or `temporary:<socket id>`.
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=rf"^[^{CONTROL}]+$")]
_Label = Annotated[str, Meta(max_length=10_000)]

# Seconds of ten years.
_LONGEST = 10 * 366 * 24 * 3600


def make_schema(model: type[msgspec.Struct]) -> dict[str, Any]:
    """A body's JSON schema without references.

    A route puts it into the OpenAPI page by itself, where `#/$defs/…` would lead nowhere.
    """
    schema = msgspec.json.schema(model)
    definitions = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inline_references(schema, definitions)
    return inlined


def _inline_references(node: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON schema
    """A part of a schema with its references replaced by what they name."""
    if isinstance(node, list):
        return [_inline_references(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        return _inline_references(definitions[name], definitions)
    return {key: _inline_references(value, definitions) for key, value in node.items()}


_Message = Annotated[
    dict[str, Any],
    Meta(
        description="A message of a chat completion: `role`, `content`, `tool_calls`,"
        " `tool_call_id`. Pictures may come without their data.",
        examples=[{"role": "user", "content": "And what was the total?"}],
    ),
]
Identity = Annotated[str, Meta(max_length=200, pattern=rf"^[^{CONTROL}]*$(?!\n)")]
_Size = Annotated[int, Meta(ge=0, le=2**40)]
_Windows = Annotated[
    list[_Size],
    Meta(
        max_length=32,
        description="More sizes that somebody gives for the model's window, the most trusted first."
        " Without a plausible one, `PRECIS_MODELS` or `PRECIS_WINDOW` has the window.",
    ),
]


class CompressRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request that is going to a model."""

    # The bodies of the hot routes are msgspec's: it decodes them in a quarter of pydantic's time.

    model: Annotated[intake.Id, Meta(description="The model that is going to answer.")]
    messages: Annotated[
        list[_Message], Meta(description="All messages, as you would send them to the model.")
    ]
    chat: Annotated[
        Identity,
        Meta(
            description="Your id of the chat. Without one, Precis finds the chat by its user and"
            " its first question, and keeps it for `keep_hours`."
        ),
    ] = ""
    user: Annotated[
        Identity | None,
        Meta(description="Who asks. Users share no summary."),
    ] = None
    ids: Annotated[
        list[Identity | None] | None,
        Meta(
            description="Your id of each of `messages`, or null. `covered_until` then has one of"
            " them, and Precis deletes the text of a message that you have edited."
        ),
    ] = None
    window: Annotated[_Size | None, Meta(description="The model's context window, in tokens.")] = (
        None
    )
    windows: _Windows = []
    max_tokens: Annotated[
        Any,
        Meta(
            description="Most tokens of the answer. Anything but a number counts as null.",
            extra_json_schema={"anyOf": [{"type": "integer"}, {"type": "null"}]},
        ),
    ] = None
    tools: Annotated[
        list[dict[str, Any]] | None,
        Meta(description="Specifications of the tools that go along; Precis counts them."),
    ] = None
    prompt: Annotated[
        str, Meta(description="A system prompt that stands in no message yet; Precis counts it.")
    ] = ""
    guided: Annotated[
        bool,
        Meta(
            description="Whether the newest question is an instruction to answer the question"
            " before it again."
        ),
    ] = False
    recall: Annotated[
        bool,
        Meta(description="Whether the model can call `precis_recall`; a summary then says so."),
    ] = False
    state: Annotated[
        State | None,
        Meta(description="In later calls of a turn, the `state` of the last answer."),
    ] = None
    seconds: Annotated[
        Annotated[float, Meta(ge=0, le=3600)],
        Meta(
            description="How long you wait for a summary if the request is too large; 10 at most."
        ),
    ] = 0.6
    keep_hours: Annotated[
        Annotated[int, Meta(ge=1, le=_LONGEST // 3600)] | None,
        Meta(
            description="Hours without a request after which the chat is deleted. Null keeps a chat"
            " that has an id, and any other for 720 hours."
        ),
    ] = None


class Tokens(msgspec.Struct, frozen=True):
    """Sizes in tokens, as the model's provider counts them."""

    before: Annotated[int, Meta(description="The request as it came.")]
    after: Annotated[int, Meta(description="The request as it is to be sent.")]
    window: Annotated[int, Meta(description="The model's window.")]


class CompressAnswer(msgspec.Struct, frozen=True):
    """The request as it is to be sent."""

    messages: Annotated[
        list[int | dict[str, Any]] | None,
        Meta(
            description="The list to send: a number is that message of yours, from 0; an object is"
            " a new message. Null: send your list as it is."
        ),
    ]
    status: Annotated[
        Literal["ready", "not_needed", "pending"],
        Meta(
            description="`ready`: a summary is in the request; `not_needed`: it is small enough;"
            " `pending`: it needs a summary, which is not written yet."
        ),
    ]
    tokens: Tokens
    state: Annotated[
        State, Meta(description="A note of the service. Give it back in the next call as it is.")
    ]
    status_text: Annotated[
        str | None, Meta(description="One line for the user about what was done to the request.")
    ] = None
    summary: Annotated[
        str | None,
        Meta(description="The summary's text for the user, until a turn has ended with it."),
    ] = None
    checkpoint: Annotated[int | None, Meta(description="The summary's id.")] = None
    covered_until: Annotated[
        str | None,
        Meta(description="The last message that it covers, by your id if Precis knows that."),
    ] = None
    covered_messages: Annotated[
        int | None, Meta(description="How many messages of the request the summary covers.")
    ] = None
    left_out: Annotated[
        int, Meta(description="How many messages were left out that no summary covers.")
    ] = 0
    whole: Annotated[
        bool,
        Meta(
            description="Whether to send the whole branch to `POST /v1/turns`, and not the turn"
            " alone."
        ),
    ] = False


class TurnRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finished turn, or the whole branch, as you store it."""

    messages: Annotated[
        list[
            Annotated[dict[str, Any], Meta(extra_json_schema=make_schema(intake.UploadedMessage))]
        ],
        Meta(
            min_length=1,
            description="Root to leaf, each with your `id`: from the turn's question on, or the"
            " whole branch if the answer had `whole`.",
        ),
    ]
    state: Annotated[
        State | None,
        Meta(
            description="Of the turn's last request. Without one, give `chat`, `user`, `model`, and"
            " the whole branch."
        ),
    ] = None
    chat: Annotated[Identity, Meta(description="Only without `state`.")] = ""
    user: Annotated[Identity | None, Meta(description="Only without `state`.")] = None
    model: Annotated[Identity, Meta(description="Only without `state`.")] = ""
    window: Annotated[_Size | None, Meta(description="Only without `state`.")] = None
    windows: _Windows = []
    whole: Annotated[bool, Meta(description="Whether this is the whole branch.")] = False
    title: Annotated[
        _Label | None, Meta(description="Title of the chat, which operators are shown.")
    ] = None
    user_name: Annotated[
        _Label | None,
        Meta(description="Name of the user, which operators are shown beside chats of this user."),
    ] = None


class TurnAnswer(msgspec.Struct, frozen=True):
    """The turn is stored."""

    due: Annotated[bool, Meta(description="Whether a summary will be written in the background.")]
    asks: Annotated[
        bool,
        Meta(
            description="Whether one of your own models is to write it: ask for the prompt by"
            " `POST /v1/prompts/next`."
        ),
    ]


class NextPromptRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The chat whose prompt is asked for."""

    chat: Annotated[Identity, Meta(min_length=1, description="Your id of the chat.")]
    wait: Annotated[
        float, Meta(ge=0, le=8, description="Seconds to wait while a prompt may come.")
    ] = 0


class PromptForm(BaseModel):
    """The request for your model; ask it past everything that would add to it."""

    model: str
    messages: list[dict[str, str]]
    max_tokens: int
    temperature: float | None = None
    stream: bool


class PromptToAnswer(BaseModel):
    """A prompt that only you were given."""

    id: str
    seconds: float = Field(description="How long its model may take. No later reply is used.")
    form: PromptForm


class NextPromptAnswer(BaseModel):
    """The next prompt of the chat, if there is one."""

    prompt: PromptToAnswer | None
    again: bool = Field(description="Whether to ask again: there is one, or may be soon.")


class ReplyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Your model's answer, as it came: `completion` if you have parsed it, or `body`."""

    status: Annotated[int, Meta(ge=100, le=599, description="HTTP status; 500 for an error.")]
    completion: Annotated[
        dict[str, Any] | None, Meta(description="An OpenAI-compatible answer, or Ollama's.")
    ] = None
    body: Annotated[
        str, Meta(description="Its text: JSON, a stream of events, or what an error says.")
    ] = ""


class FilterAnswer(BaseModel):
    """The service that answers the filter, and the writer of its summaries."""

    version: str = Field(description="Version of the service.")
    tenant: str = Field(description="Name of the tenant that the key belongs to.")
    endpoint: str | None = Field(
        description="The summariser of the settings, which goes before your models; null for none."
    )
    summariser: str | None = Field(
        description="Which of your models writes: `chat` is each chat's own, empty none; null says"
        " that nobody has chosen."
    )


_Owner = Annotated[intake.Id, Meta(description="The user who asks; it has to be their chat.")]
# A model may give null, and numbers as texts and texts as numbers.
_Given = str | int | float | bool | None


class RecallRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A look-up of a model in the earlier part of its own chat: `query` or `ref`."""

    state: Annotated[State, Meta(description="Of the request that the model answers.")]
    query: Annotated[
        _Given, Meta(description="Words to look for: the best five places, a line each.")
    ] = None
    ref: Annotated[
        _Given,
        Meta(
            description="What to read exactly, rather than `query`: `T12`, the twelfth call of a"
            " tool; `M34`, the message at depth 34; `12.3`, a sentence.",
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


Button = Literal["summary", "now", "leave"]


class ViewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user looks at what stands for the earlier part of a branch of their chat."""

    user_id: _Owner
    button: Annotated[
        Button,
        Meta(
            description="What the user has clicked: `summary` and `now` show what stands for the"
            " earlier part; `leave` asks whether the chat is to be left alone, or resumed."
        ),
    ] = "summary"
    message_id: Annotated[
        Identity, Meta(description="Your id of a message of the branch; empty for the newest.")
    ] = ""
    wait: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="Seconds to wait for a newer summary, which is then due at once.",
        ),
    ] = 0


class Change(BaseModel):
    """A change that the user is asked to confirm."""

    left_alone: bool = Field(description="Send this to `left-alone`, if the user confirms it.")
    done: str = Field(description="For the user, once it is changed.")
    unanswered: str = Field(description="For the user, if the question got no answer.")


class ViewAnswer(BaseModel):
    """A dialog for the user: what stands for the earlier part of a branch, or a question."""

    title: str = Field(description="The dialog's title.")
    text: str = Field(description="The dialog's text in Markdown; no word of the chat is markup.")
    change: Change | None = Field(description="Of a question; null where nothing may change.")


class LeftAloneAnswer(BaseModel):
    """Whether a chat is left alone."""

    left_alone: bool = Field(
        description="No summary of it is made, and its requests carry none; what is stored stays."
    )


class LeftAloneRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user's wish for their chat."""

    user_id: _Owner
    left_alone: Annotated[
        bool, Meta(description="True: leave it alone; false: summarise it again.")
    ]
