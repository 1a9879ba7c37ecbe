"""What uvicorn does not bound of a connection: how many there are, how large a head is, silence.

Whoever reaches the port can open connections, so memory and open files have to suffice for them.
Clients that send slowly are the work of a proxy in front (docs/howto/tls.md).
"""

import asyncio
from typing import Final

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST: Final = 1000
"""Connections at a time. Each is an open file, of which many systems give a process 1,024."""
# Bytes of a request line and its fields; also of what surrounds the parts of a chunked body.
_HEAD: Final = 2**16
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"retry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)

log = structlog.get_logger(__name__)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `_unread` counts bytes since a head, or a part of a body, was complete."""

    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuses one connection too many, and closes one on which nothing is asked."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            log.warning("connection.refused", most=MOST)
            transport.write(_FULL)
            transport.close()
            return
        # uvicorn itself sets it only after an answer.
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def data_received(self, data: bytes) -> None:
        """Parses new bytes, and refuses a head that is too large."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > _HEAD and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have {_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body came."""
        self._unread = 0
        super().on_body(body)
