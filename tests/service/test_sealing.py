"""Sealed values and the keys of them: what opens, what does not, and which keys a start refuses."""

import base64
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from service.encryption import EncryptionKey, EncryptionKeys
from service.errors import CannotOpen, ConfigurationError, KeyMissing, Problem
from service.runtime import Urls
from service.settings import load
from service.storage import keys
from service.storage.database import connect
from service.storage.sealing import AssociatedData, Cipher
from service.storage.tables import ChatKey
from tests.conftest import execute

ONE, TWO = EncryptionKey(1, b"1" * 32), EncryptionKey(2, b"2" * 32)
OTHER_ONE = EncryptionKey(1, b"x" * 32)
HERE = AssociatedData("messages", "body", ChatKey(1, 7), "m1")
PLAIN = b"\x01some text"


@pytest_asyncio.fixture(loop_scope="function")
async def url(urls: Urls) -> AsyncIterator[str]:
    for tenant in ("a", "b"):
        await new_tenant(urls.database, tenant)
    yield urls.database


async def new_tenant(url: str, name: str, *given: EncryptionKey) -> None:
    """A key of the API, and its tenant if there is none of this name."""
    async with connect(url, keys=keys_of(given)) as database, database.engine.begin() as connection:
        await keys.create_key(connection, name, "filter", "test")


def keys_of(given: Sequence[EncryptionKey]) -> EncryptionKeys:
    return EncryptionKeys(given, given[0].id if given else None)


async def cipher_with(url: str, *given: EncryptionKey, tenant: int = 1) -> Cipher:
    """The cipher of a tenant in a new process."""
    async with connect(url, keys=keys_of(given)) as database:
        return await database.keyring.find_cipher(tenant)


async def test_what_was_sealed_opens_in_another_process(url: str) -> None:
    first, second = await cipher_with(url, ONE), await cipher_with(url, TWO, ONE)

    sealed = first.encrypt(HERE, PLAIN)

    assert second.decrypt(HERE, sealed) == PLAIN
    assert second.encrypt(HERE, PLAIN)[:2] == b"\x02\x02", "the first key writes"
    assert first.encrypt(HERE, PLAIN) != sealed, "equal texts are not seen to be equal"


def test_what_earlier_versions_sealed_and_hashed_stays_as_it_was() -> None:
    text = base64.b64decode("AgFccQJyptZtau3gOgd08n07iY6gfbnxfSFhwO6jIJzytQkCxvLbiw==")
    secret = base64.b64decode("AgHWvaYT6AQEXeoXW090xzwKmmYl4Ltn9m476aez65X9Aot+QYzj9YTCJYgvU6iUBF8tmJbmPvfYTaLIgRYT")
    cipher = Cipher(1, EncryptionKeys([ONE], 1), b"s" * 32, secret)
    assert cipher.decrypt(HERE, text) == PLAIN
    assert cipher.keyed_hash("d" * 32) == "Ec1KDFyanXtghWKgIsI/"


@pytest.mark.parametrize(
    "elsewhere",
    [
        HERE._replace(table="checkpoints"),
        HERE._replace(column="memory"),
        HERE._replace(chat=ChatKey(1, 8)),
        HERE._replace(chat=ChatKey(2, 7)),
        HERE._replace(row="m2"),
    ],
)
async def test_a_value_opens_nowhere_but_where_it_was_sealed(url: str, elsewhere: AssociatedData) -> None:
    cipher = await cipher_with(url, ONE)
    with pytest.raises(CannotOpen, match=f"{elsewhere.table}.{elsewhere.column} of chat {elsewhere.chat.id}, row"):
        cipher.decrypt(elsewhere, cipher.encrypt(HERE, PLAIN))


async def test_a_changed_value_and_one_of_an_unknown_key_do_not_open(url: str) -> None:
    sealed = (await cipher_with(url, ONE)).encrypt(HERE, PLAIN)
    with pytest.raises(CannotOpen, match=r"messages\.body of chat 7, row 'm1'"):
        (await cipher_with(url, ONE)).decrypt(HERE, sealed[:-1] + bytes([sealed[-1] ^ 1]))
    with pytest.raises(KeyMissing, match=r"sealed with key 1, which .* add all keys .* PRECIS_ENCRYPTION_KEYS"):
        (await cipher_with(url, TWO)).decrypt(HERE, sealed)
    with pytest.raises(KeyMissing, match="sealed with key 1"):
        (await cipher_with(url)).decrypt(HERE, sealed)


async def test_each_tenant_has_keys_of_its_own_and_without_its_secrets_nothing_opens(url: str) -> None:
    sealed = (await cipher_with(url, ONE)).encrypt(HERE, PLAIN)
    with pytest.raises(CannotOpen):
        (await cipher_with(url, ONE, tenant=2)).decrypt(HERE, sealed)

    await execute(url, "delete from tenant_secrets where tenant_id = 1")

    with pytest.raises(Problem, match="tenant 'a'"):
        await cipher_with(url, ONE)
    await new_tenant(url, "a", ONE)
    with pytest.raises(Problem):  # a new API key makes no new secrets in the place of the old ones
        await cipher_with(url, ONE)


async def test_equal_digests_stay_equal_in_a_tenant_whatever_the_key_and_nowhere_else(url: str) -> None:
    digest = "d" * 32
    keyed = (await cipher_with(url)).keyed_hash(digest)
    assert (await cipher_with(url, TWO, ONE)).keyed_hash(digest) == keyed
    assert (await cipher_with(url, tenant=2)).keyed_hash(digest) != keyed


async def checked(url: str, *given: EncryptionKey) -> None:
    async with connect(url, keys=keys_of(given)) as database:
        await database.keyring.check_keys()


async def test_no_start_while_a_key_of_the_database_is_missing_or_another(url: str) -> None:
    await checked(url)
    await checked(url, ONE, TWO)
    await checked(url, TWO, ONE)

    with pytest.raises(ConfigurationError, match=r"sealed with key 1, .* PRECIS_ENCRYPTION_KEYS"):
        await checked(url, TWO)
    with pytest.raises(ConfigurationError, match="sealed with key 1"):
        await checked(url)
    with pytest.raises(ConfigurationError, match="key 1 of PRECIS_ENCRYPTION_KEYS is not the one"):
        await checked(url, OTHER_ONE, TWO)


def test_keys_are_read_from_a_list_of_commas_or_lines() -> None:
    encoded = [f"{key.id}:{base64.b64encode(key.secret).decode()}" for key in (TWO, ONE)]
    for given in (",".join(encoded), "\n".join([*encoded, ""]), ", ".join(encoded)):
        assert load(encryption_keys=given).sealing_keys == ([TWO, ONE], 2)
    assert load(encryption_keys=f"none,{encoded[0]}").sealing_keys == ([TWO], None)
    assert load().sealing_keys == ((), None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("1:c2hvcnQ=", "key 1 has 5 bytes and not 32"),
        ("256:" + base64.b64encode(b"1" * 32).decode(), "the id 256"),
        ("1:c2VjcmV0!", "key 1 is not of the form"),
        (",".join(["3:" + base64.b64encode(b"1" * 32).decode()] * 2), "two keys of the id 3"),
    ],
)
def test_what_is_no_key_is_refused_without_showing_it(given: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(encryption_keys=given)
    assert told in str(refused.value)
    assert "PRECIS_ENCRYPTION_KEYS" in str(refused.value)
    assert "c2" not in str(refused.value)
