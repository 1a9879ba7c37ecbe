"""How a summary is put into a request, decided from a description of that request. Pure.

No text of the request is seen here. The native list that Open WebUI sends has no message ids, and
one stored answer may stand there as many messages. But each stored user message stands there once.
So the request is described by its *questions*, the messages that a user wrote, and the path by its
user messages; both are counted from the newest on, and compared by hashes of their words.

The filter does not trust what is proposed here: it compares words, counts and digests with its own
before it changes anything. So a mistake here costs a summary, and never hides a message.
"""

from collections.abc import Sequence
from operator import eq
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from service.summarising.message import END, NOTED

_OFFERED = 'Older text and full tool results: precis_recall(query="…") or precis_recall(ref="T12").'
_UNCOUNTED = 0.18  # of what nobody has counted it may have more than is estimated


class Question(NamedTuple):
    """A message of the request that a user wrote: its place there, and a hash of its words."""

    place: int
    words: str


class Asked(NamedTuple):
    """A user message of the stored path: its place from the root, and a hash of its words."""

    place: int
    words: str


Count = Annotated[int, Meta(ge=0, le=2**40)]


class RequestShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A description of the request to the model, as it comes from the filter."""

    leading: Annotated[Count, Meta(description="Number of system messages at its beginning.")]
    questions: Annotated[
        list[Question],
        Meta(
            description="Its messages from the user, the newest first: `[place, hash of its"
            " words]`; two more than of `asked`."
        ),
    ]
    asked: Annotated[
        list[Asked],
        Meta(
            description="The path's messages from the user, the newest first: `[place from the"
            " root, hash of its words]`."
        ),
    ]
    all_questions: Annotated[Count, Meta(description="Number of all such messages in the request.")]
    all_asked: Annotated[Count, Meta(description="Number of all such messages on the path.")]
    guided: Annotated[
        bool,
        Meta(
            description="Whether the newest question is the instruction of a regeneration, which"
            " is not stored."
        ),
    ]
    recall: Annotated[
        bool,
        Meta(
            description="Whether the model can call the tool of recall: the summary then says so."
        ),
    ] = False


class Inserted(msgspec.Struct, frozen=True):
    """A message that is put into the request."""

    role: str
    content: str


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to change the request.

    Apply it only if all of this holds: the digest of the boundary is equal to yours; the range ends
    at the first question below the boundary; and the questions from the one above the boundary to
    the newest but one have the stored words.
    """

    insert: Annotated[
        Sequence[Inserted],
        Meta(description="Messages to put in their place. They change only with the checkpoint."),
    ]
    # Of any length for the schema's sake: tools for OpenAPI do not know arrays of places.
    drop: Annotated[
        Annotated[tuple[int, ...], Meta(min_length=2, max_length=2)] | None,
        Meta(
            description="Messages to leave out, as `[first, end)`. Absent without `native`: leave"
            " out the first `covered_messages` of your path."
        ),
    ] = None


def inserted(record: str, recall: bool = False) -> list[Inserted]:
    """The messages of a summary: a record with the role of a user, which the model answers.

    No system message: that would give weight to whatever stands in it. With `recall` the record
    says how to look up more.
    """
    if recall:
        record = record.replace(END, f"{_OFFERED}\n\n{END}", 1)
    return [Inserted("user", record), Inserted("assistant", NOTED)]


def propose(request: RequestShape | None, covered: int, insert: Sequence[Inserted]) -> Edit | None:
    """The edit that puts a summary in place of the first `covered` messages of the path.

    A host that does not describe its request knows where these stand in it.

    None when the tail does not begin with a user message, when the request does not have the tail's
    user messages, or when it is not described far enough.
    """
    if request is None:
        return Edit(insert)
    tail = [one for one in request.asked if one.place >= covered]
    if not tail or tail[-1].place != covered:
        return None
    compared = _compared(request, tail, covered)
    if compared is None:
        return None

    questions = request.questions[_not_stored(request, compared) :]
    if len(questions) < len(compared):
        return None
    first = questions[len(tail) - 1]
    # The leading system messages are no part of the path, so no edit may reach into them.
    if first.place < request.leading:
        return None
    return Edit(insert, (request.leading, first.place))


def _compared(request: RequestShape, tail: Sequence[Asked], covered: int) -> Sequence[Asked] | None:
    """The tail's user messages and the one above; None when too little is described for it."""
    above = [one for one in request.asked if one.place < covered][:1]
    if not above and request.all_asked > len(tail):
        return None
    compared = [*tail, *above]
    # `_not_stored` looks at one question more, unless there is none.
    described = len(request.questions)
    if described <= len(compared) and described < request.all_questions:
        return None
    return compared


def _not_stored(request: RequestShape, compared: Sequence[Asked]) -> int:
    """How many of the newest questions are stored nowhere: 1 in a guided regeneration, else 0.

    Only Open WebUI 0.12 says so. Before, the instruction is one question more than stored; so is
    what another filter has added at the beginning, and the words decide. Where they do not, 1 is
    assumed, because that hides less.
    """
    if request.guided:
        return 1
    if request.all_questions <= request.all_asked:
        return 0
    stored_words = [one.words for one in compared]
    request_words = [one.words for one in request.questions]
    # As many are compared in either way, or the longer comparison would win by its length.
    both = max(min(len(stored_words), len(request_words) - 1), 0)
    as_stored = _matches(stored_words[:both], request_words[:both])
    one_more = _matches(stored_words[:both], request_words[1 : both + 1])
    return 1 if one_more >= as_stored else 0


def _matches(words: Sequence[str], others: Sequence[str]) -> int:
    return sum(map(eq, words, others))


def excess(window: int, room: int | None, tokens: int, beside: int, estimated: int) -> int:
    """Tokens that a request has too much: beside the answer, and beside what estimates may lack.

    Args:
        window: the model's window.
        room: the most that the request may have; None where an answer's usual share is enough.
        tokens: the whole request.
        beside: of these what goes beside all messages. Where it leaves little, the chat gets most
            of that.
        estimated: of these what no service or provider has counted.
    """
    left = max(window - beside, 0)
    wanted = window - room if room else 0
    answer = max(min(wanted, left // 2), min(window // 8, left // 3))
    unsure = int(min(estimated, left) * _UNCOUNTED)
    return tokens - window + max(answer, unsure)


def summarised(messages: int, before: int, after: int) -> str:
    """The status line of a request with a summary; `before` and `after` are tokens."""
    for digits in (0, 1):
        whole, sent = (f"{size / 1000:.{digits}f}k" for size in (before, after))
        if whole != sent:
            return f"Summarised {messages} earlier messages: {whole} → {sent} tokens"
    return f"Summarised {messages} earlier messages"
