"""Commands for encryption keys, a tenant that is erased, and its backups that nobody can open any more."""

import json
from pathlib import Path

import pytest

from service.errors import CannotOpen
from service.runtime import Urls
from service.settings import load
from service.storage import messages
from service.storage.tenancy import ChatKey
from tests.cli.conftest import Cli, says
from tests.service.encrypted import FIRST, SECOND, service_with
from tests.service.harness import Harness
from tests.service.talk import rows


async def ingested(harness: Harness) -> None:
    await harness.talk.ingest(harness.talk.turns(2))


async def text_of(harness: Harness) -> bytes:
    async with harness.runtime.database.engine.connect() as connection:
        return (await messages.bodies(connection, ChatKey(1, 1), ["u0"]))["u0"]


async def test_a_new_key_is_printed_that_settings_take(cli: Cli) -> None:
    made = (await cli("keys", "new-encryption-key")).stdout.strip()
    assert load(encryption_keys=made).sealing_keys.writes == 1

    next_one = (await cli("keys", "new-encryption-key", PRECIS_ENCRYPTION_KEYS=made)).stdout.strip()

    assert load(encryption_keys=f"{next_one},{made}").sealing_keys.writes == 2
    assert next_one[2:] != made[2:]


async def test_a_rotation_by_command_beside_a_running_service(cli: Cli, urls: Urls) -> None:
    async with service_with(urls, "") as harness:
        await ingested(harness)
    both = f"{SECOND},{FIRST}"
    for keys, key in ((FIRST, 1), (both, 2), (f"none,{both}", None)):
        async with service_with(urls, keys) as harness:
            done = await cli("keys", "rotate-encryption", PRECIS_ENCRYPTION_KEYS=keys)
            assert done.exit_code == 0, done.output
            assert f"key {key}" in done.stdout or key is None
            assert await text_of(harness)
        held = json.loads((await cli("keys", "encryption", "--json", PRECIS_ENCRYPTION_KEYS=keys)).stdout)
        assert {one["key"] for one in held} == {key}
    assert (await cli("keys", "encryption")).exit_code == 0


async def test_status_names_the_keys_and_a_command_without_them_is_refused(cli: Cli, urls: Urls) -> None:
    async with service_with(urls, FIRST) as harness:
        await ingested(harness)
    assert "encryption key 1" in (await cli("status")).stdout
    says(await cli("chats", "list"), "sealed with key 1")
    assert (await cli("chats", "list", PRECIS_ENCRYPTION_KEYS=f"{SECOND},{FIRST}")).exit_code == 0
    assert "encryption keys 1, 2: `precis keys rotate-encryption`" in (await cli("status")).stdout


async def test_an_erased_tenant_is_gone_also_from_a_backup_whose_salts_were_kept_apart(
    cli: Cli, urls: Urls, tmp_path: Path
) -> None:
    dump, salts, later = tmp_path / "dump", tmp_path / "salts", tmp_path / "later"
    key = {"PRECIS_ENCRYPTION_KEYS": FIRST}
    async with service_with(urls, FIRST) as harness:
        await ingested(harness)
        text = await text_of(harness)
        assert (await cli("backup", str(dump), "--secrets", str(salts), **key)).exit_code == 0
        erased = await cli("tenants", "erase", "default", "--yes", **key)
        assert erased.exit_code == 0, erased.output
        assert not await rows(harness.runtime, "select 1 from messages, chats, api_keys, tenant_secrets")
        says(await cli("tenants", "erase", "default", "--yes", **key), "no tenant 'default'")
        assert (await cli("backup", str(tmp_path / "empty"), "--secrets", str(later), **key)).exit_code == 0

    assert (await cli("restore", str(dump), "--secrets", str(salts), "--yes", **key)).exit_code == 0
    async with service_with(urls, FIRST) as harness:
        assert await text_of(harness) == text, "with the old salts"

    assert (await cli("restore", str(dump), "--secrets", str(later), "--yes", **key)).exit_code == 0
    async with service_with(urls, FIRST) as harness:
        with pytest.raises(CannotOpen):
            await text_of(harness)
