"""Encryption at rest: what is made of texts is sealed before it is stored, and opened when read.

In: keys of the settings (`PRECIS_ENCRYPTION_KEYS`), bytes, and where they are stored. Out: sealed
bytes, `0x02 | key id | nonce | ciphertext`, AES-256-GCM-SIV. What they belong to (table, column,
tenant, chat, row) is authenticated with them, so nothing can be moved. Each tenant has keys of its
own, made of the first ones by HKDF with a salt that is stored for it: without that salt, nothing
sealed for the tenant can be opened again.

Digests are hidden, because a short message could be guessed from them: by AES-SIV, under which
equal digests stay equal and can be looked for. The key of that is made once for each tenant and is
stored sealed, so digests stay the same when keys are rotated. Why all this: docs/adr/0014.
"""

import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV, AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import CannotOpen, ConfigurationError, KeyMissing, SealedForGood
from service.settings import EncryptionKey, EncryptionKeys
from service.storage import codec
from service.storage.reads import ReadPool
from service.storage.tenancy import ChatKey

SEALED = 2
"""The first byte of a sealed value; codec's own encodings have others."""
OPTION = "seals"
"""The execution option of an engine that holds its `Seals`."""

_NONCE = 12  # bytes
_HEAD = 2 + _NONCE
_SALT = 32  # bytes
_DIGEST_KEY = 64  # bytes, for AES-SIV with 256 bits
_PLAIN_KEY = b"\0"  # stands before it, or its first byte might say that it is sealed
_HIDDEN = " "  # begins a hidden digest; none of a filter has a space
_OF_DIGESTS, _OF_HASHES = [b"digest"], [b"content hash"]
_HIDDEN_HASH = 1 + 16 + 32  # bytes
IS_HIDDEN = f"{_HIDDEN}%"
"""What a hidden digest is LIKE."""


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
    """

    def __init__(
        self, ciphers: dict[int, AESGCMSIV], writes: int | None, digests: AESSIV | None
    ) -> None:
        self._ciphers = ciphers
        self.writes = writes
        self._digests = digests

    @property
    def opens(self) -> bool:
        """Whether anything of the tenant may be sealed."""
        return self._digests is not None

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
            raise KeyMissing(without([stored[1]]))
        try:
            return cipher.decrypt(stored[2:_HEAD], stored[_HEAD:], where.bound)
        except InvalidTag:
            raise CannotOpen(
                f"{where.table}.{where.column} of chat {where.chat.id},"
                f" row {str(where.row)[:80]!r}, is not what was sealed there: it was moved or"
                " changed in the database."
                " Restore it from a backup, or delete the chat"
            ) from None

    def hide(self, digest: str) -> str:
        """A digest or fingerprint as it is to be stored: the same one always becomes the same."""
        return digest if self.writes is None else self._hidden(digest)

    def _hidden(self, digest: str) -> str:
        assert self._digests is not None
        hidden = self._digests.encrypt(digest.encode(), _OF_DIGESTS)
        return _HIDDEN + b64encode(hidden).decode()

    def show(self, stored: str) -> str:
        """The digest or fingerprint again, whether it was hidden or not.

        Raises:
            KeyMissing: it was hidden, and this process has no key of the tenant.
            CannotOpen: it was hidden with another key.
        """
        if not stored.startswith(_HIDDEN):
            return stored
        return self._shown(b64decode(stored[1:]), _OF_DIGESTS).decode()

    def forms(self, digest: str) -> list[str]:
        """All that a digest may be stored as, the hidden form first, if there may be one.

        Rows from before there was a key have it plain.
        """
        return [digest] if self._digests is None else [self._hidden(digest), digest]

    def hide_hash(self, content_hash: bytes) -> bytes:
        """The same for the hash of a content."""
        if self.writes is None or self._digests is None:
            return content_hash
        return bytes((SEALED,)) + self._digests.encrypt(content_hash, _OF_HASHES)

    def show_hash(self, stored: bytes) -> bytes:
        """The hash again."""
        # A plain one has 32 bytes, and may begin with any.
        if len(stored) != _HIDDEN_HASH:
            return stored
        return self._shown(stored[1:], _OF_HASHES)

    def _shown(self, hidden: bytes, use: list[bytes]) -> bytes:
        if self._digests is None:
            raise KeyMissing(without([]))
        try:
            return self._digests.decrypt(hidden, use)
        except InvalidTag:
            raise CannotOpen(
                "a digest is not what was hidden there: it was changed in the database."
                " Restore it from a backup, or delete the chat"
            ) from None

    def with_digests(self, digests: AESSIV) -> "Seal":
        """The same, which seals digests too."""
        return Seal(self._ciphers, self.writes, digests)

    def seal_text(self, where: Where, text: str) -> bytes | None:
        """A text, sealed; None where it is stored as it is, or is empty."""
        if self.writes is None or not text:
            return None
        return self.seal(where, codec.pack_text(text))

    def open_text(self, where: Where, sealed: bytes | None, plain: str) -> str:
        """The text of a row that has it sealed, or else plain."""
        return plain if sealed is None else codec.unpack_text(self.open(where, sealed))


_PLAIN = Seal({}, None, None)


class Seals:
    """The seals of all tenants; those that were asked for stay in memory.

    `writes` is the id of the key that seals, or None.
    """

    def __init__(self, keys: EncryptionKeys, reads: ReadPool) -> None:
        self._keys, self.writes = keys
        self._reads = reads
        self._of: dict[int, Seal] = {}

    async def of(self, tenant: int) -> Seal:
        """The seal of a tenant; the first time for it, its secrets are read, or made.

        Raises:
            SealedForGood: there are none, though texts are sealed with them.
        """
        if not self._keys:
            return _PLAIN
        if tenant not in self._of:
            self._of[tenant] = await self._made(tenant)
        return self._of[tenant]

    async def check(self) -> None:
        """Refuses a database with rows that our keys cannot open, and notes the key that writes.

        Raises:
            ConfigurationError: a key is missing, or is another one than rows were sealed with.
        """
        given = {key.id: key for key in self._keys}
        for row in await self._reads.fetch("select id, proof from sealing_keys order by id"):
            known = given.get(row["id"])
            if known is None:
                raise ConfigurationError(
                    f"the database has texts sealed with key {row['id']}, which is not in"
                    " PRECIS_ENCRYPTION_KEYS: add it there, behind the key that is to write"
                )
            if not hmac.compare_digest(_proof(known), row["proof"]):
                raise ConfigurationError(
                    f"key {known.id} of PRECIS_ENCRYPTION_KEYS is not the one that texts in the"
                    " database are sealed with: correct it, or give the new key another id"
                )
        if self.writes is not None:
            await self._reads.fetch(_NOTE_KEY, self.writes, _proof(given[self.writes]))

    async def _made(self, tenant: int) -> Seal:
        row = await self._reads.fetchrow(_SECRETS_OF, tenant)
        if row is None:
            # In one statement: another process may make them just now, and seal with them.
            if lost := await self.without_salt(tenant):
                raise _sealed_for_good(lost)
            row = await self._reads.fetchrow(_SECRETS_OF, tenant)
        if row is None:
            if self.writes is None:  # nothing of it is sealed
                return _PLAIN
            salt, digest_key = os.urandom(_SALT), _PLAIN_KEY + os.urandom(_DIGEST_KEY)
            sealed = self._texts(salt).seal(digest_key_of(tenant), digest_key)
            row = await self._reads.fetchrow(_NEW_SECRETS, tenant, salt, sealed)
            assert row is not None
        texts = self._texts(row["salt"])
        digest_key = texts.open(digest_key_of(tenant), row["digest_key"])
        return texts.with_digests(AESSIV(digest_key.removeprefix(_PLAIN_KEY)))

    async def missing(self, connection: AsyncConnection) -> list[int]:
        """The ids of the keys that texts may be sealed with, and that are not ours.

        None at the start, which `check` would have refused; later others may write with a new one.
        """
        ours = {key.id for key in self._keys}
        found = await connection.execute(text("select id from sealing_keys order by id"))
        return [one for one in found.scalars() if one not in ours]

    async def without_salt(self, tenant: int | None = None) -> list[str]:
        """The names of tenants, or this one's, that have sealed texts here and no salt for them.

        So it is after a restore without the salts, or with those of a time when a tenant was
        erased.
        """
        rows = await self._reads.fetch(_WITHOUT_SALT, tenant)
        return [row["name"] for row in rows]

    def _texts(self, salt: bytes) -> Seal:
        ciphers = {key.id: AESGCMSIV(_derived(key, "texts", salt)) for key in self._keys}
        return Seal(ciphers, self.writes, None)


_SECRETS_OF = """
select salt, digest_key from tenant_secrets where tenant_secrets.tenant_id = $1
"""
# Two processes may come at once: then what the first one made holds.
_NEW_SECRETS = """
insert into tenant_secrets (tenant_id, salt, digest_key) values ($1, $2, $3)
on conflict (tenant_id) do update set salt = tenant_secrets.salt
returning salt, digest_key
"""
# Roots and leaves tell of their whole chats, and have indexes; old and new texts are among them.
_WITHOUT_SALT = f"""
select name from tenants
where ($1::bigint is null or tenants.id = $1::bigint)
    and not exists (
        select 1 from tenant_secrets where tenant_secrets.tenant_id = tenants.id
    )
    and (
        exists (
            select 1 from messages
            where messages.tenant_id = tenants.id and depth = 1 and digest like '{IS_HIDDEN}'
        )
        or exists (
            select 1 from chats
            where chats.tenant_id = tenants.id and leaf_digest like '{IS_HIDDEN}'
        )
    )
