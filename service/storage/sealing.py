"""Encryption at rest: what is made of texts is encrypted before it is stored.

A stored value is `0x02 | key id | nonce | ciphertext` (AES-256-GCM-SIV), or plain. The place where
it is stored is authenticated with it (`AssociatedData`), so no value can be moved. Each tenant has
keys of its own: HKDF derives them from those of PRECIS_ENCRYPTION_KEYS and a salt of the tenant.
Without that salt, nothing that was sealed for the tenant can be opened again.

A short message could be guessed from its hash, so ids of messages and hashes of texts are keyed
with a secret of the tenant (`Cipher.keyed_hash`), once, on arrival: only keyed ids are stored and
compared. The secret is stored sealed, and a rotation of the keys does not change it.
Why all this: docs/adr/0014.
"""

import os
from binascii import b2a_base64
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.encryption import EncryptionKey, EncryptionKeys
from service.errors import CannotOpen, ConfigurationError, KeyMissing, Problem, ProblemType
from service.storage.tables import ChatKey, tenant_secrets

if TYPE_CHECKING:
    from service.storage.database import Reads

SEALED = 2
"""The first byte of a sealed value; the codec's own encodings have others."""
OPTION = "keyring"
"""The execution option of an engine that holds its `Keyring`."""

_NONCE = 12  # bytes
_HEAD = 2 + _NONCE
_SECRET = 32  # bytes, of a secret and of a salt
_PLAIN_SECRET = b"\0"  # before a secret: its own first byte might say that it is sealed


class AssociatedData(NamedTuple):
    """The place of a sealed value. `row` is its key within the chat, if it has one."""

    table: str
    column: str
    chat: ChatKey
    row: str | int = ""

    @property
    def encoded(self) -> bytes:
        """The bytes to authenticate; the row comes last, because it may have any characters."""
        tenant, chat = self.chat
        place = f"{self.table}.{self.column}/{tenant}/{chat}/{self.row}"
        return place.encode()


class Cipher:
    """Encrypts and decrypts what is stored of one tenant.

    Attributes:
        writes: the id of the key that encrypts; None when texts are stored as they are.
        salt: the tenant's.
    """

    def __init__(self, tenant: int, keys: EncryptionKeys, salt: bytes, secret: bytes) -> None:
        """`secret` is as it is stored. Raises `KeyMissing` and `CannotOpen` as `decrypt` does."""
        self.salt = salt
        self.writes = keys.writes
        self._by_id = {key.id: AESGCMSIV(_derive(key, "texts", salt)) for key in keys.keys}
        self._secret = self.decrypt(make_secret_aad(tenant), secret)

    def encrypt(self, aad: AssociatedData, plain: bytes) -> bytes:
        """The bytes as they are to be stored there."""
        if self.writes is None:
            return plain
        nonce = os.urandom(_NONCE)
        ciphertext = self._by_id[self.writes].encrypt(nonce, plain, aad.encoded)
        return bytes((SEALED, self.writes)) + nonce + ciphertext

    def decrypt(self, aad: AssociatedData, stored: bytes) -> bytes:
        """The plain bytes of a stored value, whether it is sealed or not.

        Raises:
            KeyMissing: it is sealed with a key that is not ours.
            CannotOpen: it was not stored there.
        """
        if stored[0] != SEALED:
            return stored
        key = self._by_id.get(stored[1])
        if key is None:
            raise KeyMissing(_explain_missing([stored[1]]))
        try:
            return key.decrypt(stored[2:_HEAD], stored[_HEAD:], aad.encoded)
        except InvalidTag:
            raise CannotOpen(
                f"{aad.table}.{aad.column} of chat {aad.chat.id}, row {str(aad.row)[:80]!r}, is not"
                " what was sealed there: it was moved or changed in the database."
                " Restore it from a backup, or delete the chat"
            ) from None

    def keyed_hash(self, digest: str) -> str:
        """An id of a message or the hash of a text as it is stored: equal ones stay equal.

        Without the tenant's secret, nobody can confirm by it what a text says.
        """
        hashed = blake2b(digest.encode(), digest_size=15, key=self._secret)  # 20 letters of base64
        return b2a_base64(hashed.digest(), newline=False).decode()


