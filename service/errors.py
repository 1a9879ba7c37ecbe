"""Every error that Precis raises on purpose.

    PrecisError
    ├── ConfigurationError      a setting is missing or wrong
    ├── EmbeddedServerError     the embedded PostgreSQL or Valkey cannot run
    ├── SchemaError             the database is not at the migration that this version needs
    │   └── SchemaNewer         a newer version has migrated it
    ├── OpenWebUIError          Open WebUI does not do what the installer asks
    ├── SummariserError         the summariser gave no usable answer
    │   └── SummariserAway      its server is away, overloaded, or refuses everybody
    └── Problem                 answered to an HTTP client as application/problem+json (RFC 9457)
        ├── BadRequest                  400
        ├── Unauthorised                401
        ├── WrongScope                  403
        ├── NotFound                    404
        ├── Conflict                    409
        ├── TooLarge                    413
        ├── Unprocessable               422
        ├── FilterTooOld                426
        └── Unavailable                 503

A class's docstring is its title for people; the message says what, where and how to mend it.
"""

from typing import ClassVar


class PrecisError(Exception):
    """Precis could not do what was asked."""


class ConfigurationError(PrecisError):
    """A setting is missing or wrong."""


class EmbeddedServerError(PrecisError):
    """An embedded server cannot run."""


class SchemaError(PrecisError):
    """The database schema is not the one that this version needs."""


class SchemaNewer(SchemaError):
    """The database schema is newer than this version."""


class OpenWebUIError(PrecisError):
    """Open WebUI does not do what the installer asks."""


class SummariserError(PrecisError):
    """The summariser gave no usable answer."""


class SummariserAway(SummariserError):
    """The summariser's server is away, overloaded, or refuses everybody."""


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


class Unavailable(Problem):
    """Something that the service needs is away; the same request may succeed in a moment."""

    status = 503
    type = "unavailable"
