"""Who lives, as every process says it again and again, and what it found amiss at its start."""

import asyncio
import json

import pytest

from service.settings import Settings
from service.usecases import alive
from service.usecases.alive import living
from tests.conftest import Service, serving
from tests.fakes.http import Raw, head
from tests.fakes.http import serving as listening
from tests.service.talk import Json, Talk, rows, run_sql
from tests.waiting import until
from workers.worker import running as worker_running

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def status(service: Service) -> Json:
    seen: Json = (await service.as_operator.get("/v1/status")).json()
    return seen


async def test_work_is_stalled_while_no_worker_lives(service: Service) -> None:
    talk = Talk(service.as_filter)
    assert await talk.ingest(talk.turns(14))
    assert (await status(service))["stalled"]

    async with living(service.runtime.worker_context, "worker"):
        assert not (await status(service))["stalled"]
        await run_sql(service.runtime, "update heartbeats set seen_at = now() - interval '1 minute'")
        assert (await status(service))["stalled"], "one that says nothing any more does not count"
    assert not await rows(service.runtime, "select 1 from heartbeats where role = 'worker'"), "it ended"


async def test_a_process_says_again_and_again_that_it_lives(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alive, "HEARTBEAT", 0.05)
    async with living(service.runtime.worker_context, "worker"):
        await run_sql(service.runtime, "update heartbeats set seen_at = now() - interval '1 minute'")

        async def seen_again() -> bool:
            found = "select 1 from heartbeats where role = 'worker' and seen_at > now() - interval '9 seconds'"
            return bool(await rows(service.runtime, found))

        await until(seen_again)


async def test_an_arq_worker_lives(service: Service) -> None:
    runtime = service.runtime
    async with worker_running(runtime.worker_context, runtime.queue, runtime.urls.redis):
        assert "worker" in [one["role"] for one in (await status(service))["alive"]]


@pytest.mark.asyncio(loop_scope="function")
async def test_what_is_amiss_with_the_settings_stands_in_the_status(settings: Settings) -> None:
    told = settings.model_copy(update={"summariser_url": "http://127.0.0.1:1/v1"})
    async with serving(told) as service:
        assert "PRECIS_SUMMARISER is extractive" in json.dumps((await status(service))["advice"])
        ready = await service.as_operator.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["warnings"] == "1: see `precis status`"


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("kind", ["openai", "ollama"])
async def test_a_model_that_is_not_there_is_told_and_stops_nothing(settings: Settings, kind: str) -> None:
    listed = {"data": [{"id": "other"}]} if kind == "openai" else {"models": [{"name": "other:latest"}]}
    content = json.dumps(listed).encode()

    async def answer(_: Raw, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(head(200, len(content), {}) + content)
        return True

    async with listening(answer) as url:
        asks = {"summariser": kind, "summariser_url": url, "summariser_model": "mine"}
        async with serving(settings.model_copy(update=asks)) as service:

            async def told() -> bool:
                return bool(service.runtime.worker_context.warnings)

            await until(told)
            (warning,) = service.runtime.worker_context.warnings
            assert f"{url} has no model 'mine'; it has other" in warning