order by name
"""
_NOTE_KEY = "insert into sealing_keys (id, proof) values ($1, $2) on conflict do nothing"


async def of(connection: AsyncConnection, tenant: int) -> Seal:
    """The seal of a tenant of the database behind this connection."""
    return await _seals(connection).of(tenant)


async def missing(connection: AsyncConnection) -> list[int]:
    """The ids of the keys that this process lacks (`Seals.missing`)."""
    return await _seals(connection).missing(connection)


def without(ids: Sequence[int]) -> str:
    """What a process lacks, and what to do, in words; no ids where they are not known."""
    keys = f"key {' and '.join(map(str, ids))}" if ids else "a key"
    return (
        f"texts are sealed with {keys}, which this process was not given: add all keys of this"
        " database to its PRECIS_ENCRYPTION_KEYS, and start it again"
    )


def digest_key_of(tenant: int) -> Where:
    """Where a tenant's key for digests is stored."""
    return Where("tenant_secrets", "digest_key", ChatKey(tenant, 0))


def _seals(connection: AsyncConnection) -> Seals:
    assert connection.sync_connection is not None
    found: Seals = connection.sync_connection.get_execution_options()[OPTION]
    return found


def _sealed_for_good(names: list[str]) -> SealedForGood:
    listed = ", ".join(map(repr, names))
    return SealedForGood(
        f"the texts of tenant {listed} are sealed, and its salt is not in this database: it was"
        " erased, and remove what is left by `precis tenants erase`; or restore the backup with"
        " the file of salts that belongs to it (`precis restore --secrets`)"
    )


def _proof(key: EncryptionKey) -> bytes:
    return _derived(key, "proof", None)


def _derived(key: EncryptionKey, use: str, salt: bytes | None) -> bytes:
    """A key for one use, from which the first one cannot be found out."""
    info = f"precis {use}".encode()
    return HKDF(hashes.SHA256(), length=32, salt=salt, info=info).derive(key.secret)
