"""Use case: ingest a path. It is checked, weighed and stored, and work is marked due.

One read says what is stored already, then texts are weighed, and one short transaction stores all
of it, if nothing has changed since the read (`storage.ingests`). So nobody waits for texts. Secrets
in what tools gave are masked in what is stored; fingerprints, hashes and sizes are those of what
was sent. Idempotent: the same path again changes nothing. The path of one chat grows from what is
stored (`after`), so what is uploaded and counted is what is new. A chat whose work waits for texts
that are not kept any more takes only a whole path; a text that comes again is stored again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from service import request_ids
from service.errors import Conflict, Problem, ProblemType, Unprocessable
from service.planning import policy
from service.processes import Texts
from service.processes.intake import RawMessage, Taken, Weighed
from service.recall.parts import STORED_FROM
from service.storage import authors, chats, checkpoints, forks, ingests, messages, work
from service.storage.database import Database
from service.storage.ingests import Known, KnownChat, Lender, NewMessage, Noted, Saving
from service.storage.messages import MessageRow
from service.storage.sealing import Seal
from service.storage.tenancy import ChatKey
from service.transcript import ROOT, digest
from service.usecases.taking import take

_A_TURN = 2  # messages; only more at once may be those of another chat, of which this is a fork


@dataclass(frozen=True, slots=True)
class Handed:
    """One message as it was sent; `text` is all of it as JSON (`intake.HandedMessage`)."""

    id: str
    fingerprint: str
    digest: str
    text: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Transcript:
    """A path that grew: the messages that follow `after` (id, digest), root to leaf.

    Attributes:
        after: None means from the root on.
        served: the checkpoint that was in the request which the newest answer replied to, 0 when
            none was, and None when that is not known; the provider's `usage` is compared with it.
        window_assumed: whether nobody told the model's window.
        beside: what was sent beside the messages, in tokens, as the filter estimates it; None
            where it does not say so.
        expires_in: seconds after which the chat is deleted, unless it is ingested again.
        compactor: who else compresses it: `open-webui` or None.
        title, user_name: the chat's and the user's, for operators; None leaves what is stored.
        anyone: a fork adopts what any chat of the tenant lends, not only those of `user`.
        mask_secrets: whether secrets are masked in what is stored.
    """

    tenant: int
    chat: str
    user: str
    model: str
    policy: policy.Policy
    after: tuple[str, str] | None
    messages: Sequence[Handed]
    served: int | None
    window_assumed: bool = False
    beside: int | None = None
    expires_in: int | None = None
    compactor: str | None = None
    title: str | None = None
    user_name: str | None = None
    anyone: bool = False
    mask_secrets: bool = True

    @property
    def ids(self) -> list[str]:
        """The ids of the messages, and of the one that they follow."""
        ids = [message.id for message in self.messages]
        return [*ids, self.after[0]] if self.after else ids


@dataclass(frozen=True, slots=True)
class Accepted:
    """What came of it.

    `wake_up` is the key of the wake-up message to send, in `delay` seconds, when a worker has to be
    woken.
    """

    due: bool
    wake_up: str | None = None
    delay: float = 0


@dataclass(frozen=True, slots=True)
class _Path:
    """A path beside what is stored of it.

    Attributes:
        known: what is stored.
        base: the row of `after`.
        same: how many of its first messages are stored where they were sent.
        owner: who began the chat; whoever sends the path, where nothing of it is stored any more.
    """

    known: Known
    base: MessageRow | None
    same: int
    owner: str


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest message: its row, that of the one above, which it answers, and what was read."""

    leaf: MessageRow
    above: MessageRow | None
    taken: Taken


async def ingest(database: Database, texts: Texts, handed: Transcript) -> Accepted:
    """Stores the path and marks work due when the policy asks for it.

    It is due in `work.DEBOUNCE` seconds, and at once when the next request is too large.

    Raises:
        Conflict: `after` is not stored, or texts above it are wanted again: send the whole path.
        Unprocessable: the path contradicts itself, or what is stored; nothing was stored.
        Unavailable: large texts cannot be read, because no text process starts.
        Problem: GONE: the chat or its user was deleted a short time ago.
        Problem: NOT_THEIRS: the chat is another user's, and the path goes on from nothing of it.
    """
    check_chain(handed)
    # From here on, digests are those that are stored: see `storage.sealing`.
    seal = await database.seals.of(handed.tenant)
    handed = _keyed(handed, seal)
    taken: list[Taken] | None = None
    while True:
        known = await _look_up(database, handed)
        path = _path_of(handed, known)
        await _check_cycle(database, handed, path)
        wanted = _wanted(handed, path)
        if taken is None or not _is_enough(taken, wanted):
            taken = [
                replace(one, content_hash=seal.keyed(one.content_hash))
                for one in await take(texts, wanted, handed.mask_secrets)
            ]
        _check_contents(handed, known.found, taken)
        # Ends without a commit if it does not come to one.
        async with database.engine.connect() as connection:
            accepted = await _stored(connection, handed, path, taken)
            if accepted:
                await connection.commit()
                return accepted
        # The chat has changed since it was read.


