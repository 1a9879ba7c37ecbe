"""TLS to PostgreSQL and Redis: a URL in, what drivers need out.

The URL of PostgreSQL has the words of libpq (`sslmode`, `sslrootcert`, …), that of Redis those of
redis-py (`ssl_ca_certs`, …). No driver reads them: each has its own rules of what is checked, so
all get an address without these words, and one context. Little is imported here: `precis status`
answers from it.
"""

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Literal, NamedTuple, get_args
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from service.errors import ConfigurationError

_SYSTEM: Final = "system"  # libpq's word for the authorities that the machine trusts
# As in the filter, whose rule for `http://` this is.
_INSIDE: Final = (".localhost", ".local", ".internal", ".svc", ".svc.cluster.local")

Mode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)
_MAY_BE_PLAIN: Final = ("disable", "allow", "prefer")
_NO: Final = ("0", "f", "false", "n", "no")  # as redis-py reads them
# A connection that ended: the server may just be restarting.
_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
# What OpenSSL calls a certificate of another name, of another address.
_OTHER_NAME: Final = (62, 64)


class Server(NamedTuple):
    """What is said of one of the two servers; `words` are those for TLS that its URL may have."""

    name: str
    setting: str
    form: str
    port: int
    words: tuple[str, ...]
    authorities: str


_POSTGRES: Final = Server(
    "PostgreSQL",
    "PRECIS_DATABASE_URL",
    "postgresql",
    5432,
    ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword"),
    "sslrootcert",
)
_REDIS: Final = Server(
    "Redis",
    "PRECIS_REDIS_URL",
    "redis",
    6379,
    ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"),
    "ssl_ca_certs",
)


