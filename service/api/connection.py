"""Bounds that uvicorn lacks: on the number of connections, and on the size of a head and its time.

Whoever reaches the port can open connections, so memory and open files have to suffice for them.
uvicorn's `limit_concurrency` counts only when a head is complete: heads that never end would take
connections without a bound, and everybody's requests would be refused for them.
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
# Seconds until a head is complete; also for the rest of a body that was answered before it was
# read. They begin with the connection, or with the first byte after an answer.
_PATIENCE: Final = 10.0

log = structlog.get_logger(__name__)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `_unread` counts bytes since a head, or a part of a body, was complete."""

    _unread = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Closes a connection too many at once; those that are open go on."""
        super().connection_made(transport)
        if len(self.connections) > _MOST:
            log.warning("connection.refused", most=_MOST)
            transport.abort()
        else:
            self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is waited for no more."""
        super().connection_lost(exc)
        self._clear_deadline()

    def data_received(self, data: bytes) -> None:
        """Parses new bytes, and refuses a head that is too large."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > _HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have {_HEAD} bytes.")
        # None before the first request, though uvicorn's type does not say so.
        cycle = cast(RequestResponseCycle | None, self.cycle)
        if cycle is None or cycle.response_complete:
            self._set_deadline()
        else:
            self._clear_deadline()

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body came."""
        self._unread = 0
        super().on_body(body)

    def _set_deadline(self) -> None:
        """Sets the deadline if there is none yet: more bytes of a head do not move it."""
        if self._deadline is None:
            # Not `close`, which waits until the client has read all that was written.
            self._deadline = self.loop.call_later(_PATIENCE, self.transport.abort)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
