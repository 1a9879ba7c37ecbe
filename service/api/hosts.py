"""To which names the service answers: against pages elsewhere that rebind their own name to it.

A browser that was told that `attacker.example` is 127.0.0.1 takes what answers there for that
page's own site. It still says `Host: attacker.example`.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from starlette.types import Scope

from service.errors import Problem, ProblemType

# Probes name the pod's address, or whatever the balancer likes; they tell nothing.
_OPEN: Final = ("/livez", "/readyz")


def host_of(scope: Scope) -> str:
    """The name by which a request reached us, without its port."""
    headers: Mapping[bytes, bytes] = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_own(host: str) -> bool:
    """Whether nobody elsewhere can have a name: an address, `localhost`, or one without a dot."""
    if host.endswith(".localhost") or (host and "." not in host):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def check(scope: Scope, allowed: tuple[str, ...]) -> None:
    """Refuses a request unless its name is one of those allowed; none means any name.

    Raises:
        Problem: WRONG_HOST.
    """
    if not allowed or scope["path"] in _OPEN:
        return
    host = host_of(scope)
    if is_own(host) or any(_matches(host, one) for one in allowed):
        return
    raise Problem(
        f"this service does not answer to {host[:100]!r}; add it to PRECIS_ALLOWED_HOSTS",
        ProblemType.WRONG_HOST,
    )


def _matches(host: str, allowed: str) -> bool:
    if allowed.startswith("*."):
        return host.endswith(allowed[1:])
    return host == allowed