class Checked(NamedTuple):
    """What is checked of a server, and with which files; an empty path is none.

    Without `authorities`, a checked server's certificate is one that this machine trusts.
    """

    certificate: bool
    name: bool
    authorities: str = ""
    own: str = ""
    own_key: str = ""
    own_password: str = ""


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a server is, and how it is spoken to.

    `url` has no words for TLS any more. With `context` there is TLS or no connection; without it
    `mode` says what libpq calls it, None when the URL says nothing.
    """

    server: Server
    url: str = field(repr=False)
    host: str
    port: int
    context: ssl.SSLContext | None = None
    checked: Checked | None = None
    mode: Mode | None = None

    @property
    def of_driver(self) -> ssl.SSLContext | Mode | None:
        """The argument `ssl` of asyncpg."""
        return self.context or self.mode

    @property
    def is_socket(self) -> bool:
        """Whether it is a Unix socket, which carries no TLS."""
        return self.host.startswith("/")


def postgres(url: str) -> Reached:
    """Where PostgreSQL is.

    Raises:
        ConfigurationError: the words for TLS are none, contradict each other, or name files that
            cannot be used.
    """
    parts = _split(_POSTGRES, url)
    words, rest = _words(_POSTGRES, parts)
    said = dict(rest)
    host = unquote(parts.hostname or said.get("host") or "localhost")
    port = parts.port or _number(said.get("port")) or _POSTGRES.port
    mode = _mode(words)
    if mode is None or mode in _MAY_BE_PLAIN:
        if named := [word for word in words if word != "sslmode"]:
            raise ConfigurationError(
                f"PRECIS_DATABASE_URL says {named[0]} without a sslmode that checks it: add"
                " sslmode=verify-full"
            )
        return Reached(_POSTGRES, _without(words, url, rest), host, port, mode=mode)
    checked = _checked_postgres(mode, words)
    context = _context(_POSTGRES, checked)
    return Reached(_POSTGRES, _without(words, url, rest), host, port, context, checked, mode)


def redis(url: str) -> Reached:
    """Where Redis is; its URL begins with `redis://` then, also with TLS.

    Raises:
        ConfigurationError: as `postgres`.
    """
    parts = _split(_REDIS, url)
    words, rest = _words(_REDIS, parts)
    host = parts.path if parts.scheme == "unix" else unquote(parts.hostname or "localhost")
    port = parts.port or _REDIS.port
    if parts.scheme == "rediss":
        plain = url.replace("rediss://", "redis://", 1)
        checked = _checked_redis(words)
        context = _context(_REDIS, checked)
        return Reached(_REDIS, _without(words, plain, rest), host, port, context, checked)
    if words:
        raise ConfigurationError(
            f"PRECIS_REDIS_URL says {next(iter(words))}, but begins with {parts.scheme}://, which"
            " is plain: write rediss://"
        )
    return Reached(_REDIS, url, host, port, mode="disable")


def warnings(database: Reached, queue: Reached) -> list[str]:
    """Which of the two somebody on the way could read, or pose as: only where the way is public."""
    found = []
    if doubt := _doubt(database):
        found.append(
            f"PRECIS_DATABASE_URL goes to {database.host} {doubt}: add"
            " ?sslmode=verify-full&sslrootcert=FILE (docs/howto/tls.md)"
        )
    if doubt := _doubt(queue):
        found.append(
            f"PRECIS_REDIS_URL goes to {queue.host} {doubt}: write"
            " rediss://…?ssl_ca_certs=FILE (docs/howto/tls.md)"
        )
    return found


def refusal(error: BaseException | None, where: Reached) -> str | None:
    """Why there is no TLS with a server, and what to do; None when TLS is not the reason.

    The error is what a driver raised, perhaps from what OpenSSL said.
    """
    found = next((one for one in _chain(error) if isinstance(one, ssl.SSLError)), None)
    if found is None or isinstance(found, _ENDED):
        return None
    at = f"{where.server.name} at {where.host}:{where.port}"
    setting, word = where.server.setting, where.server.authorities
    if not isinstance(found, ssl.SSLCertVerificationError):
        return (
            f"there is no TLS with {at}: {found.reason or found}. Does it speak TLS on this port,"
            f" and does it want a certificate that {setting} has to name?"
        )
    why = found.verify_message.rstrip(".")
    if found.verify_code in _OTHER_NAME:
        return (
            f"{at} has a certificate of another name: {why}. Write the name that is in the"
            f" certificate into {setting}, or give the server a certificate of this name"
        )
    return (
        f"{at} has a certificate that is not trusted: {why}. Name the certificate of the authority"
        f" that signed it with {word} in {setting}"
    )


def _split(server: Server, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # read only now, and perhaps no number
    except ValueError:
        raise ConfigurationError(
            f"{server.setting} is not an address of the form {server.form}://…; in its password,"
            " @, / and : are written as %40, %2F and %3A"
        ) from None
    return parts


def _number(said: str | None) -> int | None:
    """A port that stands among the words of a query, as libpq has it for sockets."""
    if said is None:
        return None
    if not (said.isascii() and said.isdecimal()):
        raise ConfigurationError(f"PRECIS_DATABASE_URL says port={said}, which is no number")
    return int(said)


def _words(server: Server, parts: SplitResult) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The words of a query that are about TLS, and all others."""
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    ours = {word: value for word, value in pairs if _is_of_tls(word)}
    # Passed on, some connections would fail of them, and others ignore them.
    if strange := [word for word in ours if word not in server.words]:
        raise ConfigurationError(
            f"{server.setting} says {strange[0]}, which is not known here: leave it out. For TLS"
            f" it may say {', '.join(server.words)}"
        )
    return ours, [(word, value) for word, value in pairs if not _is_of_tls(word)]


def _is_of_tls(word: str) -> bool:
    return word.startswith("ssl") or word == "channel_binding"


def _without(words: dict[str, str], url: str, rest: list[tuple[str, str]]) -> str:
    """A URL that is left with these words of its query."""
    if not words:
        return url
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    return url.partition("?")[0] + query


def _mode(words: dict[str, str]) -> Mode | None:
    said = words.get("sslmode")
    if said is None:
        return None
    found = next((mode for mode in _MODES if mode == said), None)
    if found is None:
        raise ConfigurationError(
            f"PRECIS_DATABASE_URL says sslmode={said}: it is one of {', '.join(_MODES)}"
        )
    return found


