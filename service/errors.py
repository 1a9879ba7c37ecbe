"""Every error that Precis raises on purpose.

    PrecisError
    ├── ConfigurationError      a setting is missing or wrong
    ├── EmbeddedServerError     the embedded PostgreSQL or Valkey cannot run
    ├── NothingHere             the data folder has no database
    ├── SchemaError             the database is not at the migration that this version needs
    │   └── SchemaNewer         a newer version has migrated it
    ├── OpenWebUIError          Open WebUI does not do what the installer asks
    ├── SummariserError         the summariser gave no usable answer
    │   └── SummariserAway      its server is away, overloaded, or refuses everybody
    ├── UnknownEncoding         a newer version stored what is to be read
    ├── TextTooHard             a text took more time or memory than work on it may
    ├── TextWorkFailed          work on a text raised an error
    ├── TextProcessAway         no text process could be started
    └── Problem                 answered to an HTTP client as application/problem+json (RFC 9457)
        ├── BadRequest                  400
        ├── Unauthorised                401
        ├── WrongScope                  403
        ├── NotFound                    404
        ├── TooSlow                     408
        ├── Conflict                    409
        ├── TooLarge                    413
        ├── Unprocessable               422
        ├── FilterTooOld                426
        ├── HeadTooLarge                431
        └── Unavailable                 503
            └── Busy                    503

A class's docstring is its title for people; the message says what, where and how to mend it, and
never has words of a chat. What an error of a library says may quote one: only its `trace` is
logged.
"""

import traceback
from typing import ClassVar


def trace(error: BaseException) -> str:
    """An error and what it was raised from for the log: classes and places in the code, no words.

    What an error says may quote what it failed on: a text, or a row of the database.
    """
    told: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        frames = traceback.format_list(traceback.extract_tb(one.__traceback__))
        told.append("".join([*frames, type(one).__qualname__]))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\nraised from:\n".join(told)


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
    """Open WebUI does not do what the installer asks."""


class SummariserError(PrecisError):
    """The summariser gave no usable answer.

    `str()` says in words of ours what kind of failure it was, and may be shown and logged anywhere.
    `detail` may quote the answer, which may quote the chat: it is for the runs of that chat alone.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.detail = detail or kind


class SummariserAway(SummariserError):
    """The summariser's server is away, overloaded, or refuses everybody."""


class UnknownEncoding(PrecisError):
    """A newer version stored what is to be read."""


class TextTooHard(PrecisError):
    """A text took more time or memory than work on it may, or crashed its process.

    `kind` is `time`, `memory` or `crash`.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"a text is too hard ({kind}): {detail}")
        self.kind = kind


class TextWorkFailed(PrecisError):
    """Work on a text raised an error; the message names its type and its place, no text."""


class TextProcessAway(PrecisError):
    """No text process could be started, which says nothing about the text."""


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
    """The request is not understood."""

    status = 400
    type = "bad-request"


class Unauthorised(Problem):
    """The API key is missing, unknown or revoked."""

    status = 401
    type = "unauthorised"


class WrongScope(Problem):
    """The API key does not have the scope that this endpoint needs."""

    status = 403
    type = "wrong-scope"


class NotFound(Problem):
    """There is no such thing in this tenant."""

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


class TooLarge(Problem):
    """The request is larger than this service takes."""

    status = 413
    type = "too-large"


class Unprocessable(Problem):
    """The request is well-formed, but its content contradicts itself."""

    status = 422
    type = "unprocessable"


class FilterTooOld(Problem):
    """The filter in Open WebUI is older than this service takes."""

    status = 426
    type = "filter-too-old"


class HeadTooLarge(Problem):
    """The head of the request is larger than this service takes."""

    status = 431
    type = "head-too-large"


class Unavailable(Problem):
    """Something that the service needs is away; the same request may succeed in a moment."""

    status = 503
    type = "unavailable"


class Busy(Unavailable):
    """The service has as much to do as it takes at once; the same request may succeed in a moment."""

    type = "busy"
