"""The arq worker for real: woken by rings, saved by sweeps, and it loses nothing when it ends or Redis does."""

import asyncio
import json
import os
import pickle
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import CliRunner
from redis.asyncio import Redis

from service.cli import app
from service.clients.summarisers import make_summariser
from service.clients.wake_ups import JOB, Queue
from service.embedded.process import find_free_port
from service.errors import ConfigurationError
from service.runtime import Urls
from service.summarising.reading import Finish, Reading, Reply
from service.usecases.compress import WorkerContext
from tests import constants
from tests.conftest import METRICS_TOKEN, Service
from tests.fakes.scripted_llm import Behaviour, Fail, Hang, Say, ScriptedLLM, scripted_llm
from tests.service.talk import Talk, long_chat, row, rows, run_sql
from tests.waiting import until
from workers import worker as worker_module
from workers.jobs import sweep
from workers.worker import run_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def at_work(service: Service, worker_context: WorkerContext | None = None) -> AsyncIterator[None]:
    """A worker of its own connections, as a process of a fleet has it."""
    redis = service.runtime.urls.redis
    queue = await Queue.connect(redis)
    try:
        async with run_worker(worker_context or service.runtime.worker_context, queue, redis):
            yield
    finally:
        await queue.close()


async def ready(talk: Talk, leaf: str) -> None:
    async def is_ready() -> bool:
        return bool((await talk.ask(leaf))["status"] == "ready")

    await until(is_ready)


async def outcomes(service: Service) -> list[str]:
    """Of the runs with a model, oldest first."""
    return [
        one.outcome for one in await rows(service.runtime, "select outcome from runs where not by_code order by id")
    ]


@asynccontextmanager
async def asking(
    service: Service, *script: Behaviour, **more: object
) -> AsyncIterator[tuple[ScriptedLLM, WorkerContext]]:
    """A model that follows a script and then says the same always, and a bench that asks it."""
    async with scripted_llm(Say("At last.")) as llm, httpx.AsyncClient() as http:
        llm.script(*script)
        asked = {"summariser": "openai", "summariser_url": llm.openai_url, "summariser_model": "scripted"}
        settings = service.runtime.settings.model_copy(update=asked | more)
        usual = service.runtime.worker_context
        yield llm, replace(usual, settings=settings, summariser=make_summariser(settings, http))


class Gated:
    """A summariser that thinks until it is let go."""

    name = "gated"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.calls = 0

    async def summarise(self, reading: Reading) -> Reply:
        assert reading.excerpts
        self.calls += 1
        self.asked.set()
        await self.go.wait()
        return Reply(f"Story {self.calls}.", Finish.STOP)


async def test_a_sweep_rings_again_although_arq_still_knows_the_first_ring(service: Service) -> None:
    """Of a ring whose place in the queue was lost, arq keeps the id, and takes no other ring of that id."""
    talk, leaf = await long_chat(service.as_filter)
    async with Redis.from_url(service.runtime.urls.redis) as redis:
        assert await redis.delete("arq:queue") == 1
        assert await redis.keys("arq:job:*")

    async with at_work(service):
        await ready(talk, leaf)


async def test_a_hand_over_during_the_work_is_not_lost(service: Service) -> None:
    gated = Gated()
    constants.change(sweep_every=60)  # wake-ups alone have to do it
    worker_context = replace(service.runtime.worker_context, summariser=gated)
    async with at_work(service, worker_context):
        talk, leaf = await long_chat(service.as_filter)
        await gated.asked.wait()
        grown = talk.turns(20, leaf=leaf)
        await talk.ingest(grown)
        await talk.ingest(grown)
        gated.go.set()

        async def all_done() -> bool:
            return (await row(service.runtime, "select due_at from chats")).due_at is None

        await until(all_done)
    newest = await row(service.runtime, "select max(covered_messages) as covered from checkpoints")
    assert newest.covered > 28
    assert gated.calls == 2


