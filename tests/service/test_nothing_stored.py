"""The database answers and stores nothing: what is stored is served, and an upload is told why it is not."""

import pytest

from service.settings import Settings
from tests.conftest import execute, serving
from tests.service.talk import Talk


@pytest.mark.asyncio(loop_scope="function")
async def test_a_database_that_is_read_only_still_answers_questions(settings: Settings) -> None:
    assert settings.database_url
    url = settings.database_url.get_secret_value()
    name = url.rpartition("/")[2]
    async with serving(settings) as service:
        talk = Talk(service.as_filter)
        leaf = talk.turns(3)
        await talk.ingest(leaf)
        await execute(url, f"alter database {name} set default_transaction_read_only = on")
        await service.runtime.database.engine.dispose()

        refused = await talk.put(talk.transcript(talk.turns(2, leaf=leaf)))

        assert refused.status_code == 503
        assert "the database is read-only" in refused.json()["detail"]
        assert (await talk.ask(leaf))["known"] == leaf
        assert (await service.as_filter.get("/readyz")).status_code == 200