def _keyed(handed: Transcript, seal: Seal) -> Transcript:
    """The same with its digests and fingerprints as they are stored."""
    messages = [
        replace(one, fingerprint=seal.keyed(one.fingerprint), digest=seal.keyed(one.digest))
        for one in handed.messages
    ]
    after = handed.after and (handed.after[0], seal.keyed(handed.after[1]))
    return replace(handed, after=after, messages=messages)


async def _look_up(database: Database, handed: Transcript) -> Known:
    """What is stored of the path and its chat."""
    return await ingests.look_up(
        database.reads,
        handed.tenant,
        handed.chat,
        handed.user,
        ids=handed.ids,
        digests=[message.digest for message in handed.messages],
        served=handed.served or 0,
        lender=None if handed.anyone else handed.user,
    )


def _path_of(handed: Transcript, known: Known) -> _Path:
    """Looks whether the path goes on from what is stored, and whether its user may go on there.

    A chat stays the user's who began it, as long as anything of it is stored.

    Raises:
        Conflict: as `ingest`.
        Problem: NOT_THEIRS: the path goes on from no stored message.
    """
    base, same = _base(handed, known), _stored_already(handed, known.found)
    chat = known.chat
    goes_on = base is not None or same > 0
    if handed.user != chat.begun_by and not goes_on and chat.has_messages:
        raise Problem(
            "this chat is stored for another user, and the path has no message of it: send it"
            " under its own chat id; an operator may delete what is stored of the chat",
            ProblemType.NOT_THEIRS,
        )
    return _Path(known, base, same, chat.begun_by if goes_on else handed.user)


async def _stored(
    connection: AsyncConnection, handed: Transcript, path: _Path, taken: Sequence[Taken]
) -> Accepted | None:
    """Stores what was read of a path; None when its chat has changed since it was looked up."""
    known = path.known
    rows, new = _rows(handed, path, taken)
    newest = _Newest(rows[-1], rows[-2] if len(rows) > 1 else path.base, taken[-1])
    noted = _noted(handed, path, newest)
    kept = _kept(handed, path)
    chat = await ingests.open_chat(connection, handed.tenant, handed.chat, noted, known.chat, kept)
    if chat is None:
        return None
    await _drop_moved(connection, chat, handed, path)
    if known.lender is None or known.lender.chat == chat.id:
        sequence = await ingests.store(connection, chat, new, noted)
    else:
        # What it adopts decides whether work is due.
        await ingests.store(connection, chat, new, replace(noted, delay=None))
        path, newest = await _adopted(connection, chat, known.lender, path, newest)
        noted = replace(_noted(handed, path, newest), is_author=True)
        sequence = await ingests.store(connection, chat, [], noted)
    # Of a fork or a clone, others may have written what is new.
    if len(rows) - path.same > _A_TURN:
        await authors.copy(connection, chat, [row.message_id for row in rows[path.same :]])
    if noted.delay is None:
        return Accepted(due=False)
    is_woken_for = known.chat.is_due and not noted.pressing
    return Accepted(True, None if is_woken_for else f"{chat.id}:{sequence}", noted.delay)


def _kept(handed: Transcript, path: _Path) -> list[str]:
    """The messages whose texts are stored, so that they were not read."""
    here = [message.id for message in handed.messages[: path.same]]
    return [one for one in here if one not in path.known.without_text]


