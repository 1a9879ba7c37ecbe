"""The service over HTTP: its address, the key to send, and the errors when it refuses.

From the environment alone and with the standard library alone, because these commands should start
in a tenth of a second: neither the settings nor httpx are loaded.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from service.embedded.urls import KEY_FILE, find_announcement, make_address
from service.errors import ConfigurationError, PrecisError

_REMEDY: Final = (
    "Set PRECIS_KEY or PRECIS_KEY_FILE to an operator key; `precis keys create --first`, where the"
    " database is, makes one"
)
_ANSWER_SECONDS: Final = 300  # for a large erasure
_HEALTH_SECONDS: Final = 5
_NO_CONTENT: Final = 204
_UNAUTHORISED: Final = 401


class ServiceAddress(NamedTuple):
    """The address of a service, an operator's key, and what to do when it rejects the key."""

    url: str
    key: str
    remedy: str


class _Response(NamedTuple):
    status: int
    reason: str
    media_type: str
    body: bytes


def read_variable(name: str) -> str:
    """`PRECIS_NAME`, or the content of the file that `PRECIS_NAME_FILE` names; empty for neither.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    path = os.environ.get(f"PRECIS_{name}_FILE")
    if not path:
        return os.environ.get(f"PRECIS_{name}", "").strip()
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"PRECIS_{name}_FILE: {path} cannot be read: {error}") from None


def find_own_address(name: str = "PORT", default: str = "8377") -> str:
    """The address of a service with these settings, or of a worker on `WORKER_PORT`.

    Raises:
        ConfigurationError: the port is not a number.
    """
    port = read_variable(name) or default
    if not port.isdecimal():
        raise ConfigurationError(
            f"PRECIS_{name} is {port!r}: set it to a port; the worker of `precis serve` has none"
        )
    return make_address(read_variable("HOST") or "127.0.0.1", int(port))


def find_service() -> ServiceAddress:
    """The service of `PRECIS_URL` and `PRECIS_KEY`, or the one that runs on `PRECIS_DATA_DIR`.

    With a key alone: the one on the data folder, or at `PRECIS_HOST` and `PRECIS_PORT`.

    Raises:
        ConfigurationError: no service is named and none runs there, or there is no key.
        EmbeddedServerError: the data folder cannot be read.
    """
    url, key = read_variable("URL"), read_variable("KEY")
    if url and not key:
        raise ConfigurationError(f"PRECIS_URL is set, but no key. {_REMEDY}")
    folder = Path(read_variable("DATA_DIR") or "precis-data").absolute()
    about = find_announcement(folder)
    here = about["address"] if about else None
    if key:
        return ServiceAddress(url or here or find_own_address(), key, _REMEDY)
    if here is None:
        raise ConfigurationError(
            f"no Precis runs on {folder}: start `precis serve`, set PRECIS_DATA_DIR to its folder,"
            " or set PRECIS_URL and PRECIS_KEY (or PRECIS_KEY_FILE) for one that runs elsewhere"
        )
    file = folder / KEY_FILE
    if not file.is_file():
        raise ConfigurationError(f"{file} is missing: restart `precis serve`, which makes it again")
    remedy = f"Restart `precis serve`, which puts another one into {file}"
    return ServiceAddress(here, file.read_text().strip(), remedy)


def ask(
    method: str,
    *parts: object,
    query: Mapping[str, object] | None = None,
    body: object = None,
) -> Any:  # noqa: ANN401 - JSON
    """Returns the answer of the REST API; None for an empty one.

    `parts` are of the path behind `/v1`; a parameter of `query` that is None is left out.

    Raises:
        PrecisError: no service is found, nobody answers, or the request is refused.
    """
    service = find_service()
    headers = {"Authorization": f"Bearer {service.key}"}
    content = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        content = json.dumps(body).encode()
    url = f"{service.url.rstrip('/')}/v1/{_join_path(parts, query or {})}"
    response = _exchange(url, method, headers, content, _ANSWER_SECONDS)
    if response.status == _NO_CONTENT:
        return None
    if response.status == _UNAUTHORISED:
        raise PrecisError(
            f"{service.url} rejects the key: it is unknown, revoked or expired. {service.remedy}"
        )
    if response.media_type.startswith("application/problem+json"):
        raise PrecisError(json.loads(response.body)["detail"])
    is_success = 200 <= response.status < 300
    if not (is_success and response.media_type.startswith("application/json")):
        raise PrecisError(
            f"{service.url} answers {response.status} {response.reason}, but not as Precis does:"
            " set PRECIS_URL to the address of Precis"
        )
    return json.loads(response.body)


def check_well(*, worker: bool) -> None:
    """Raises PrecisError, with the reason, unless the service is ready, or the worker lives."""
    url = (
        f"{find_own_address('WORKER_PORT', '')}/livez" if worker else f"{find_own_address()}/readyz"
    )
    response = _exchange(url, "GET", {}, None, _HEALTH_SECONDS)
    if response.status != 200:
        text = response.body[:1000].decode(errors="replace")
        raise PrecisError(f"{url} answers {response.status}: {text}")


def _join_path(parts: tuple[object, ...], query: Mapping[str, object]) -> str:
    from urllib.parse import quote, urlencode

    present = {name: value for name, value in query.items() if value is not None}
    try:
        path = "/".join(quote(str(part), safe="") for part in parts)
        return f"{path}?{urlencode(present)}" if present else path
    except UnicodeEncodeError:
        raise PrecisError("an argument is not valid UTF-8") from None


def _exchange(
    url: str, method: str, headers: dict[str, str], content: bytes | None, seconds: float
) -> _Response:
    """Sends a request; redirects and the proxies of the environment are not followed.

    Raises:
        PrecisError: the URL is wrong, nobody answers, or the answer is cut off.
    """
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    place = url.partition("/v1/")[0]
    try:
        parsed = urlsplit(url)
        kind = {"http": HTTPConnection, "https": HTTPSConnection}[parsed.scheme]
        connection = kind(parsed.hostname or "", parsed.port, timeout=seconds)
    except (KeyError, ValueError):
        raise ConfigurationError(
            f"{place!r} is not an address: set PRECIS_URL to one such as http://127.0.0.1:8377"
        ) from None
    try:
        target = parsed._replace(scheme="", netloc="").geturl()
        connection.request(method, target, content, headers)
        answer = connection.getresponse()
        media_type = answer.getheader("Content-Type") or ""
        return _Response(answer.status, answer.reason, media_type, answer.read())
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PrecisError(
            f"no answer from {place}: {why}. Start `precis serve`, or set PRECIS_URL, or"
            " PRECIS_HOST and PRECIS_PORT, to its address"
        ) from error
    finally:
        connection.close()
