"""Every error that Precis raises on purpose.

A `Problem` is answered to an HTTP client as application/problem+json (RFC 9457).

A message says what is wrong, where, and how to fix it, and never quotes a chat. Messages of
libraries may quote one, so of their errors only the `format_trace` is logged.
"""

import traceback
from enum import Enum
from pathlib import Path
from typing import ClassVar

_OURS = Path(__file__).parent


def format_trace(error: BaseException) -> str:
    """An error and its causes for the log: classes and places in the code, without their messages.

    A message may quote the text or the row of the database on which the code failed.
    """
    causes: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    # A library may raise an error from itself: without `seen`, such a circle would never end.
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = traceback.format_list(traceback.extract_tb(current.__traceback__))
        causes.append("".join([*frames, type(current).__qualname__]))
        current = _find_cause(current)
    return "\nraised from:\n".join(causes)


def describe_unexpected(error: BaseException) -> str:
    """An unexpected error in a line for operators, without its message: see `format_trace`.

    The line has the error's class, the innermost place in our code, and the place in a library
    that raised it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _OURS in Path(frame.filename).parents]
    places = dict.fromkeys(_format_place(frame) for frame in (*ours[-1:], *frames[-1:]))
    return f"unexpected {type(error).__name__} at {', '.join(places)}"


def _format_place(frame: traceback.FrameSummary) -> str:
    file = Path(frame.filename)
    path = file.relative_to(_OURS) if _OURS in file.parents else file.name
    return f"{path}:{frame.lineno} in {frame.name}"


def _find_cause(error: BaseException) -> BaseException | None:
    """The error from which another one was raised, as Python's own traceback chooses it."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


class PrecisError(Exception):
    """An error that Precis raises on purpose."""


class ConfigurationError(PrecisError):
    """A setting is missing or wrong."""


class EmbeddedServerError(PrecisError):
    """An embedded server cannot run."""


class SchemaError(PrecisError):
    """The database has another schema than this version needs."""


class SchemaNewer(SchemaError):
    """The database schema is newer than this version."""


class OpenWebUIError(PrecisError):
    """Open WebUI refused a request of ours, or failed on it."""


class SummariserError(PrecisError):
    """The summariser gave no usable answer.

    `str()` names the kind of failure in our own words, so it may be shown and logged anywhere.
    `detail` may quote the answer, and so the chat: it is stored in that chat's runs only.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.detail = detail or kind


class SummariserAway(SummariserError):
    """The summariser's server is down, overloaded, or refuses everybody."""


class CannotOpen(PrecisError):
    """A stored text cannot be read: a newer version wrote it, or somebody moved or changed it."""


class TextTooHard(PrecisError):
    """A text needs more time or memory than it may have, or crashed its process.

    `kind` is `time`, `memory` or `crash`.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"a text is too hard ({kind}): {detail}")
        self.kind = kind


class TextWorkFailed(PrecisError):
    """Work on a text raised an error; the message is its `describe_unexpected`."""


class TextProcessAway(PrecisError):
    """No text process could be started, whatever the text."""


class ProblemType(Enum):
    """Every type of problem: the last part of its URI, its status, and the title that people see.

    Clients may depend on a type (`urn:precis:problem:<type>`), so no type ever changes.
    """

    BAD_REQUEST = "bad-request", 400, "The request could not be understood."
    UNAUTHORISED = "unauthorised", 401, "The API key is missing, unknown, revoked or expired."
    WRONG_SCOPE = "wrong-scope", 403, "The scope of the API key does not allow this."
    NOT_THEIRS = "not-theirs", 403, "This chat is another user's."
    FORBIDDEN = "forbidden", 403, "This form was not sent by a page of this service."
    NOT_FOUND = "not-found", 404, "This tenant has nothing under that id."
    TOO_SLOW = "request-timeout", 408, "The request did not arrive in time."
    CONFLICT = "conflict", 409, "The request does not fit what is stored."
    GONE = "gone", 410, "This was deleted, and is not stored again for a day."
    SEALED = "sealed-for-good", 410, "The texts of this tenant cannot be opened any more."
    TOO_LARGE = "too-large", 413, "The request is larger than this service accepts."
    WRONG_MEDIA = "wrong-media", 415, "This endpoint does not accept a body of this kind."
    UNPROCESSABLE = "unprocessable", 422, "A value in the request is not accepted."
    FILTER_TOO_OLD = "filter-too-old", 426, "The filter is older than this service accepts."
    TOO_MANY = "too-many", 429, "Too many attempts; try again later."
    INTERNAL = "internal", 500, "The service failed on this request."
    UNAVAILABLE = "unavailable", 503, "Something that the service needs does not answer."
    BUSY = "busy", 503, "The service is at one of its limits; try again in a moment."
    # The filter knows this type, and does not count it as a failure of the service.
    KEY_MISSING = "key-missing", 503, "This process lacks a key that texts are sealed with."


class Problem(PrecisError):
    """The request cannot be answered.

    `extensions` are further members of the answer. A type has a class of its own if many places
    raise it or code catches it.
    """

    usual: ClassVar[ProblemType] = ProblemType.INTERNAL

    def __init__(self, detail: str, kind: ProblemType | None = None, **extensions: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.type, self.status, self.title = (kind or self.usual).value
        self.extensions = extensions


class BadRequest(Problem):
    """The request could not be understood."""

    usual = ProblemType.BAD_REQUEST


class NotFound(Problem):
    """This tenant has nothing under that id."""

    usual = ProblemType.NOT_FOUND


class Conflict(Problem):
    """The request does not fit what is stored."""

    usual = ProblemType.CONFLICT


class TooLarge(Problem):
    """The request is larger than this service accepts."""

    usual = ProblemType.TOO_LARGE


class Unprocessable(Problem):
    """The request is well-formed, but has a value that is not accepted."""

    usual = ProblemType.UNPROCESSABLE


class Unavailable(Problem):
    """Something that the service needs does not answer; try again in a moment."""

    usual = ProblemType.UNAVAILABLE


class KeyMissing(Problem):
    """This process was not given an encryption key that texts are sealed with."""

    usual = ProblemType.KEY_MISSING
