"""No test speaks to another machine: connections beyond loopback, and look-ups of foreign names, are refused and noted.

Only the servers that whoever runs the tests has named may be elsewhere. What a test starts as a process is not guarded.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

GIVEN = ("TEST_DATABASE_URL", "TEST_REDIS_URL", "DOCKER_HOST")


def given() -> set[str]:
    """The hosts of the servers that the environment names, and their addresses."""
    hosts = {urlsplit(os.environ[name]).hostname for name in GIVEN if name in os.environ} - {None, ""}
    addresses = {info[4][0] for host in hosts for info in socket.getaddrinfo(host, None)}
    return {str(one) for one in hosts | addresses}


def is_near(host: object, named: set[str]) -> bool:
    """Whether a host is this machine, or one of the named ones; a name other than `localhost` is not."""
    name = host.decode() if isinstance(host, bytes) else str(host or "")
    if name in ("", "localhost") or name in named:
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


@contextmanager
def only_loopback() -> Iterator[list[str]]:
    """Within it nobody gets further; yields what was tried."""
    tried: list[str] = []
    named = given()
    connect, getaddrinfo = socket.socket.connect, socket.getaddrinfo

    def check(host: object) -> None:
        if not is_near(host, named):
            tried.append(str(host))
            raise OSError(f"a test tried to reach {host!r}")

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            check(address[0])
        connect(self, address)

    def looked_up(host: Any, *args: Any, **more: Any) -> Any:
        check(_name(host))
        return getaddrinfo(host, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setattr(socket, "getaddrinfo", looked_up)
        yield tried


def _name(host: object) -> object:
    """A host that has to be looked up; an address has not, and whoever connects to it is checked then."""
    try:
        ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return host
    return None
