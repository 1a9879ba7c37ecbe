"""The request id, from the filter's request to the summariser's call.

The filter sends one for each turn as `X-Request-ID`, and proxies may too. A request and a round of
work have it in structlog's context, so all their log lines have it as `request_id`.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from structlog.contextvars import bind_contextvars, get_contextvars, reset_contextvars

HEADER = "X-Request-ID"
# Those of proxies, UUIDs and trace ids; nothing that could pose as more in a line of the log.
_ACCEPTED = re.compile(r"[0-9A-Za-z._-]{1,64}")


def accept_id(sent: str) -> str:
    """The id that was sent, or a new one if it is empty or invalid."""
    return sent if _ACCEPTED.fullmatch(sent) else make_id()


def make_id() -> str:
    """A new id."""
    return secrets.token_hex(16)


def get_current() -> str | None:
    """The id to hand on; None outside of requests and rounds of work."""
    return get_contextvars().get("request_id")


@contextmanager
def use_id(request_id: str) -> Iterator[None]:
    """Puts the id on each log line inside."""
    before = bind_contextvars(request_id=request_id)
    try:
        yield
    finally:
        reset_contextvars(**before)