class Keyring:
    """The ciphers of all tenants of a database; those that were asked for stay in memory."""

    def __init__(self, keys: EncryptionKeys, reads: "Reads") -> None:
        self.writes = keys.writes
        self._keys = keys
        self._reads = reads
        self._ciphers: dict[int, Cipher] = {}

    async def find_cipher(self, tenant: int) -> Cipher:
        """The cipher of a tenant; the first time, the tenant's secrets are read.

        Raises:
            KeyMissing: they are sealed with a key that is not ours.
            Problem: SEALED: they are not in this database.
        """
        if tenant not in self._ciphers:
            row = await self._reads.fetchrow(_SECRETS_OF, tenant)
            if row is None:
                raise await self.explain_lost_secrets(tenant)
            self._ciphers[tenant] = Cipher(tenant, self._keys, *row)
        return self._ciphers[tenant]

    async def create_secrets(self, connection: AsyncConnection, tenant: int) -> None:
        """Makes the secrets of a new tenant."""
        salt = os.urandom(_SECRET)
        secret = _PLAIN_SECRET + os.urandom(_SECRET)
        cipher = Cipher(tenant, self._keys, salt, secret)
        sealed = cipher.encrypt(make_secret_aad(tenant), secret)
        row = {"tenant_id": tenant, "salt": salt, "secret": sealed}
        await connection.execute(insert(tenant_secrets).values(row))

    async def check_keys(self) -> None:
        """Refuses a database with rows that our keys cannot open, and notes the key that writes.

        Raises:
            ConfigurationError: a key is missing, or is not the one of its id that rows are sealed
                with.
        """
        if missing := await self.missing_keys():
            raise ConfigurationError(missing)
        stored = await self._reads.fetch("select id, proof from sealing_keys")
        proofs = {row["id"]: row["proof"] for row in stored}
        for key in self._keys.keys:
            proof = _derive(key, "proof", None)
            if proofs.get(key.id, proof) != proof:
                raise ConfigurationError(
                    f"key {key.id} of PRECIS_ENCRYPTION_KEYS is not the one that texts in the"
                    " database are sealed with: correct it, or give the new key another id"
                )
            if key.id == self.writes:
                await self._reads.fetch(_NOTE_KEY, key.id, proof)

    async def missing_keys(self) -> str | None:
        """Says which keys of the database this process lacks; None when it has all.

        A process that has started had all of them; later, others may write with a new one.
        """
        ours = [key.id for key in self._keys.keys]
        missing = [row["id"] for row in await self._reads.fetch(_OTHER_KEYS, ours)]
        return _explain_missing(missing) if missing else None

    async def tenants_without_secrets(self) -> list[str]:
        """The names of the tenants whose secrets are not in this database.

        A restore leaves such tenants, if it is one without secrets, or with those of a time when a
        tenant was erased.
        """
        return [row["name"] for row in await self._reads.fetch(_WITHOUT_SECRETS)]

    async def explain_lost_secrets(self, tenant: int) -> Problem:
        """The error for a tenant whose secrets are not in this database."""
        name = await self._reads.fetchval("select name from tenants where tenants.id = $1", tenant)
        return Problem(
            f"the secrets of tenant {name!r} are not in this database. If it was erased, remove"
            " what is left of it by `precis tenants erase`; else restore the backup with the file"
            " of secrets that belongs to it (`precis restore --secrets`)",
            ProblemType.SEALED,
        )


_SECRETS_OF = """
select salt, secret from tenant_secrets where tenant_secrets.tenant_id = $1
"""
_WITHOUT_SECRETS = """
select name from tenants
where not exists (select 1 from tenant_secrets where tenant_secrets.tenant_id = tenants.id)
order by name
"""
_OTHER_KEYS = "select id from sealing_keys where id <> all ($1) order by id"
_NOTE_KEY = "insert into sealing_keys (id, proof) values ($1, $2) on conflict do nothing"


async def find_cipher(connection: AsyncConnection, tenant: int) -> Cipher:
    """The cipher of a tenant of the database behind this connection."""
    return await keyring_of(connection).find_cipher(tenant)


def keyring_of(connection: AsyncConnection) -> Keyring:
    """The keyring of the database behind this connection."""
    assert connection.sync_connection is not None
    keyring: Keyring = connection.sync_connection.get_execution_options()[OPTION]
    return keyring


def make_secret_aad(tenant: int) -> AssociatedData:
    """The place of a tenant's secret."""
    return AssociatedData(tenant_secrets.name, "secret", ChatKey(tenant, 0))


def _explain_missing(ids: Sequence[int]) -> str:
    keys = " and ".join(map(str, ids))
    return (
        f"texts are sealed with key {keys}, which this process was not given: add all keys of this"
        " database to its PRECIS_ENCRYPTION_KEYS, behind the one that writes, and start it again"
    )


def _derive(key: EncryptionKey, use: str, salt: bytes | None) -> bytes:
    """A key for one use, from which the first one cannot be found out."""
    info = f"precis {use}".encode()
    return HKDF(hashes.SHA256(), length=32, salt=salt, info=info).derive(key.secret)
