"""The service over HTTP: where it is, which key to send, and what is said when it refuses.

From the environment alone and with the standard library alone, because these commands should start
in a tenth of a second: neither the settings nor httpx are loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.embedded.urls import KEY_FILE, announcement, reached_at
from service.errors import ConfigurationError, PrecisError

if TYPE_CHECKING:
    from http.client import HTTPResponse

_REMEDY: Final = (
    "Set PRECIS_KEY or PRECIS_KEY_FILE to an operator key; `precis keys create --first`, where the"
    " database is, makes one"
)
_ANSWERS: Final = 300  # seconds: a large erasure
_NOTHING: Final = 204
_UNAUTHORISED: Final = 401


class ServiceAddress(NamedTuple):
    """The address of a service, an operator's key, and what to do when it rejects the key."""

    url: str
    key: str
    remedy: str


def variable(name: str) -> str:
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


def own_address(name: str = "PORT", default: str = "8377") -> str:
    """Where a service with these settings listens, or a worker on `WORKER_PORT`.

    Raises:
        ConfigurationError: the port is no number.
    """
    port = variable(name) or default
    if not port.isdecimal():
        raise ConfigurationError(
            f"PRECIS_{name} is {port!r}, which is no port; the worker of `precis serve` has none"
        )
    return reached_at(variable("HOST") or "127.0.0.1", int(port))


def find_service() -> ServiceAddress:
    """The service of `PRECIS_URL` and `PRECIS_KEY`, or the one that runs on `PRECIS_DATA_DIR`.

    With a key alone: the one on the data folder, or at `PRECIS_HOST` and `PRECIS_PORT`.

    Raises:
        ConfigurationError: no service is named and none runs there, or there is no key.
        EmbeddedServerError: the data folder cannot be read.
    """
    url, key = variable("URL"), variable("KEY")
    if url and not key:
        raise ConfigurationError(f"PRECIS_URL is set, but no key. {_REMEDY}")
    folder = Path(variable("DATA_DIR") or "precis-data").absolute()
    about = announcement(folder)
    here = about["address"] if about else None
    if key:
        return ServiceAddress(url or here or own_address(), key, _REMEDY)
    if here is None:
        raise ConfigurationError(
            f"no Precis runs on {folder}: start `precis serve`, set PRECIS_DATA_DIR to its folder,"
            " or set PRECIS_URL and PRECIS_KEY (or PRECIS_KEY_FILE) for one that runs elsewhere"
        )
    file = folder / KEY_FILE
    if not file.is_file():
        raise ConfigurationError(f"{file} is not there: the next `precis serve` makes it again")
    remedy = f"The next `precis serve` makes another one in {file}"
    return ServiceAddress(here, file.read_text().strip(), remedy)


def ask(
    method: str,
    *parts: object,
    query: Mapping[str, object] | None = None,
    body: object = None,
) -> Any:  # noqa: ANN401 - JSON
    """What the REST API answers; None for nothing.

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
    url = _url(service.url, parts, query or {})
    with _exchange(url, method, headers, content, seconds=_ANSWERS) as answer:
        said = answer.read()
        kind = answer.getheader("Content-Type") or ""
    if answer.status == _NOTHING:
        return None
    if answer.status == _UNAUTHORISED:
        raise PrecisError(
            f"{service.url} rejects the key: it is unknown, revoked or expired. {service.remedy}"
        )
    if kind.startswith("application/problem+json"):
        raise PrecisError(json.loads(said)["detail"])
    if not (kind.startswith("application/json") and 200 <= answer.status < 300):
        raise PrecisError(
            f"{service.url} answers {answer.status} {answer.reason}, and not as Precis does: is"
            " PRECIS_URL its address?"
        )
    return json.loads(said)


def check_well(*, worker: bool) -> None:
    """Raises PrecisError, with the reason, unless the service is ready, or the worker lives."""
    url = f"{own_address('WORKER_PORT', '')}/livez" if worker else f"{own_address()}/readyz"
    with _exchange(url, "GET", {}, None, seconds=5) as answer:
        text = answer.read(1000).decode(errors="replace")
        if answer.status != 200:
            raise PrecisError(f"{url} answers {answer.status}: {text}")


def _url(base: str, parts: tuple[object, ...], query: Mapping[str, object]) -> str:
    from urllib.parse import quote, urlencode

    present = {name: value for name, value in query.items() if value is not None}
    # As the API reads them: `True` is no boolean of its own.
    parameters = {
        name: str(value).lower() if value is True else value for name, value in present.items()
    }
    try:
        path = "/".join(quote(str(part), safe="") for part in parts)
        query_string = urlencode(parameters, doseq=True)
    except UnicodeEncodeError:
        raise PrecisError("an argument is not valid UTF-8") from None
    return f"{base.rstrip('/')}/v1/{path}{'?' if query_string else ''}{query_string}"


@contextmanager
def _exchange(
    url: str, method: str, headers: Mapping[str, str], content: bytes | None, *, seconds: float
) -> Iterator[HTTPResponse]:
    """The answer of whoever listens there.

    Raises:
        PrecisError: the URL is none, nobody answers, or the answer ends before its end.
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
            f"{place!r} is no address: PRECIS_URL is one such as http://127.0.0.1:8377"
        ) from None
    target = f"{parsed.path}?{parsed.query}" if parsed.query else parsed.path
    try:
        connection.request(method, target, content, dict(headers))
        yield connection.getresponse()
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PrecisError(
            f"no answer from {place}: {why}. Is `precis serve` running, and is this its address?"
            " PRECIS_URL, or PRECIS_HOST and PRECIS_PORT, name another one"
        ) from error
    finally:
        connection.close()
