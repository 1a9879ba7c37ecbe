"""What a process finds amiss at its start stands in the status, and stops nothing."""

import asyncio
import json

import pytest

from service.settings import Settings
from tests.conftest import serving
from tests.fakes.http_server import Raw, head
from tests.fakes.http_server import serving as listening
from tests.waiting import until


async def test_what_is_amiss_with_the_settings_stands_in_the_status(settings: Settings) -> None:
    told = settings.model_copy(update={"summariser_url": "http://127.0.0.1:1/v1"})
    async with serving(told) as service:
        (warning,) = (await service.as_operator.get("/v1/status")).json()["warnings"]
        assert "PRECIS_SUMMARISER is extractive" in warning
        ready = await service.as_operator.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["warnings"] == "1: see `precis status`"


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
