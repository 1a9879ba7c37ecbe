"""The database answers and stores nothing: its disk is full, or it is read-only. Known, so nothing has a trace."""

from typing import Any

import asyncpg
import pytest

from service.settings import Settings
from service.storage import ingests
from tests.conftest import Service, execute, serving
from tests.service.talk import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def refuse(*_: Any, **__: Any) -> None:
    raise asyncpg.DiskFullError("could not extend file")


async def test_on_a_full_disk_an_upload_says_so_and_the_service_stays_ready(
    shared_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(shared_service.as_filter)
    monkeypatch.setattr(ingests, "look_up", refuse)

    refused = await talk.put(talk.transcript(talk.turns(3)))

    assert refused.status_code == 503
    assert "the disk of the database is full" in refused.json()["detail"]
    assert (await shared_service.as_filter.get("/readyz")).status_code == 200


@pytest.mark.asyncio(loop_scope="function")
async def test_a_database_that_is_read_only_is_not_ready(settings: Settings) -> None:
    assert settings.database_url
    url = settings.database_url.get_secret_value()
    name = url.rpartition("/")[2]
    async with serving(settings) as service:
        talk = Talk(service.as_filter)
        leaf = talk.turns(3)
        assert (await talk.put(talk.transcript(leaf))).status_code == 202
        await execute(url, f"alter database {name} set default_transaction_read_only = on")
        await service.runtime.database.engine.dispose()

        ready = await service.as_filter.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["database"] == "the database is read-only"
        refused = await talk.put(talk.transcript(talk.turns(2, leaf=leaf)))
        assert refused.status_code == 503
        assert "the database is read-only" in refused.json()["detail"]

        await execute(url, "set default_transaction_read_only = off", f"alter database {name} reset all")
        await service.runtime.database.engine.dispose()
