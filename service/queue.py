"""Wakes workers: the only module, beside `workers`, that knows arq.

A wake-up message is a hint. When it is lost (Redis flushed, away, or full) the sweep finds the work
in the database; when it comes twice, the lease lets one worker in. So no error of Redis ever fails
a request.
"""

import asyncio
import json
from datetime import timedelta
from ssl import SSLContext
from typing import Any
from uuid import uuid4

import structlog
from arq import ArqRedis
from arq.connections import RedisSettings
from arq.constants import default_queue_name, health_check_key_suffix
from redis.asyncio import Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from service import tls
from service.errors import ConfigurationError
from service.tls import Reached

JOB = "compress"
HEARTBEAT = 10  # seconds between two signs of life of a worker
_HEARTBEAT_KEY = default_queue_name + health_check_key_suffix
_PATIENCE = 2.0  # seconds that a request may wait for Redis
_KEPT = timedelta(hours=1)  # an older wake-up is worthless: the sweep has been by

log = structlog.get_logger(__name__)


class _TlsConnection(SSLConnection):
    """A connection by TLS with a context of ours.

    redis-py's own would trust what the machine trusts beside the authorities that the URL names.
    """

    def __init__(self, *, tls_context: SSLContext, **more: Any) -> None:  # noqa: ANN401 - redis-py's
        super().__init__(**more)
        self.ssl_context.context = tls_context


def _of_driver(reached: Reached) -> dict[str, Any]:
    """Arguments of redis-py beside the URL."""
    if reached.context is None:
        return {}
    return {"connection_class": _TlsConnection, "tls_context": reached.context}


def redis_settings(url: str) -> RedisSettings:
    """Arq's settings, with retries, so that a worker outlives a restart of Redis.

    By default arq 0.28 ends on one.
    """
    reached = tls.redis(url)
    settings = RedisSettings.from_dsn(reached.url)
    settings.retry = Retry(ExponentialBackoff(cap=1, base=0.05), 20)
    settings.retry_on_error = [RedisError, OSError]
    settings.retry_on_timeout = True
    # Arq's own, each with all of the above: a wrong address was reported after 100 seconds.
    settings.conn_retries = 0
    if checked := reached.checked:
        settings.ssl = True
        settings.ssl_cert_reqs = "required" if checked.certificate else "none"
        settings.ssl_check_hostname = checked.name
        settings.ssl_ca_certs = checked.authorities or None
        settings.ssl_certfile = checked.own or None
        settings.ssl_keyfile = checked.own_key or None
    return settings


def client(url: str) -> ArqRedis:
    """A client of the queue, with these retries.

    It connects at its first command; the caller closes it.
    """
    settings, reached = redis_settings(url), tls.redis(url)
    redis: ArqRedis = ArqRedis.from_url(
        reached.url,
        retry=settings.retry,
        retry_on_error=settings.retry_on_error,
        retry_on_timeout=True,
        **_of_driver(reached),
    )
    redis.job_serializer, redis.job_deserializer = dumps, loads
    return redis


def dumps(payload: dict[str, object]) -> bytes:
    """A job as JSON.

    Arq's default is pickle, with which write access to Redis would be code execution.
    """
    return json.dumps(payload, default=str).encode()


def loads(data: bytes) -> dict[str, object]:
    """The opposite of `dumps`."""
    payload: dict[str, object] = json.loads(data)
    return payload


class Queue:
    """Wakes workers."""

    def __init__(self, redis: ArqRedis) -> None:
        self._redis = redis

    @classmethod
    async def connect(cls, url: str) -> "Queue":
        """Connects to Redis, or Valkey.

        One that is away is logged and not waited for: sweeps make up for lost wake-ups.

        Raises:
            ConfigurationError: the address is none, the server rejected the credentials, or is not
                who it should be.
        """
        reached = tls.redis(url)
        try:
            settings = redis_settings(url)
        except (AssertionError, RuntimeError, ValueError):
            raise ConfigurationError(
                "PRECIS_REDIS_URL is not an address of the form redis://…"
            ) from None
        try:
            # With a client that does not try again: of a wrong password, the other would only say
            # that it took long.
            once = Redis.from_url(reached.url, **_of_driver(reached))
            async with asyncio.timeout(_PATIENCE), once as probe:
                await probe.ping()
        except (AuthenticationError, ResponseError) as error:
            raise ConfigurationError(
                f"Redis at {settings.host}:{settings.port} rejected the credentials: {error}."
                " Is PRECIS_REDIS_URL right?"
            ) from error
        except (RedisError, OSError) as error:
            if why := tls.refusal(error, reached):
                raise ConfigurationError(why) from error
            log.warning(
                "queue.redis_away", host=settings.host, port=settings.port, error=repr(error)
            )
        return cls(client(url))

    async def wake(self, key: str | None = None, delay: float = 0) -> bool:
        """Wakes a worker in `delay` seconds; False, and a log line, when Redis does not take it.

        A wake-up names no chat: the worker takes the one whose turn it is. Those with the same
        `key` wake once, because arq drops a job whose id it knows; so a key must be new with every
        ingest.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._redis.enqueue_job(
                    JOB,
                    _job_id=f"{JOB}:{key or uuid4().hex}",
                    _defer_by=timedelta(seconds=delay),
                    _expires=_KEPT,
                )
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("queue.silent", key=key, error=repr(error))
            return False
        return True

    async def ping(self) -> None:
        """One round trip; raises whatever the driver raises when Redis does not answer."""
        async with asyncio.timeout(_PATIENCE):
            await self._redis.ping()

    async def has_worker(self) -> bool:
        """Whether a worker was alive some seconds ago; raises as `ping` does.

        Workers write a key when they look for jobs, every `HEARTBEAT` seconds. It expires a second
        after the next one should have come.
        """
        async with asyncio.timeout(_PATIENCE):
            return bool(await self._redis.exists(_HEARTBEAT_KEY))

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()