def _noted(handed: Transcript, path: _Path, newest: _Newest) -> Noted:
    """What is noted of the chat, and whether work is due."""
    chat, leaf = path.known.chat, newest.leaf
    saving = path.known.savings.get(leaf.checkpoint_id or 0, Saving(0, is_interim=False))
    beside = chat.beside if handed.beside is None else handed.beside
    overhead = _overhead(handed, path.known, newest, beside)
    # A first look without the path, whatever its length; the worker's plan has the last word.
    size = leaf.path_tokens + overhead - saving.tokens
    left_alone = chat.left_alone and path.owner == chat.begun_by
    if handed.compactor == chats.COMPACTS_ITSELF or left_alone:
        is_work = False
    else:
        # What an interim summary covers is to be read by a summariser.
        is_work = size >= handed.policy.prepare_at or saving.is_interim or chat.wants_bodies
    # The next request would have to be cut, so nobody waits for more messages.
    pressing = size > handed.policy.apply_at
    delay = 0 if pressing else work.DEBOUNCE
    return Noted(
        user=handed.user,
        owner=path.owner,
        is_author=chat.is_author,
        left_alone=left_alone,
        model=handed.model,
        window=handed.policy.window_tokens,
        window_assumed=handed.window_assumed,
        expires_in=handed.expires_in,
        compactor=handed.compactor,
        overhead=overhead,
        beside=beside,
        leaf=leaf,
        path=handed.ids,
        delay=delay if is_work else None,
        pressing=pressing,
        request_id=request_ids.current(),
        title=handed.title,
        user_name=handed.user_name,
    )


def _is_enough(taken: Sequence[Taken], wanted: Sequence[RawMessage]) -> bool:
    """Whether all was read that is to be stored."""
    return all(
        read.weighed is not None or not one.whole for read, one in zip(taken, wanted, strict=True)
    )


def check_chain(handed: Transcript) -> None:
    """Checks what can be seen without the database.

    No id comes twice, and every digest follows from the one before.

    Raises:
        Unprocessable: with the place of the first contradiction.
    """
    seen = {handed.after[0]} if handed.after else set()
    above = handed.after[1] if handed.after else ROOT
    for place, message in enumerate(handed.messages):
        if message.id in seen:
            raise Unprocessable(
                f"messages[{place}] has the id {message.id!r}, which is on this path already:"
                " a path has no cycle",
                pointer=f"/messages/{place}/id",
            )
        expected = digest(above, message.id, message.fingerprint)
        if message.digest != expected:
            raise Unprocessable(
                f"messages[{place}].digest does not follow from its parent's digest, its id and"
                " its fingerprint; send the path from its root, with digests computed again",
                pointer=f"/messages/{place}/digest",
            )
        seen.add(message.id)
        above = message.digest


def _wanted(handed: Transcript, path: _Path) -> list[RawMessage]:
    """What is to be read of each message: only those are weighed that are to be stored."""
    newest = handed.messages[-1]
    above = path.base.depth if path.base else 0
    return [
        RawMessage(
            bytes(message.text),
            whole=place >= path.same or message.id in path.known.without_text,
            newest=message is newest,
            searched=depth > STORED_FROM,
        )
        for place, (depth, message) in enumerate(enumerate(handed.messages, above + 1))
    ]


def _base(handed: Transcript, known: Known) -> MessageRow | None:
    """The row of `after`."""
    if handed.after is None:
        return None
    identity, expected = handed.after
    row = known.found.get(identity)
    # Another digest means that something above was edited, and totals would go on from a wrong one.
    if row is None or row.digest != expected:
        raise Conflict("`after` is not stored for this chat; send the whole path")
    if known.chat.wants_bodies:
        raise Conflict("texts above `after` are wanted again; send the whole path")
    return row


async def _check_cycle(database: Database, handed: Transcript, path: _Path) -> None:
    """No message may be its own ancestor."""
    base, chat = path.base, path.known.chat
    # An ancestor is above `after`: without a row that high, the path need not be read.
    if (
        base is None
        or chat.id is None
        or all(row.depth >= base.depth for row in path.known.found.values())
    ):
        return
    async with database.engine.connect() as connection:
        key = ChatKey(handed.tenant, chat.id)
        above = {row.message_id for row in await messages.path(connection, key, base.message_id)}
    for place, message in enumerate(handed.messages):
        if message.id in above:
            raise Unprocessable(
                f"messages[{place}] is an ancestor of `after`: a path has no cycle",
                pointer=f"/messages/{place}/id",
            )


def _stored_already(handed: Transcript, found: dict[str, MessageRow]) -> int:
    """How many of the first messages are stored where they were sent."""
    for place, message in enumerate(handed.messages):
        row = found.get(message.id)
        # Below the first difference, every digest is another one.
        if row is None or row.digest != message.digest:
            return place
    return len(handed.messages)


def _check_contents(
    handed: Transcript, found: dict[str, MessageRow], taken: Sequence[Taken]
) -> None:
    """A fingerprint may not stand for two contents."""
    for place, (message, read) in enumerate(zip(handed.messages, taken, strict=True)):
        row = found.get(message.id)
        if row and row.fingerprint == message.fingerprint and row.content_hash != read.content_hash:
            raise Unprocessable(
                f"messages[{place}] has a fingerprint that was ingested with other content",
                pointer=f"/messages/{place}/fingerprint",
            )


