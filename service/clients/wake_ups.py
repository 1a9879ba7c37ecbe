"""Wakes workers. Only this module and `workers` know arq.

A wake-up message is a hint. If it is lost (Redis was flushed, down or full), the sweep finds the
work in the database; if it comes twice, the lease admits one worker. So no error of Redis fails a
request.
"""

import asyncio
import json
import ssl
from datetime import timedelta
from urllib.parse import urlsplit
from uuid import uuid4

import structlog
from arq import ArqRedis
from arq.constants import default_queue_name, health_check_key_suffix
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisUnreachable
from redis.exceptions import TimeoutError as RedisTimeout

from service.errors import ConfigurationError

JOB = "compress"
HEARTBEAT = 10  # seconds between two heartbeats of a worker
_HEARTBEAT_KEY = default_queue_name + health_check_key_suffix
_PATIENCE = 2.0  # seconds that a request may wait for Redis
_EXPIRES = timedelta(hours=1)  # an older wake-up is worthless: the sweep has found its work

log = structlog.get_logger(__name__)


def make_client(url: str) -> ArqRedis:
    """A client of the queue, with retries, so that a worker survives a restart of Redis.

    It connects at its first command. The caller closes it.
    """
    redis: ArqRedis = ArqRedis.from_url(
        url,
        retry=Retry(ExponentialBackoff(cap=1, base=0.05), 20),
        retry_on_error=[RedisError, OSError],
        retry_on_timeout=True,
    )
    redis.job_serializer, redis.job_deserializer = serialize_job, deserialize_job
    return redis


def serialize_job(payload: dict[str, object]) -> bytes:
    """A job as JSON.

    Arq's default is pickle, which would let anybody who writes to Redis run code.
    """
    return json.dumps(payload, default=str).encode()


def deserialize_job(data: bytes) -> dict[str, object]:
    """The opposite of `serialize_job`."""
    payload: dict[str, object] = json.loads(data)
    return payload


class Queue:
    """Wakes workers."""

    def __init__(self, redis: ArqRedis) -> None:
        self._redis = redis

    @classmethod
    async def connect(cls, url: str) -> "Queue":
        """Connects to Redis, or Valkey.

        If the server does not answer, a log line says so, and the process starts: sweeps make up
        for lost wake-ups.

        Raises:
            ConfigurationError: redis-py does not accept the URL, the server rejected the
                credentials, or its certificate is not trusted.
        """
        try:
            # This client does not retry: with retries, a wrong password would look like a timeout.
            async with asyncio.timeout(_PATIENCE), Redis.from_url(url) as once:
                await once.ping()
        except (AuthenticationError, ResponseError) as error:
            raise ConfigurationError(
                f"Redis at {urlsplit(url).hostname} rejected the credentials: {error}."
                " Is PRECIS_REDIS_URL right?"
            ) from error
        except (RedisUnreachable, RedisTimeout, OSError) as error:
            # Unlike a server that is down, this does not pass, and nobody would notice it.
            if isinstance(error.__context__, ssl.SSLCertVerificationError):
                raise ConfigurationError(
                    f"the certificate of Redis is not trusted: {error}."
                    " Does ssl_ca_certs in PRECIS_REDIS_URL name the authority that signed it?"
                ) from error
            log.warning("queue.redis_away", error=repr(error))
        except (RedisError, TypeError) as error:
            raise ConfigurationError(
                f"PRECIS_REDIS_URL has a parameter that redis-py does not accept: {error}"
            ) from error
        except ValueError:  # its message may quote the password
            raise ConfigurationError(
                "PRECIS_REDIS_URL is not a URL of the form redis://… or rediss://…"
            ) from None
        return cls(make_client(url))

    async def wake(self, key: str | None = None, delay: float = 0) -> bool:
        """Wakes a worker in `delay` seconds; False, and a log line, if Redis does not accept it.

        A wake-up names no chat: the worker claims the chat whose turn it is. Arq drops a job whose
        id it knows, so several wake-ups with one `key` wake once, and each ingest has a new key.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._redis.enqueue_job(
                    JOB,
                    _job_id=f"{JOB}:{key or uuid4().hex}",
                    _defer_by=timedelta(seconds=delay),
                    _expires=_EXPIRES,
                )
        except (RedisError, OSError) as error:
            log.warning("queue.silent", key=key, error=repr(error))
            return False
        return True

    async def ping(self) -> None:
        """Makes one round trip; raises the driver's error if Redis does not answer."""
        async with asyncio.timeout(_PATIENCE):
            await self._redis.ping()

    async def has_worker(self) -> bool:
        """Whether a worker was alive some seconds ago; raises as `ping` does.

        Workers write a key every `HEARTBEAT` seconds. It expires a second after the next write is
        due.
        """
        async with asyncio.timeout(_PATIENCE):
            return bool(await self._redis.exists(_HEARTBEAT_KEY))

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()