async def test_failed_work_is_tried_again_by_itself(service: Service) -> None:
    async def done() -> bool:
        return (await outcomes(service))[-1:] == ["done"]

    constants.change(sweep_every=60)  # wake-ups alone have to do it
    async with asking(service, Fail(400)) as (_, worker_context), at_work(service, worker_context):
        talk, leaf = await long_chat(service.as_filter)
        await until(done)
    assert "At last." in (await talk.ask(leaf))["summary"]
    assert await outcomes(service) == ["failed", "done"]


@pytest.mark.parametrize(("jobs", "calls", "workers"), [(4, 4, 1), (1, 4, 1), (1, 6, 2), (2, 1, 1)])
async def test_a_model_that_never_answers_keeps_no_chat_from_a_summary_by_code(
    service: Service, monkeypatch: pytest.MonkeyPatch, jobs: int, calls: int, workers: int
) -> None:
    constants.change(sweep_every=60)  # wake-ups alone have to do it
    monkeypatch.setattr(worker_module, "_GRACE", 0.1)
    async with AsyncExitStack() as stack:
        asked = asking(service, worker_jobs=jobs, summariser_calls=calls)
        llm, worker_context = await stack.enter_async_context(asked)
        llm.default = Hang()
        for number in range(workers):
            worker = replace(worker_context, worker=f"worker-{number}")
            await stack.enter_async_context(at_work(service, worker))
        chats = [await long_chat(service.as_filter, f"chat-{number}") for number in range(calls + jobs + 2)]

        for talk, leaf in chats:
            await ready(talk, leaf)

        await llm.received(calls)
        assert len(llm.requests) == calls, "and no more calls than the setting allows"


async def test_a_stop_lets_work_finish(service: Service) -> None:
    gated = Gated()
    async with at_work(service, replace(service.runtime.worker_context, summariser=gated)):
        await long_chat(service.as_filter)
        await gated.asked.wait()
        asyncio.get_running_loop().call_soon(gated.go.set)

    assert await outcomes(service) == ["done"]
    assert len(await rows(service.runtime, "select 1 from checkpoints where kind = 'llm'")) == 1


