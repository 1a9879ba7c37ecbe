"""Every error that Precis raises on purpose.

    PrecisError
    ├── ConfigurationError      a setting is missing or wrong
    ├── EmbeddedServerError     the embedded PostgreSQL or Valkey cannot run
    ├── NothingHere             the data folder has no database
    ├── SchemaError             the database is not at the migration that this version needs
    │   └── SchemaNewer         a newer version has migrated it
    ├── OpenWebUIError          Open WebUI refused or failed what the installer asked
    ├── SummariserError         the summariser gave no usable answer
    │   └── SummariserAway      its server is down, overloaded, or refuses everybody
    ├── UnknownEncoding         a newer version stored this data
    ├── CannotOpen              a sealed text is not where it was stored
    ├── TextTooHard             a text needs more time or memory than is allowed
    ├── TextWorkFailed          work on a text raised an error
    ├── TextProcessAway         no text process could be started
    └── Problem                 answered to an HTTP client as application/problem+json (RFC 9457)
        ├── BadRequest                  400
        ├── Unauthorised                401
        ├── WrongScope                  403
        ├── Forbidden                   403
        ├── NotTheirs                   403
        ├── WrongNetwork                403
        ├── OverQuota                   403
        ├── NotFound                    404
        ├── TooSlow                     408
        ├── Conflict                    409
        ├── Gone                        410
        ├── SealedForGood               410
        ├── TooLarge                    413
        ├── WrongMedia                  415
        ├── WrongHost                   421
        ├── Unprocessable               422
        ├── FilterTooOld                426
        ├── TooMany                     429
        ├── HeadTooLarge                431
        └── Unavailable                 503
            ├── Busy                    503
            └── KeyMissing              503

The first line of a class's docstring is the title that people see. A message says what is wrong,
where, and how to fix it, and never quotes a chat. Messages of libraries may quote one, so of their
errors only the `trace` is logged.
"""

import traceback
from pathlib import Path
from typing import ClassVar

_OURS = Path(__file__).parent


def trace(error: BaseException) -> str:
    """An error and its causes for the log: classes and places in the code, without their messages.

    A message may quote what the code failed on: a text, or a row of the database.
    """
    causes: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    # A library may raise an error from itself: without `seen`, such a circle would never end.
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = traceback.format_list(traceback.extract_tb(current.__traceback__))
        causes.append("".join([*frames, type(current).__qualname__]))
        current = _cause(current)
    return "\nraised from:\n".join(causes)


def class_and_place(error: BaseException) -> str:
    """An error that nobody expected, in a line for operators: its class and where it was raised.

    The innermost place in our code, and where a library raised it. Never its message: see `trace`.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _OURS in Path(frame.filename).parents]
    places = dict.fromkeys(_place(frame) for frame in (*ours[-1:], *frames[-1:]))
    return f"unexpected {type(error).__name__} at {', '.join(places)}"


def _place(frame: traceback.FrameSummary) -> str:
    file = Path(frame.filename)
    shown = file.relative_to(_OURS) if _OURS in file.parents else file.name
    return f"{shown}:{frame.lineno} in {frame.name}"


def _cause(error: BaseException) -> BaseException | None:
    """What an error was raised from, as Python's own traceback chooses it."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


class PrecisError(Exception):
    """Precis could not do what was asked."""


class ConfigurationError(PrecisError):
    """A setting is missing or wrong."""


class EmbeddedServerError(PrecisError):
    """An embedded server cannot run."""


class NothingHere(PrecisError):
    """The data folder has no database."""


class SchemaError(PrecisError):
    """The database schema is not the one that this version needs."""


class SchemaNewer(SchemaError):
    """The database schema is newer than this version."""


class OpenWebUIError(PrecisError):
    """Open WebUI refused or failed what the installer asked."""


class SummariserError(PrecisError):
    """The summariser gave no usable answer.

    `str()` names the kind of failure in our own words, and may be shown and logged anywhere.
    `detail` may quote the answer, which may quote the chat: it is stored in that chat's runs only.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.detail = detail or kind


class SummariserAway(SummariserError):
    """The summariser's server is down, overloaded, or refuses everybody."""


