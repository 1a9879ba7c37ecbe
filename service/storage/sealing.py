"""Encryption at rest: what is made of texts is sealed before it is stored, and opened when read.

In: keys of the settings (`PRECIS_ENCRYPTION_KEYS`), bytes, and where they are stored. Out: sealed
bytes, `0x02 | key id | nonce | ciphertext`, AES-256-GCM-SIV. What they belong to (table, column,
tenant, chat, row) is authenticated with them, so nothing can be moved. Each tenant has keys of its
own, made of the first ones by HKDF with a salt that is stored for it: without that salt, nothing
sealed for the tenant can be opened again.

Ids of messages and hashes of texts are keyed with a secret of the tenant, because a short message
could be guessed from them. That is done once, on arrival (`Seal.keyed`), so all that is
stored and compared here has the keyed form. The secret is made with the tenant and is stored
sealed, so it stays the same when keys are rotated. Why all this: docs/adr/0014.
"""

import hmac
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
from service.storage.tables import tenant_secrets
from service.storage.tenancy import ChatKey

if TYPE_CHECKING:
    from service.storage.database import Reads

SEALED = 2
"""The first byte of a sealed value; codec's own encodings have others."""
OPTION = "seals"
"""The execution option of an engine that holds its `Seals`."""

_NONCE = 12  # bytes
_HEAD = 2 + _NONCE
_SECRET = 32  # bytes, as of a salt
_PLAIN_SECRET = b"\0"  # its first byte: a random one might say that it is sealed


class Where(NamedTuple):
    """Where a sealed value is stored. `row` is its key within the chat, if it has one."""

    table: str
    column: str
    chat: ChatKey
    row: str | int = ""

    @property
    def bound(self) -> bytes:
        """What is authenticated; the row comes last, because it may have any characters."""
        return f"{self.table}.{self.column}/{self.chat.tenant}/{self.chat.id}/{self.row}".encode()


class Seal:
    """Seals and opens what is stored of one tenant.

    Attributes:
        writes: the id of the key that seals; None when texts are stored as they are.
        salt: the tenant's.
    """

    def __init__(
        self,
        tenant: int,
        ciphers: dict[int, AESGCMSIV],
        writes: int | None,
        salt: bytes,
        secret: bytes,
    ) -> None:
        """`secret` is the tenant's, as it is stored. Raises `KeyMissing` if it cannot be opened."""
        self.salt = salt
        self._ciphers = ciphers
        self.writes = writes
        self._secret = self.open(secret_place(tenant), secret)

    def seal(self, where: Where, plain: bytes) -> bytes:
        """The bytes as they are to be stored."""
        if self.writes is None:
            return plain
        nonce = os.urandom(_NONCE)
        head = bytes((SEALED, self.writes))
        return head + nonce + self._ciphers[self.writes].encrypt(nonce, plain, where.bound)

    def open(self, where: Where, stored: bytes) -> bytes:
        """The bytes again, whether they were sealed or not.

        Raises:
            KeyMissing: the key is not among ours.
            CannotOpen: this was not stored there.
        """
        if stored[0] != SEALED:
            return stored
        cipher = self._ciphers.get(stored[1])
        if cipher is None:
            raise KeyMissing(_without([stored[1]]))
        try:
            return cipher.decrypt(stored[2:_HEAD], stored[_HEAD:], where.bound)
        except InvalidTag:
            raise CannotOpen(
                f"{where.table}.{where.column} of chat {where.chat.id},"
                f" row {str(where.row)[:80]!r}, is not what was sealed there: it was moved or"
                " changed in the database."
                " Restore it from a backup, or delete the chat"
            ) from None

    def keyed(self, digest: str) -> str:
        """An id of a message or the hash of a text as it is stored: equal ones stay equal.

        Without the tenant's secret, nobody can confirm by it what a text says.
        """
        hashed = blake2b(digest.encode(), digest_size=15, key=self._secret)  # 20 letters of base64
        return b2a_base64(hashed.digest(), newline=False).decode()


