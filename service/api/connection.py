"""Bounds that uvicorn lacks: on the number of connections, the size of a head, and silence.

Whoever reaches the port can open connections, so memory and open files have to suffice for them.
An address has no share of them: all clients of a proxy have one address, and an attacker may have
many. When all places are taken, a new connection gets the place of the one that has waited longest
for its client.
"""

import asyncio
from typing import Final, cast

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

# Connections at a time. Each is an open file, and many systems give a process 1,024 of them: the
# others are for databases, logs and libraries.
_MOST: Final = 750
# Bytes of a request line and its fields; also of what surrounds the parts of a chunked body.
_HEAD: Final = 2**16
# Seconds from the first byte of a head to its end; also for the rest of a body that was answered
# before it was read.
_REST: Final = 10.0
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"retry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)

log = structlog.get_logger(__name__)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `_unread` counts bytes since a head, or a part of a body, was complete.

    `_is_begun` says that bytes of a request came, and that its end did not. While the client is
    waited for, `_deadline` closes the connection `_patience` seconds after `_waits_since`.
    """

    _unread = 0
    _is_begun = False
    _patience: float | None = None
    _waits_since = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuses a connection too many, unless another one can be closed in its place."""
        super().connection_made(transport)
        if len(self.connections) > _MOST and not self._close_longest_waiting():
            log.warning("connection.refused", most=_MOST)
            transport.write(_FULL)
            transport.close()
            return
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is waited for no more."""
        super().connection_lost(exc)
        if self._deadline:
            self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        """Parses new bytes, and refuses a head that is too large."""
        self._unread += len(data)
        self._is_begun = True
        super().data_received(data)
        if self._unread > _HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have {_HEAD} bytes.")
        self._set_deadline()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body came."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._is_begun = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is complete."""
        super().on_response_complete()
        self._set_deadline()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._set_deadline()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._set_deadline()

    def _set_deadline(self) -> None:
        """Sets the deadline if the client is waited for; more bytes of a head do not move it."""
        patience = self._patience_now()
        if patience == self._patience:
            return
        if self._deadline:
            self._deadline.cancel()
        self._patience, self._deadline, self._waits_since = patience, None, self.loop.time()
        if patience is not None:
            # Not `close`, which waits until the client has read all that was written.
            self._deadline = self.loop.call_later(patience, self.transport.abort)

    def _patience_now(self) -> float | None:
        """Seconds that the client may take for what it has to do now; None if it is our turn."""
        # None before the first request, though uvicorn's type does not say so.
        cycle = cast(RequestResponseCycle | None, self.cycle)
        is_answered = cycle is None or cycle.response_complete
        if is_answered and self._is_begun:
            return _REST
        if is_answered or self.flow.write_paused:
            return float(self.timeout_keep_alive)
        return None

    def _close_longest_waiting(self) -> bool:
        """Closes the connection that has waited longest for its client; False if none waits."""
        others = (cast(BoundedProtocol, one) for one in self.connections)
        waiting = [one for one in others if one._deadline and not one.transport.is_closing()]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: one._waits_since)
        log.warning("connection.replaced", most=_MOST)
        longest.transport.abort()
        return True
