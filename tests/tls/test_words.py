"""What the URLs of PostgreSQL and Redis may say of TLS, and what becomes of it."""

import ssl
from collections.abc import Callable

import pytest

from service import tls
from service.errors import ConfigurationError
from service.tls import Reached
from tests.tls.authority import Authority

Reach = Callable[[str], Reached]
DATABASE = "postgresql://precis:p%2Fw@db.example.org:5433/precis"
QUEUE = "rediss://:p%2Fw@redis.example.org:6380/2"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


@pytest.mark.parametrize(
    ("words", "certificate", "name"),
    [
        ("sslmode=verify-full&sslrootcert={0}", True, True),
        ("sslmode=verify-full&sslrootcert=system", True, True),
        ("sslmode=verify-ca&sslrootcert={0}", True, False),
        ("sslmode=require&sslrootcert={0}", True, False),
        ("sslmode=require", False, False),
    ],
)
def test_the_words_of_libpq_say_what_is_checked_of_postgresql(
    authority: Authority, words: str, certificate: bool, name: bool
) -> None:
    reached = tls.postgres(f"{DATABASE}?{words.format(authority.certificate)}&target_session_attrs=any")

    assert reached.url == f"{DATABASE}?target_session_attrs=any"
    assert (reached.host, reached.port) == ("db.example.org", 5433)
    assert reached.context is not None
    assert reached.of_driver is reached.context
    assert (reached.context.verify_mode == ssl.CERT_REQUIRED, reached.context.check_hostname) == (certificate, name)


def test_only_the_named_authority_is_trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the machine trusts: another authority, as a variable of OpenSSL names it.
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(authority.certificate.parent, "public").certificate))
    named = f"ssl_ca_certs={authority.certificate}"
    for reached in (
        tls.postgres(f"{DATABASE}?sslmode=verify-full&sslrootcert={authority.certificate}"),
        tls.redis(f"{QUEUE}?{named}"),
    ):
        assert reached.context is not None
        (trusted,) = reached.context.get_ca_certs()
        assert trusted["subject"] == ((("commonName", "authority"),),)
    for reached in (tls.postgres(f"{DATABASE}?sslmode=verify-full&sslrootcert=system"), tls.redis(QUEUE)):
        assert reached.context is not None
        (trusted,) = reached.context.get_ca_certs()
        assert trusted["subject"] == ((("commonName", "public"),),)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_without_words_or_with_those_that_allow_plain_the_driver_decides(mode: str) -> None:
    assert tls.postgres(DATABASE) == Reached(tls.postgres(DATABASE).server, DATABASE, "db.example.org", 5433)
    reached = tls.postgres(f"{DATABASE}?sslmode={mode}")
    assert (reached.url, reached.of_driver) == (DATABASE, mode)


