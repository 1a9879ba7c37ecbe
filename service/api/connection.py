"""Limits on a connection before a request reaches the application: bytes, fields, time, number.

uvicorn reads heads of any size, and waits for ever for them and for bodies that have stopped. This
is its httptools protocol with limits. Its h11 protocol limits the size of heads but answers 1.3
times as slowly, and neither limits the time. Refusals are problems, like all other errors.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from uvicorn import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from service import metrics
from service.api import problems
from service.api.limits import network_of
from service.errors import BadRequest, Problem, ProblemType, TooMany

# Bytes of a request line and its fields; also of what surrounds the parts of a chunked body.
HEAD = 2**16
FIELDS = 100
# Requests that a client may send on one connection before the first is answered.
_WAITING = 16
# Of the connections that may be open, one address may have a quarter.
_SHARE = 4
# Seconds for all of a body, however steadily it comes; the filter waits 30 s for its answer.
_WHOLE_BODY = 60.0
# Seconds that a refused client has to read the answer, which would be lost if closed at once.
_LINGER = 1.0
# Seconds before a late client is refused: time to read what came while the event loop was busy.
_MOMENT = 0.05

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections may be open, and seconds for a head, or the next part of a body.

    Each connection is an open file, of which many systems give a process no more than 1,024. Who
    sends nothing for ten seconds in the middle of a request has gone, or means no good.
    """

    connections: int = 1000
    patience: float = 10.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    `_awaited` says what the client has to send next, and `_since` when that began: `_look` compares
    it with the clock, and `_body_since` too, when the body began. `_extra` counts bytes that are
    not part of a body. `_forwards` says that a trusted proxy has sent a request of somebody else.
    """

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
        # When the newest data came, and when the head began or the last part of a body came.
        self._came = self._since = self._body_since = self.loop.time()
        # Bytes of the head so far, or since the last part of a body.
        self._extra = 0
        self._watch: asyncio.TimerHandle | None = None
        self._reason: Problem | None = None
        self._refused = False
        self._address, self._forwards = "", False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuses the connection if there are too many, or begins to watch it."""
        super().connection_made(transport)
        self._address = network_of(self.client[0]) if self.client else ""
        if problem := self._too_many():
            self._refuse(problem)
            return
        self._look_again(self._limits.patience)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops watching it."""
        if self._watch:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parses new bytes, and refuses a head that is too large."""
        if self._refused:
            return
        self._came = self.loop.time()
        if self._awaited != "body" and not self._extra:
            # A line end alone begins a head too, because it ends uvicorn's own idle timeout.
            self._await("head")
        self._extra += len(data)
        super().data_received(data)
        if self._extra > HEAD and not self._refused:
            self._refuse(_too_large())

    def on_message_begin(self) -> None:
        """A request line begins, perhaps in the same bytes as the end of the request before it."""
        if self._awaited == "nothing":
            self._await("head")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Accepts a head within the limits."""
        self._reason = self._wrong_head()
        if self._reason:
            # Any error makes the parser call `send_400_response`, which answers with the reason.
            raise self._reason
        self._extra = 0
        self._await("body")
        self._body_since = self._came
        self._forwards = self._forwards or self._is_forwarded()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body came, so the client has its time again."""
        self._extra = 0
        self._since = self._came
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete; uvicorn closes connections that stay idle."""
        self._extra = 0
        self._awaited = "nothing"
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's message
        """Answers a request that could not be parsed; uvicorn calls it."""
        self._refuse(self._reason or BadRequest("this is not an HTTP/1.1 request"))

    def _too_many(self) -> Problem | None:
        """Why this connection is one too many, if it is."""
        most = self._limits.connections
        share = max(1, most // _SHARE)
        # The exact count costs a look at each connection, so it is taken at a limit only.
        if len(self.connections) <= share:
            return None
        counted = [one for one in self.connections if _counts(one)]
        if len(counted) > most:
            return Problem(
                f"the service has {most} open connections, its limit; try again in a moment",
                ProblemType.BUSY,
            )
        if self._address and sum(self._is_beside(one) for one in counted) > share:
            return _too_many_of_address(share)
        return None

    def _is_beside(self, other: object) -> bool:
        """Whether a connection counts for the same address; a proxy's are those of its clients."""
        assert isinstance(other, BoundedProtocol)
        return other._address == self._address and not other._forwards

    def _is_forwarded(self) -> bool:
        """Whether the head that was just read comes from a proxy that uvicorn trusts."""
        if not (self.client and isinstance(self.app, ProxyHeadersMiddleware)):
            return False
        if self.client[0] not in self.app.trusted_hosts:
            return False
        return any(name == b"x-forwarded-for" for name, _ in self.headers)

    def _wrong_head(self) -> Problem | None:
        """What is wrong with the head that was just read."""
        # Most heads come in few bytes, and need not be measured.
        if len(self.headers) > FIELDS or (self._extra > HEAD and self._size() > HEAD):
            return _too_large()
        if len(self.pipeline) >= _WAITING:
            return BadRequest(
                f"more than {_WAITING} requests wait on this connection; read the answers first"
            )
        return None

    def _size(self) -> int:
        separators = 4  # bytes: the colon and space of a field, and its line end
        fields = sum(len(name) + len(value) + separators for name, value in self.headers)
        return len(self.url) + fields

    def _await(self, what: Literal["nothing", "head", "body"]) -> None:
        self._awaited = what
        self._since = self._came

    def _look_again(self, seconds: float, last: bool = False) -> None:
        # One timer for each connection and not for each request: the hot read does not pay for it.
        self._watch = self.loop.call_later(seconds, self._look, last)

    def _look(self, last: bool) -> None:
        """Refuses the client if it is late; `last` is the second look at one that is."""
        if self._awaited == "nothing":
            self._look_again(self._limits.patience)
            return
        if self._waits_for_us():
            self._since = self._body_since = self.loop.time()
        left = self._deadline() - self.loop.time()
        if left > 0:
            self._look_again(left)
        elif not last:
            # What came while this loop was busy is read before the second look.
            self._look_again(_MOMENT, last=True)
        elif self._awaited == "head" and not self._extra:
            # It has asked nothing, so it gets no answer.
            self.transport.close()
        else:
            self._refuse(self._too_slow())

    def _deadline(self) -> float:
        """When the client is late, by the loop's clock."""
        next_part = self._since + self._limits.patience
        if self._awaited == "body":
            return min(next_part, self._body_since + _WHOLE_BODY)
        return next_part

    def _too_slow(self) -> Problem:
        if self._deadline() < self._since + self._limits.patience:
            why = f"the whole body did not arrive within {_WHOLE_BODY:g} s"
        else:
            why = (
                f"the rest of the {self._awaited} did not arrive within {self._limits.patience:g} s"
            )
        return Problem(why, ProblemType.TOO_SLOW)

    def _waits_for_us(self) -> bool:
        """Whether it is the service that lets the client wait."""
        if self.flow.read_paused:
            return True
        return self._awaited == "body" and self.cycle.waiting_for_100_continue

    def _refuse(self, problem: Problem) -> None:
        """Answers, unless another answer is under way on this connection, and closes it."""
        self._refused = True
        self._unset_keepalive_if_required()
        if self._watch:
            self._watch.cancel()
        log.info("connection.refused", problem=problem.type, awaited=self._awaited)
        metrics.CONNECTIONS_REFUSED.labels(problem.type).inc()
        if not self._may_answer():
            self.transport.close()
            return
        if self._awaited == "body":  # the application learns that no more of it comes
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.pause_reading()
        self.transport.write(_serialised(problem, self.server_state.default_headers))
        self.transport.write_eof()
        self._watch = self.loop.call_later(_LINGER, self.transport.abort)

    def _may_answer(self) -> bool:
        if self._awaited == "body":
            return not (self.cycle.response_started or self.pipeline)
        # None before the first request, whatever uvicorn's types say.
        under_way: RequestResponseCycle | None = self.cycle
        return under_way is None or under_way.response_complete


def _counts(connection: object) -> bool:
    """Whether a connection counts: a refused one is open only until its client has read why."""
    return isinstance(connection, BoundedProtocol) and not connection._refused


def _too_many_of_address(share: int) -> TooMany:
    return TooMany(
        f"this address has {share} open connections, a quarter of all; use them again, or close"
        " some (a proxy is not bounded so if it is named in FORWARDED_ALLOW_IPS and sends"
        " X-Forwarded-For)",
        retry_after=1,
    )


def _too_large() -> Problem:
    return Problem(
        f"the head of a request may have {HEAD} bytes and {FIELDS} fields at most;"
        " send fewer or shorter headers",
        ProblemType.HEAD_TOO_LARGE,
        bytes=HEAD,
        fields=FIELDS,
    )


def _serialised(problem: Problem, common: list[tuple[bytes, bytes]]) -> bytes:
    """The bytes of the whole HTTP response."""
    response = problems.answer(problem)
    fields = [*common, *response.raw_headers, (b"connection", b"close")]
    lines = [b"%b: %b\r\n" % field for field in fields]
    head = STATUS_LINE[response.status_code] + b"".join(lines)
    return head + b"\r\n" + bytes(response.body)
