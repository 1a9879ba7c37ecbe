"""What a connection may take before a request reaches the application: bytes, fields, time, and company.

uvicorn reads heads of any size and waits for them, and for bodies that have stopped, for ever. This
is its httptools protocol with bounds, because its h11 protocol, which has one for the size, answers
1.3 times as slowly, and neither has one for time. Refusals are problems, as all other errors are.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from service.api import problems
from service.errors import BadRequest, Busy, HeadTooLarge, Problem, TooSlow
from service.settings import Settings

HEAD = (
    2**16
)  # bytes of a request line and its fields; also of what surrounds the parts of a chunked body
FIELDS = 100
_WAITING = 16  # requests that a client may send on one connection before the first is answered
_LINGER = (
    1.0  # seconds that a refused client has to read the answer: closed at once, it would be lost
)
_MOMENT = 0.05  # seconds

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections may be open, and how many seconds a head, or the next part of a body, may take."""

    connections: int = 1000
    patience: float = 10.0

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        """The limits that are set."""
        return cls(settings.max_connections, settings.request_timeout)


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: Limits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._awaited: Literal["nothing", "head", "body"] = "head"
        self._came = self._since = (
            self.loop.time()
        )  # the newest data; a head's beginning, or a body's last part
        self._extra = 0  # bytes of the head so far, or since the last part of a body
        self._watch: asyncio.TimerHandle | None = None
        self._reason: Problem | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuses one connection too many, and looks after the others."""
        super().connection_made(transport)
        if self._too_many():
            self._refuse(
                Busy("the service has as many connections as it takes; try again in a moment")
            )
            return
        self._look_again(self._limits.patience)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops looking after it."""
        if self._watch:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes what has come, if it is not too much."""
        if self._refused:
            return
        self._came = self.loop.time()
        if self._awaited != "body" and not self._extra:
            self._await(
                "head"
            )  # also by a line end alone, which ends uvicorn's own time for idle connections
        self._extra += len(data)
        super().data_received(data)
        if self._extra > HEAD and not self._refused:
            self._refuse(_too_large())

    def on_message_begin(self) -> None:
        """A request line begins, perhaps in the same piece as the end of the request before."""
        if self._awaited == "nothing":
            self._await("head")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Takes a head, if it is not too large. An error ends the parsing; `send_400_response` tells the reason."""
        # Most heads come in one small piece, which need not be measured.
        if len(self.headers) > FIELDS or (self._extra > HEAD and self._size() > HEAD):
            self._reason = _too_large()
            raise self._reason
        if len(self.pipeline) >= _WAITING:
            self._reason = BadRequest(f"more than {_WAITING} requests wait on this connection")
            raise self._reason
        self._extra = 0
        self._await("body")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Part of a body has come."""
        self._extra = 0
        self._since = self._came
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there as a whole; how long an idle connection is kept is uvicorn's matter."""
        self._extra = 0
        self._awaited = "nothing"
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words for it
        """Called by uvicorn for what cannot be parsed."""
        self._refuse(self._reason or BadRequest("this is no HTTP/1.1 request"))

    def _too_many(self) -> bool:
        """Connections that were refused do not count: they are open only until the client has read why."""
        most = self._limits.connections
        if len(self.connections) <= most:
            return False
        return (
            sum(isinstance(one, BoundedProtocol) and not one._refused for one in self.connections)
            > most
        )

    def _size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _await(self, what: Literal["nothing", "head", "body"]) -> None:
        self._awaited = what
        self._since = self._came

    def _look_again(self, seconds: float, last: bool = False) -> None:
        """One timer for each connection, not one for each request: the hot read does not pay for it."""
        self._watch = self.loop.call_later(seconds, self._look, last)

    def _look(self, last: bool) -> None:
        if self._awaited == "nothing":
            self._look_again(self._limits.patience)
            return
        if self.flow.read_paused or (
            self._awaited == "body" and self.cycle.waiting_for_100_continue
        ):
            self._since = self.loop.time()  # it is the service that lets the client wait
        left = self._since + self._limits.patience - self.loop.time()
        if left > 0:
            self._look_again(left)
        elif not last:
            self._look_again(
                _MOMENT, last=True
            )  # what has come while this loop was busy is read before
        elif self._awaited == "head" and not self._extra:
            self.transport.close()  # it has asked nothing, so it gets no answer
        else:
            self._refuse(
                TooSlow(
                    f"the rest of the {self._awaited} did not come within {self._limits.patience:g} s"
                )
            )

    def _refuse(self, problem: Problem) -> None:
        """Answers if nothing else is being answered on this connection, and ends it."""
        self._refused = True
        self._unset_keepalive_if_required()
        if self._watch:
            self._watch.cancel()
        log.info("connection.refused", problem=problem.type, awaited=self._awaited)
        if not self._may_answer():
            self.transport.close()
            return
        if self._awaited == "body":  # the application learns that the client is gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.pause_reading()
        self.transport.write(_whole(problem, self.server_state.default_headers))
        self.transport.write_eof()
        self._watch = self.loop.call_later(_LINGER, self.transport.abort)

    def _may_answer(self) -> bool:
        if self._awaited == "body":
            return not (self.cycle.response_started or self.pipeline)
        under_way: RequestResponseCycle | None = (
            self.cycle
        )  # None before the first request, whatever uvicorn says
        return under_way is None or under_way.response_complete


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(
        f"a request's head has {HEAD} bytes and {FIELDS} fields at most", bytes=HEAD, fields=FIELDS
    )


def _whole(problem: Problem, common: list[tuple[bytes, bytes]]) -> bytes:
    """The answer as it goes over the line."""
    response = problems.answer(problem)
    fields = [*common, *response.raw_headers, (b"connection", b"close")]
    head = STATUS_LINE[response.status_code] + b"".join(b"%b: %b\r\n" % field for field in fields)
    return head + b"\r\n" + bytes(response.body)