def test_redis_is_asked_for_its_name_unless_the_url_says_otherwise(authority: Authority) -> None:
    file = authority.certificate
    reached = tls.redis(f"{QUEUE}?ssl_ca_certs={file}&socket_timeout=5")
    assert reached.url == "redis://:p%2Fw@redis.example.org:6380/2?socket_timeout=5"
    assert reached.context is not None
    assert reached.context.check_hostname
    unnamed = tls.redis(f"{QUEUE}?ssl_ca_certs={file}&ssl_check_hostname=false").context
    assert unnamed is not None
    assert (unnamed.check_hostname, unnamed.verify_mode) == (False, ssl.CERT_REQUIRED)
    unchecked = tls.redis(f"{QUEUE}?ssl_cert_reqs=none").context
    assert unchecked is not None
    assert unchecked.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("reach", "url", "says"),
    [
        (tls.postgres, f"{DATABASE}?sslmode=verify", "sslmode=verify: it is one of disable, allow"),
        (tls.postgres, f"{DATABASE}?sslmode=verify-full", "without sslrootcert"),
        (tls.postgres, f"{DATABASE}?sslmode=verify-ca&sslrootcert=system", "write sslmode=verify-full"),
        (tls.postgres, f"{DATABASE}?sslrootcert=/ca.pem", "without a sslmode that checks it"),
        (tls.postgres, f"{DATABASE}?sslmode=prefer&sslrootcert=/ca.pem", "without a sslmode that checks it"),
        (tls.postgres, "postgresql:///precis?host=/run&port=x", "says port=x, which is no number"),
        (tls.postgres, f"{DATABASE}?ssl=require", "says ssl, which is not known here"),
        (tls.postgres, f"{DATABASE}?sslmode=require&channel_binding=require", "says channel_binding"),
        (tls.postgres, f"{DATABASE}?sslmode=verify-full&sslrootcert=/no/ca.pem", "names /no/ca.pem, which cannot be"),
        (tls.postgres, f"{DATABASE}?sslmode=require&sslkey=/key", "/key, a key, without its certificate"),
        (tls.postgres, f"{DATABASE}?sslmode=require&sslcert={__file__}", "which is no certificate or key"),
        (tls.postgres, "postgresql://precis:a/b@db/precis", "is not an address of the form postgresql://"),
        (tls.redis, f"{QUEUE}?ssl_ca_certs=/no/ca.pem", "names /no/ca.pem, which cannot be read"),
        (tls.redis, "redis://redis?ssl_ca_certs=/ca.pem", "which is plain: write rediss://"),
        (tls.redis, f"{QUEUE}?ssl_ca_certs=/ca.pem&ssl_cert_reqs=none", "which checks nothing"),
        (tls.redis, f"{QUEUE}?ssl_cert_reqs=perhaps", "it is required or none"),
        (tls.redis, f"{QUEUE}?ssl_ciphers=x", "says ssl_ciphers, which is not known here"),
    ],
)
def test_words_that_would_check_less_than_they_seem_to_are_refused(reach: Reach, url: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        reach(url)
    assert says in str(refused.value)
    assert str(refused.value).startswith(("PRECIS_DATABASE_URL ", "PRECIS_REDIS_URL "))
    assert "p%2Fw" not in str(refused.value)


def warned(database: str, queue: str) -> list[str]:
    return tls.warnings(tls.postgres(database), tls.redis(queue))


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "10.0.0.5", "[::1]", "postgres", "postgres.db.svc.cluster.local", "db.internal"]
)
def test_what_is_inside_needs_no_tls(host: str) -> None:
    assert warned(f"postgresql://{host}/precis", f"redis://{host}/0") == []


def test_a_socket_needs_no_tls() -> None:
    assert warned("postgresql:///precis?host=/run/postgresql", "unix:///run/valkey.sock") == []


@pytest.mark.parametrize(
    ("words", "doubt"),
    [
        ("", "perhaps without TLS"),
        ("?sslmode=prefer", "perhaps without TLS"),
        ("?sslmode=disable", "to db.example.org without TLS"),
        ("?sslmode=require", "by TLS that takes any certificate"),
        ("?sslmode=verify-ca&sslrootcert={0}", "by TLS that takes a certificate of any name"),
    ],
)
def test_a_public_way_that_somebody_could_read_is_warned_of(authority: Authority, words: str, doubt: str) -> None:
    (of_database,) = warned(DATABASE + words.format(authority.certificate), QUEUE)
    assert of_database.startswith("PRECIS_DATABASE_URL goes to db.example.org ")
    assert doubt in of_database


def test_a_public_way_to_redis_is_warned_of_and_one_that_is_checked_is_not(authority: Authority) -> None:
    checked = f"{DATABASE}?sslmode=verify-full&sslrootcert={authority.certificate}"
    assert warned(checked, QUEUE) == []
    (of_redis,) = warned(checked, QUEUE.replace("rediss", "redis"))
    assert of_redis.startswith("PRECIS_REDIS_URL goes to redis.example.org without TLS")
    assert len(warned(checked, f"{QUEUE}?ssl_cert_reqs=none")) == 1
    assert len(warned("postgresql://8.8.8.8/precis", "redis://8.8.8.8/0")) == 2


def test_a_reached_server_shows_no_password() -> None:
    reached = tls.postgres(DATABASE)
    assert "p%2Fw" not in repr(reached)
