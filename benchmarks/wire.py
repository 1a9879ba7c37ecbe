"""A minimal HTTP client: one kept connection, one request at a time, so that its own cost is small and always equal.

In: a method, a path, a body. Out: status and body. It blocks; in a benchmark nothing else is to run meanwhile.
"""

import json
import socket
from typing import Any


def request(method: str, path: str, key: str = "", body: object = None) -> bytes:
    """A whole request as bytes, to be made before the clock runs."""
    content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}"]
    head += ["Content-Type: application/json", f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(head).encode() + content


class Line:
    """The connection."""

    def __init__(self, port: int, seconds: float = 60) -> None:
        self._port, self._seconds = port, seconds
        self._socket = self._connected()

    def reconnect(self) -> None:
        """A new connection in place of one that was idle, and that the server may have closed."""
        self._socket.close()
        self._socket = self._connected()

    def send(self, whole: bytes) -> tuple[int, bytes]:
        """Status and body of the answer, which must have a length."""
        self._socket.sendall(whole)
        head, _, body = self._more(b"").partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body = self._more(body)
        return int(head[9:12]), body

    def json(self, whole: bytes) -> Any:  # noqa: ANN401 - JSON
        """The answer, which must be a good one."""
        status, body = self.send(whole)
        if not 200 <= status < 300:
            raise RuntimeError(f"status {status}: {body.decode(errors='replace')}")
        return json.loads(body)

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _connected(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=self._seconds)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _more(self, so_far: bytes) -> bytes:
        """Reads on; at the start of an answer until its head is there."""
        while True:
            some = self._socket.recv(2**16)
            if not some:
                raise ConnectionError("the server closed the connection")
            so_far += some
            if b"\r\n\r\n" in so_far or not so_far.startswith(b"HTTP/"):
                return so_far
