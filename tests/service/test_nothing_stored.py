"""The database answers and stores nothing: its disk is full, or it is read-only. Known, so nothing has a trace."""

import shutil
from typing import Any

import asyncpg
import pytest

from service.api import health
from service.settings import Settings
from service.storage import ingests
from tests.conftest import Service, execute, serving
from tests.service.talk import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def refuse(*_: Any, **__: Any) -> None:
    raise asyncpg.DiskFullError("could not extend file")


# What the try writes calls this instead of PostgreSQL's own, and so ends as on a disk that is full.
NO_ROOM = """create function public.md5(text) returns text language plpgsql as
    $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$"""


async def test_a_full_disk_is_told_until_a_write_goes_well_and_tried_only_after_a_refusal(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.database_url
    url = settings.database_url.get_secret_value()
    monkeypatch.setattr(health, "_TRY_AGAIN", 0)
    async with serving(settings) as service:
        probe = service.as_filter
        await execute(url, NO_ROOM, f"alter database {url.rpartition('/')[2]} set search_path = public, pg_catalog")
        await service.runtime.database.engine.dispose()
        assert (await probe.get("/readyz")).status_code == 200, "no probe writes while nothing was refused"
        talk = Talk(service.as_filter)
        with monkeypatch.context() as patched:
            patched.setattr(ingests, "look_up", refuse)
            assert (await talk.put(talk.transcript(talk.turns(3)))).status_code == 503
        for _ in range(2):
            still = await probe.get("/readyz")
            assert (still.status_code, still.json()["database"]) == (503, "the disk of the database is full")

        await execute(url, "drop function public.md5(text)")
        assert (await probe.get("/readyz")).status_code == 200
        assert (await probe.get("/readyz")).json()["database"] == "ok"


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


async def test_embedded_servers_are_not_ready_when_their_disk_is_full(
    shared_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 1

    runtime = shared_service.runtime
    given = runtime.settings
    object.__setattr__(runtime, "settings", given.model_copy(update={"database_url": None}))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Full)

    ready = await shared_service.as_filter.get("/readyz")

    object.__setattr__(runtime, "settings", given)
    assert ready.status_code == 503
    assert ready.json()["database"] == "the disk of the database is full"