def _checked_postgres(mode: Mode, words: dict[str, str]) -> Checked:
    """As libpq has it, but for the files of a home folder, which are never looked for."""
    authorities = words.get("sslrootcert", "")
    if not authorities and mode != "require":
        raise ConfigurationError(
            f"PRECIS_DATABASE_URL says sslmode={mode} without sslrootcert: name the file with the"
            " certificate of the authority that signed the server's, or write sslrootcert=system"
            " if this machine trusts it"
        )
    if authorities == _SYSTEM and mode != "verify-full":
        raise ConfigurationError(
            f"PRECIS_DATABASE_URL says sslmode={mode} with sslrootcert=system, with which any"
            " server that has a public certificate would do: write sslmode=verify-full"
        )
    return Checked(
        certificate=bool(authorities),
        name=mode == "verify-full",
        authorities="" if authorities == _SYSTEM else authorities,
        own=words.get("sslcert", ""),
        own_key=words.get("sslkey", ""),
        own_password=words.get("sslpassword", ""),
    )


def _checked_redis(words: dict[str, str]) -> Checked:
    wanted = words.get("ssl_cert_reqs", "required")
    if wanted not in ("required", "none"):
        raise ConfigurationError(
            f"PRECIS_REDIS_URL says ssl_cert_reqs={wanted}: it is required or none"
        )
    is_checked = wanted == "required"
    if not is_checked and words.get("ssl_ca_certs"):
        raise ConfigurationError(
            "PRECIS_REDIS_URL says ssl_ca_certs with ssl_cert_reqs=none, which checks nothing:"
            " leave the second out"
        )
    # redis-py 5.3 leaves the name unchecked unless it is told; whoever holds any certificate of
    # the same authority could pose as the server.
    is_named = words.get("ssl_check_hostname", "true").lower() not in _NO
    return Checked(
        certificate=is_checked,
        name=is_checked and is_named,
        authorities=words.get("ssl_ca_certs", ""),
        own=words.get("ssl_certfile", ""),
        own_key=words.get("ssl_keyfile", ""),
    )


def _context(server: Server, checked: Checked) -> ssl.SSLContext:
    name = server.setting
    if checked.own_key and not checked.own:
        raise ConfigurationError(
            f"{name} names {checked.own_key}, a key, without its certificate: add it"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checked.name
    context.verify_mode = ssl.CERT_REQUIRED if checked.certificate else ssl.CERT_NONE
    if checked.authorities:
        _load(name, checked.authorities, lambda: context.load_verify_locations(checked.authorities))
    elif checked.certificate:
        context.load_default_certs()
    if checked.own:
        key = checked.own_key or None
        # Without a password given here, OpenSSL would ask for it at the terminal.
        _load(
            name,
            " or ".join(filter(None, (checked.own, checked.own_key))),
            lambda: context.load_cert_chain(checked.own, key, lambda: checked.own_password),
        )
    return context


def _load(name: str, files: str, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{name} names {files}, which is no certificate or key that can be used:"
            f" {error.reason or error}. It has to be PEM, and a key that of its certificate"
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"{name} names {files}, which cannot be read: {error.strerror}."
            " Correct the path, or let the user that Precis runs as read the file"
        ) from error


def _doubt(where: Reached) -> str | None:
    if where.is_socket or _is_inside(where.host):
        return None
    if where.checked is None:
        return "without TLS" if where.mode == "disable" else "perhaps without TLS"
    if not where.checked.certificate:
        return "by TLS that takes any certificate"
    if not where.checked.name:
        return "by TLS that takes a certificate of any name"
    return None


def _is_inside(host: str) -> bool:
    """Whether nobody on the way can read along."""
    name = host.rstrip(".").lower()
    if name.endswith(_INSIDE):
        return True
    try:
        return not ip_address(name.partition("%")[0]).is_global
    except ValueError:
        return "." not in name  # as in a network of containers


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised from or while handling them."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
