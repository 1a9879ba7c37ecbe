"""Commands for encryption keys, a tenant that is erased, and its backups that nobody can open any more."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from service.runtime import Urls
from service.settings import load
from service.storage import keys
from tests.cli.conftest import Cli, says
from tests.conftest import fresh_database, sending
from tests.service.encrypted import FIRST, MARK, SECOND, columns, lived, service_with
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.talk import Talk


@pytest_asyncio.fixture(loop_scope="function")
async def other_urls(servers: Urls) -> AsyncIterator[Urls]:
    """A database for what is restored."""
    async with fresh_database(servers) as made:
        yield made


async def test_a_new_key_is_printed_that_settings_take(cli: Cli) -> None:
    made = (await cli("keys", "new-encryption-key")).stdout.strip()
    assert load(encryption_keys=made).sealing_keys.writes == 1

    next_one = (await cli("keys", "new-encryption-key", PRECIS_ENCRYPTION_KEYS=made)).stdout.strip()

    assert load(encryption_keys=f"{next_one},{made}").sealing_keys.writes == 2
    assert next_one[2:] != made[2:]


async def test_a_rotation_by_command_beside_a_running_service(cli: Cli, urls: Urls) -> None:
    async with service_with(urls, "") as harness:
        await harness.talk.ingest(harness.talk.turns(2))
    both = f"{SECOND},{FIRST}"
    for given, key in ((FIRST, 1), (both, 2), (f"none,{both}", None)):
        async with service_with(urls, given):
            done = await cli("keys", "rotate-encryption", PRECIS_ENCRYPTION_KEYS=given)
            assert done.exit_code == 0, done.output
        _, *held = done.stdout.splitlines()
        sealed_with = f"key {key}" if key else "nothing"
        assert held
        assert all(line.startswith(f"{sealed_with} ") for line in held)


async def of_other(harness: Harness) -> Talk:
    """The same chat of another tenant."""
    async with harness.runtime.database.engine.begin() as connection:
        key = await keys.create_key(connection, "other", "filter", "test")
    harness.http.headers.update(sending(key))
    harness.http.base_url = harness.service.url
    return Talk(harness.http)


async def test_of_a_restored_backup_nobody_reads_an_erased_tenant_and_others_go_on(
    cli: Cli, urls: Urls, other_urls: Urls, tmp_path: Path
) -> None:
    dump, salts, later = tmp_path / "dump", tmp_path / "salts", tmp_path / "later"
    key = {"PRECIS_ENCRYPTION_KEYS": FIRST}
    async with service_with(urls, FIRST) as harness:
        leaf = await lived(harness)
        talk = await of_other(harness)
        other_leaf = talk.turns(20, leaf=talk.add("marked", None, content="Never sell the qqother pump."))
        await talk.ingest(other_leaf)
        await harness.compress()
        said = await talk.ask(other_leaf)
        assert said["summary"]
        assert (await cli("backup", str(dump), "--secrets", str(salts), **key)).exit_code == 0
        assert (await cli("tenants", "erase", "default", "--yes", **key)).exit_code == 0
        assert (await cli("backup", str(tmp_path / "new"), "--secrets", str(later), **key)).exit_code == 0

    target = key | {"PRECIS_DATABASE_URL": other_urls.database}
    restored = await cli("restore", str(dump), "--secrets", str(later), "--yes", **target)

    assert restored.exit_code == 0, restored.output
    assert "The texts of tenant 'default' cannot be read" in restored.stdout
    assert "'other'" not in restored.stdout
    assert await columns(other_urls, MARK) == set()
    async with service_with(other_urls, FIRST) as again:
        again.talk.rows.update(harness.talk.rows)
        its = f"/v1/chats/{again.talk.chat}"
        handed = again.talk.turn(leaf)
        state = handed["state"] | {"above": again.talk.ids(leaf)[-1], "cut": "Left out 2 older messages"}
        operator, client = again.service.as_operator, again.talk.client
        refused = [
            await client.post("/v1/compress", json=again.talk.request(leaf)),
            await client.post("/v1/recall", json={"state": state, "query": MARK}),
            await again.talk.put(handed),
            await operator.get(its),
        ]
        for answer in refused:
            told = is_problem(answer, 410)
            assert told["type"] == "urn:precis:problem:sealed-for-good"
            assert "tenant 'default'" in told["detail"]
            assert "precis tenants erase" in told["detail"]
        assert not [answer for answer in refused if MARK in answer.text]
        assert (await operator.get("/v1/chats")).status_code == 200
        says(await cli("keys", "rotate-encryption", **target), "precis tenants erase")

        assert await (Talk((await of_other(again)).client, rows=talk.rows)).ask(other_leaf) == said
        await again.compress()

    assert (await cli("tenants", "erase", "default", "--yes", **target)).exit_code == 0
    assert (await cli("keys", "rotate-encryption", **target)).exit_code == 0