async def _drop_moved(
    connection: AsyncConnection, chat: ChatKey, handed: Transcript, path: _Path
) -> None:
    """What hung below a moved message has totals and digests of the old path.

    Those sent are kept as rows, to be written over.
    """
    changed = handed.messages[path.same :]
    moved = [message.id for message in changed if message.id in path.known.found]
    if moved:
        kept = [message.id for message in handed.messages]
        await messages.drop_below(connection, chat, moved, keep=kept)


def _rows(
    handed: Transcript, path: _Path, taken: Sequence[Taken]
) -> tuple[list[MessageRow], list[NewMessage]]:
    """The rows of all messages that were sent, root to leaf, and those that are to be written.

    These are the ones that are new or moved, and those whose texts were not kept.
    """
    rows: list[MessageRow] = []
    new: list[NewMessage] = []
    above = path.base
    for place, (message, read) in enumerate(zip(handed.messages, taken, strict=True)):
        if place < path.same:
            above = path.known.found[message.id]
        elif read.weighed:
            above = _row(message, read.content_hash, read.weighed, above, path.known.made)
        else:
            raise RuntimeError("a message that is to be stored was not weighed")
        rows.append(above)
        if read.weighed:
            masks = read.weighed.masks if place >= path.same else 0
            new.append(NewMessage(above, read.weighed.body, masks))
    return rows, new


def _row(
    message: Handed,
    content_hash: str,
    weighed: Weighed,
    parent: MessageRow | None,
    made: dict[str, int],
) -> MessageRow:
    """The row of a message below its parent's, with running totals."""
    depth, path_tokens, inherited = 0, 0, None
    if parent:
        depth, path_tokens, inherited = parent.depth, parent.path_tokens, parent.checkpoint_id
    return MessageRow(
        message_id=message.id,
        parent_id=parent.message_id if parent else None,
        role=weighed.role,
        depth=depth + 1,
        fingerprint=message.fingerprint,
        digest=message.digest,
        content_hash=content_hash,
        tokens=weighed.tokens,
        path_tokens=path_tokens + weighed.tokens,
        step_tokens=weighed.step_tokens,
        step_calls=weighed.step_calls,
        sent_at=weighed.sent_at,
        checkpoint_id=made.get(message.digest, inherited),
    )


async def _adopted(
    connection: AsyncConnection, chat: ChatKey, lender: Lender, path: _Path, newest: _Newest
) -> tuple[_Path, _Newest]:
    """Copies the summaries of another chat that fit the new messages; the same with these.

    Their savings are known by the ids of the originals too: the answer of a fork's first request
    names one of the chat that lent it.
    """
    lent_by = ChatKey(chat.tenant, lender.chat)
    copies = await forks.adopt(connection, chat, lent_by, lender.line)
    if not copies:
        return path, newest
    on_path = await checkpoints.along(connection, chat, copies.values())
    savings = dict(path.known.savings)
    for is_interim, made in ((False, on_path.settled), (True, on_path.interim)):
        for one in made:
            savings[one.id] = Saving(one.covered_tokens - one.tokens, is_interim)
    savings |= {original: savings[copy] for original, copy in copies.items()}
    leaf = replace(newest.leaf, checkpoint_id=max(copies.values()))
    known = replace(path.known, savings=savings)
    return replace(path, known=known), replace(newest, leaf=leaf)


def _overhead(handed: Transcript, known: Known, newest: _Newest, beside: int) -> int:
    """The tokens that the provider counted for the newest answer's request beyond our estimate.

    Where that is not known, as before, changed by as much as what is `beside` the messages.
    """
    unmeasured = _unmeasured_overhead(known.chat, beside)
    none = Saving(0, is_interim=False)
    saving = known.savings.get(handed.served) if handed.served else none
    if handed.served is None or saving is None or not newest.taken.prompt_tokens:
        return unmeasured
    # A tool loop's usage is that of its last call, which had read all of the answer but its last
    # step.
    estimated = (newest.above.path_tokens if newest.above else 0) + newest.taken.asked_tokens
    measured = policy.measured_overhead(
        newest.taken.prompt_tokens,
        estimated - saving.tokens,
        handed.policy.window_tokens,
        handed.beside or 0,
    )
    return unmeasured if measured is None else measured


def _unmeasured_overhead(chat: KnownChat, beside: int) -> int:
    """The stored overhead, moved by as much as the filter's estimate has changed."""
    if chat.beside == 0:
        # While nothing is estimated, all of the overhead is measured: an estimate is in it already.
        return max(chat.overhead, beside)
    return max(chat.overhead + beside - chat.beside, 0)
