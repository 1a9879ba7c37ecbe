"""Whether others on the network could read what is sent to an address."""

from ipaddress import ip_address
from urllib.parse import urlsplit

_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".svc", ".svc.cluster.local")


def is_private(url: str) -> bool:
    """Whether nobody else can read what is sent to a URL: by https, or on a private network."""
    parts = urlsplit(url)
    return parts.scheme != "http" or is_inside(parts.hostname or "")


def is_inside(host: str) -> bool:
    """Whether a host, by its name or address, is on this machine or on a private network."""
    host = host.rstrip(".")
    if host.endswith(_PRIVATE_ENDINGS):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host  # containers call each other by such names