class Seals:
    """The seals of all tenants; those that were asked for stay in memory.

    `keys` are those of the settings, and `writes` is the id of the one that seals, or None.
    """

    def __init__(self, keys: EncryptionKeys, reads: "Reads") -> None:
        self.keys, self.writes = keys
        self._reads = reads
        self._of: dict[int, Seal] = {}

    async def of(self, tenant: int) -> Seal:
        """The seal of a tenant; the first time for it, its secrets are read.

        Raises:
            KeyMissing: they are sealed with a key that is not ours.
            Problem: SEALED: they are not in this database.
        """
        if tenant not in self._of:
            row = await self._reads.fetchrow(_SECRETS_OF, tenant)
            if row is None:
                raise await self.lost(tenant)
            self._of[tenant] = self._seal(tenant, *row)
        return self._of[tenant]

    async def begin(self, connection: AsyncConnection, tenant: int) -> None:
        """Makes the secrets of a new tenant."""
        salt, secret = os.urandom(_SECRET), _PLAIN_SECRET + os.urandom(_SECRET)
        sealed = self._seal(tenant, salt, secret).seal(secret_place(tenant), secret)
        row = {"tenant_id": tenant, "salt": salt, "secret": sealed}
        await connection.execute(insert(tenant_secrets).values(row))

    async def check(self) -> None:
        """Refuses a database with rows that our keys cannot open, and notes the key that writes.

        Raises:
            ConfigurationError: a key is missing, or is another one than rows were sealed with.
        """
        by_id = {key.id: key for key in self.keys}
        for row in await self._reads.fetch("select id, proof from sealing_keys order by id"):
            own_key = by_id.get(row["id"])
            if own_key is None:
                raise ConfigurationError(
                    f"the database has texts sealed with key {row['id']}, which is not in"
                    " PRECIS_ENCRYPTION_KEYS: add it there, behind the key that is to write"
                )
            if not hmac.compare_digest(_proof(own_key), row["proof"]):
                raise ConfigurationError(
                    f"key {own_key.id} of PRECIS_ENCRYPTION_KEYS is not the one that texts in the"
                    " database are sealed with: correct it, or give the new key another id"
                )
        if self.writes is not None:
            await self._reads.fetch(_NOTE_KEY, self.writes, _proof(by_id[self.writes]))

    async def lacked(self) -> str | None:
        """Which keys this process lacks that texts may be sealed with, in words; None: it has all.

        So at the start, or `check` would have refused it; later others may write with a new one.
        """
        ours = [key.id for key in self.keys]
        missing = [row["id"] for row in await self._reads.fetch(_OTHER_KEYS, ours)]
        return _without(missing) if missing else None

    async def without_secrets(self) -> list[str]:
        """The names of the tenants whose secrets are not in this database.

        So it is after a restore without them, or with those of a time when a tenant was erased.
        """
        return [row["name"] for row in await self._reads.fetch(_WITHOUT_SECRETS)]

    async def lost(self, tenant: int) -> Problem:
        """The error for a tenant whose secrets are not in this database."""
        name = await self._reads.fetchval("select name from tenants where tenants.id = $1", tenant)
        return Problem(
            f"the secrets of tenant {name!r} are not in this database. If it was erased, remove"
            " what is left of it by `precis tenants erase`; else restore the backup with the file"
            " of secrets that belongs to it (`precis restore --secrets`)",
            ProblemType.SEALED,
        )

    def _seal(self, tenant: int, salt: bytes, secret: bytes) -> Seal:
        ciphers = {key.id: AESGCMSIV(_derived(key, "texts", salt)) for key in self.keys}
        return Seal(tenant, ciphers, self.writes, salt, secret)


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


async def of(connection: AsyncConnection, tenant: int) -> Seal:
    """The seal of a tenant of the database behind this connection."""
    return await seals(connection).of(tenant)


def seals(connection: AsyncConnection) -> Seals:
    """The seals of the database behind this connection."""
    assert connection.sync_connection is not None
    of_connection: Seals = connection.sync_connection.get_execution_options()[OPTION]
    return of_connection


def _without(ids: Sequence[int]) -> str:
    keys = " and ".join(map(str, ids))
    return (
        f"texts are sealed with key {keys}, which this process was not given: add all keys of this"
        " database to its PRECIS_ENCRYPTION_KEYS, and start it again"
    )


def secret_place(tenant: int) -> Where:
    """Where a tenant's secret is sealed."""
    return Where(tenant_secrets.name, "secret", ChatKey(tenant, 0))


def _proof(key: EncryptionKey) -> bytes:
    return _derived(key, "proof", None)


def _derived(key: EncryptionKey, use: str, salt: bytes | None) -> bytes:
    """A key for one use, from which the first one cannot be found out."""
    info = f"precis {use}".encode()
    return HKDF(hashes.SHA256(), length=32, salt=salt, info=info).derive(key.secret)