class UnknownEncoding(PrecisError):
    """A newer version stored this data."""


class CannotOpen(PrecisError):
    """A sealed text cannot be opened: it was moved or changed in the database."""


class TextTooHard(PrecisError):
    """A text needs more time or memory than is allowed, or crashed its process.

    `kind` is `time`, `memory` or `crash`.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"a text is too hard ({kind}): {detail}")
        self.kind = kind


class TextWorkFailed(PrecisError):
    """Work on a text raised an error; the message is its `class_and_place`."""


class TextProcessAway(PrecisError):
    """No text process could be started, whatever the text."""


class Problem(PrecisError):
    """The request cannot be answered.

    `type` is the stable last part of the problem's URI (`urn:precis:problem:<type>`); clients may
    switch on it, so a class's type never changes.
    """

    status: ClassVar[int] = 500
    type: ClassVar[str] = "internal"

    def __init__(self, detail: str, **extensions: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extensions = extensions


class BadRequest(Problem):
    """The request could not be understood."""

    status = 400
    type = "bad-request"


class Unauthorised(Problem):
    """The API key is missing, unknown, revoked or expired."""

    status = 401
    type = "unauthorised"


class WrongScope(Problem):
    """The API key does not have the scope that this endpoint needs."""

    status = 403
    type = "wrong-scope"


class Forbidden(Problem):
    """A page of this service did not send this form."""

    status = 403
    type = "forbidden"


class NotTheirs(Problem):
    """This chat is another user's."""

    status = 403
    type = "not-theirs"


class WrongNetwork(Problem):
    """The API key may not be used from this address."""

    status = 403
    type = "wrong-network"


class OverQuota(Problem):
    """The tenant or the user has stored as much as is allowed."""

    # No 5xx: the filter would leave the service alone, also for what is stored already.
    status = 403
    type = "over-quota"


class NotFound(Problem):
    """This tenant has nothing under that id."""

    status = 404
    type = "not-found"


class TooSlow(Problem):
    """The request did not arrive in time."""

    status = 408
    type = "request-timeout"


class Conflict(Problem):
    """The request does not fit what is stored."""

    status = 409
    type = "conflict"


class SealedForGood(Problem):
    """The secrets of this tenant are not here, so nothing stored for it can be opened."""

    status = 410
    type = "sealed-for-good"


class Gone(Problem):
    """This was deleted, and is not stored again for a day."""

    status = 410
    type = "gone"


class TooLarge(Problem):
    """The request is larger than this service accepts."""

    status = 413
    type = "too-large"


class WrongMedia(Problem):
    """The body is of another kind than this endpoint takes."""

    status = 415
    type = "wrong-media"


class WrongHost(Problem):
    """This service does not answer to this name."""

    status = 421
    type = "wrong-host"


class Unprocessable(Problem):
    """The request is well-formed, but its content contradicts itself."""

    status = 422
    type = "unprocessable"


class FilterTooOld(Problem):
    """The filter in Open WebUI is older than this service accepts."""

    status = 426
    type = "filter-too-old"


class TooMany(Problem):
    """Too many attempts; try again later."""

    status = 429
    type = "too-many"

    def __init__(self, detail: str, retry_after: int) -> None:
        super().__init__(detail, retry_after=retry_after)
        self.retry_after = retry_after


class HeadTooLarge(Problem):
    """The head of the request is larger than this service accepts."""

    status = 431
    type = "head-too-large"


class Unavailable(Problem):
    """Something that the service needs does not answer; try again in a moment."""

    status = 503
    type = "unavailable"


class Busy(Unavailable):
    """The service is at one of its limits; try again in a moment."""

    type = "busy"


class KeyMissing(Unavailable):
    """This process was not given an encryption key that texts are sealed with."""

    # The filter knows it, and does not take the service for away.
    type = "key-missing"