async def test_a_stop_gives_back_work_that_does_not_end_and_the_attempt_does_not_count(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_GRACE", 0.1)
    async with asking(service, Hang()) as (llm, worker_context), at_work(service, worker_context):
        talk, leaf = await long_chat(service.as_filter)
        await llm.received(1)

    chat = await row(service.runtime, "select *, due_at <= now() as due from chats")
    assert (chat.attempts, chat.lease_token, chat.due) == (0, None, True)
    assert await outcomes(service) == ["released"]

    async with at_work(service):
        await ready(talk, leaf)


async def test_a_ring_that_a_killed_worker_had_taken_is_forgotten_within_a_minute(service: Service) -> None:
    """A hundred of them hold up the whole queue: arq reads no further, and passes over what somebody has taken."""
    gated = Gated()
    async with at_work(service, replace(service.runtime.worker_context, summariser=gated)):
        await long_chat(service.as_filter)
        await gated.asked.wait()
        async with Redis.from_url(service.runtime.urls.redis) as redis:
            taken = await redis.keys(f"arq:in-progress:{JOB}:*")  # a sweep may have rung at the same time
            left = [await redis.pttl(one) for one in taken]
            assert 0 < max(left) <= 60_000
            assert -1 not in left  # for ever
        gated.go.set()


async def test_jobs_are_json_and_name_no_chat(service: Service) -> None:
    await long_chat(service.as_filter)

    async with Redis.from_url(service.runtime.urls.redis) as redis:
        (name,) = await redis.keys("arq:job:*")
        job = json.loads(await redis.get(name))

    assert job["f"] == JOB
    assert job["a"] == []
    assert job["k"] == {}


class Bomb:
    """What whoever may write to Redis would like a worker to load."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.place,)


async def test_a_pickle_in_the_queue_is_not_loaded_and_stops_nobody(service: Service, tmp_path: Path) -> None:
    place = tmp_path / "exploded"
    async with Redis.from_url(service.runtime.urls.redis) as redis:
        await redis.set("arq:job:bomb", pickle.dumps({"t": 1, "f": JOB, "a": (Bomb(place),), "k": {}, "et": 1}))
        await redis.zadd("arq:queue", {"bomb": 1})

    async with at_work(service):
        talk, leaf = await long_chat(service.as_filter)
        await ready(talk, leaf)

        async def taken() -> bool:
            async with Redis.from_url(service.runtime.urls.redis) as redis:
                return not await redis.exists("arq:job:bomb")

        await until(taken)
    assert not place.exists()


async def test_a_sweep_leaves_alone_what_is_not_due_or_worked_on(service: Service) -> None:
    for number, change in enumerate(
        [
            "due_at = null, code_at = null",
            "due_at = now() + interval '1 hour', code_at = null",
            "lease_until = now() + interval '1 hour', code_at = null",
            "code_until = now() + interval '1 hour'",
            "attempts = 0",
        ]
    ):
        await long_chat(service.as_filter, f"chat-{number}")
        await run_sql(service.runtime, f"update chats set {change} where external_id = 'chat-{number}'")
    async with Redis.from_url(service.runtime.urls.redis) as redis:
        await redis.flushall()

        await sweep({"context": service.runtime.worker_context, "queue": service.runtime.queue, "job_id": "cron:1"})

        assert len(await redis.keys("arq:job:*")) == 1  # for chat-4


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hush-hush@{host}:{port}/0",
        "http://u:hush-hush@127.0.0.1",
        "redis://u:hush-hush@127.0.0.1?ssl_ca_certs=/ca.pem",
        "rediss://u:hush-hush@127.0.0.1?ssl_cert_reqs=perhaps",
    ],
)
async def test_a_redis_that_does_not_let_us_in_at_the_start_is_told_in_one_line(url: str, servers: Urls) -> None:
    real = urlsplit(servers.redis)

    with pytest.raises(ConfigurationError, match="PRECIS_REDIS_URL") as refused:
        await Queue.connect(url.format(host=real.hostname, port=real.port))

    assert "hush-hush" not in str(refused.value)


async def test_a_redis_that_is_away_at_the_start_is_no_reason_not_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.clients.wake_ups._PATIENCE", 0.2)

    queue = await Queue.connect(f"redis://127.0.0.1:{find_free_port()}/0")

    assert await queue.wake() is False
    await queue.close()


async def test_a_worker_gives_signs_of_life_and_none_when_it_has_ended(service: Service) -> None:
    queue = service.runtime.queue
    assert not await queue.has_worker()

    async with at_work(service):
        await until(queue.has_worker)

    async with Redis.from_url(service.runtime.urls.redis) as redis:
        (left,) = [await redis.pttl(key) for key in await redis.keys("*:health-check")]
    assert 0 < left <= 11_000, "a worker that ended or hangs gives no sign after eleven seconds"


async def test_a_worker_serves_its_life_and_its_metrics_on_a_port_of_its_own(service: Service, tmp_path: Path) -> None:
    urls, port = service.runtime.urls, find_free_port()
    ours = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis, "PRECIS_WORKER_PORT": str(port)}
    ours |= {"PRECIS_METRICS_TOKEN": METRICS_TOKEN}
    process = await asyncio.create_subprocess_exec(
        *(*constants.precis(), "worker"),
        env=os.environ | ours | {"PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

            async def lives() -> bool:
                assert process.returncode is None
                with suppress(httpx.ConnectError):
                    return (await client.get("/livez")).is_success
                return False

            await until(lives, every=0.1)
            asked = await asyncio.to_thread(CliRunner().invoke, app, ["healthcheck", "--worker"], env=ours)
            assert asked.exit_code == 0
            shown = (await client.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})).text
            assert "precis_run_duration_seconds_bucket" in shown
            assert "precis_build_info" in shown
    finally:
        process.terminate()
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
