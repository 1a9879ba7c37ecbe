"""What operators do with chats, the same for REST and the command line. Every change leaves an audit row."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import Conflict, NotFound
from service.settings import Settings
from service.storage import audit, breakers, chats, checkpoints, jobs, messages, work
from service.storage.breakers import Endpoint
from service.storage.chats import Branch, Made, Overview, Run, Spent
from service.storage.jobs import Figures, Job
from service.storage.tenancy import ChatKey
from service.summarising import compose, message
from service.summarising.compose import Covered
from service.summarising.correction import GivenPin, check_size, corrected
from service.summarising.memory import Memory, Pin
from service.summarising.utterances import Speaker

_MOST_LEASES = 100  # shown


@dataclass(frozen=True, slots=True)
class Operator:
    """Who acts, for the audit log, and in which tenant."""

    tenant: int
    actor: str


@dataclass(frozen=True, slots=True)
class Detail:
    """One chat with its branches, checkpoints and latest rounds of work."""

    chat: Overview
    branches: list[Branch]
    checkpoints: list[Made]
    runs: list[Run]
    spent: Spent


@dataclass(frozen=True, slots=True)
class CoveredMessage:
    """One message that a summary covers."""

    id: str
    role: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence of the talk; a correction names it by its number. `at` is in Unix seconds."""

    number: str
    speaker: Speaker
    text: str
    at: int | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A summary, what it was made of, and what it covers. `current` is False when the covered path was edited since.

    `narrative` is Markdown. `talk` is all that is kept; the summary shows what there is room for.
    """

    checkpoint: Made
    summary: str
    narrative: str
    pins: tuple[Pin, ...]
    talk: list[Said]
    current: bool
    covers: list[CoveredMessage]


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a reset or a recompute dropped.

    `waits` says that texts which new summaries need are not kept any more: the work waits for the
    chat's next turn, at which the filter is asked for them. `wake_up` is the key to ring with when
    work is due now.
    """

    checkpoints: int
    waits: bool
    wake_up: str | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """The checkpoint that serves from now on. `waits` and `wake_up` are those of `Dropped`."""

    checkpoint: Made
    waits: bool
    wake_up: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """The queue in numbers, what is being worked on and by whom, and the breakers of the summarisers."""

    queue: Figures
    leases: list[Job]
    endpoints: list[Endpoint]

    @property
    def idle(self) -> bool:
        """Whether nothing is due, worked on or put off."""
        return not (self.queue.working or self.queue.due or self.queue.waiting)


async def list_chats(
    engine: AsyncEngine, tenant: int, limit: int, after: tuple[datetime, int] | None = None
) -> Sequence[Overview]:
    """A page of a tenant's chats, the newest first."""
    async with engine.connect() as connection:
        return await chats.overviews(connection, tenant, after=after, limit=limit)


async def show_chat(engine: AsyncEngine, tenant: int, chat: str) -> Detail:
    """One chat.

    Raises:
        NotFound: this tenant has no such chat.
    """
    async with engine.connect() as connection:
        overview = await _overview(connection, tenant, chat)
        key = ChatKey(tenant, overview.id)
        return Detail(
            overview,
            await chats.branches(connection, key),
            await chats.made(connection, key),
            await chats.latest_runs(connection, key),
            await chats.spent(connection, key),
        )


async def show_summary(engine: AsyncEngine, tenant: int, chat: str, checkpoint: int) -> Shown:
    """One summary.

    Raises:
        NotFound: this tenant has no such chat, or the chat no such checkpoint.
    """
    async with engine.connect() as connection:
        key = ChatKey(tenant, (await _overview(connection, tenant, chat)).id)
        made, text = await _made(connection, key, chat, checkpoint)
        memory = await _memory(connection, key, chat, checkpoint)
        path = await messages.path(connection, key, made.covered_until)
    current = bool(path) and path[-1].digest == made.covered_digest
    covers = (
        [CoveredMessage(row.message_id, row.role, row.tokens) for row in path] if current else []
    )
    narrative = message.markdown(memory.narrative)
    talk = [Said(one.number, one.speaker, one.text, one.at) for one in memory.talk]
    return Shown(made, text, narrative, memory.pins, talk, current, covers)


async def serve(engine: AsyncEngine, by: Operator, chat: str, checkpoint: int) -> Served:
    """Makes a checkpoint, an older version or an ancestor, the one that serves at its boundary and below.

    Deeper ones serve no more; what they covered is summarised anew from this one. Work that is
    under way is refused.

    Raises:
        NotFound: this tenant has no such chat, or the chat no such checkpoint.
        Conflict: what it covers was edited or deleted since.
    """
    async with engine.begin() as connection:
        key = await _lock(connection, by.tenant, chat)
        await _made(connection, key, chat, checkpoint)
        served = await _serve(connection, by, key, chat, checkpoint)
        await audit.record(
            connection, by.tenant, by.actor, "checkpoint.serve", chat, checkpoint=checkpoint
        )
    return served


async def correct(
    engine: AsyncEngine,
    settings: Settings,
    by: Operator,
    chat: str,
    checkpoint: int,
    narrative: str | None = None,
    pins: Sequence[GivenPin] | None = None,
    forget: Sequence[str] = (),
) -> Served:
    """Makes a new version of a checkpoint, with another narrative, other pins, or without some talk, and serves that.

    The version that was there is kept, and may be served again.

    Raises:
        NotFound: this tenant has no such chat, or the chat no such checkpoint.
        Conflict: what it covers was edited or deleted since.
        Unprocessable: a part is too long, or names what there is not; nothing was stored.
    """
    async with engine.begin() as connection:
        key = await _lock(connection, by.tenant, chat)
        old, _ = await _made(connection, key, chat, checkpoint)
        memory = corrected(
            await _memory(connection, key, chat, checkpoint), narrative, pins, forget
        )
        rows = await messages.find(connection, key, [old.covered_until])
        covered = Covered(
            old.covered_messages,
            old.covered_tokens,
            rows[old.covered_until].sent_at if rows else None,
        )
        found = await _overview(connection, by.tenant, chat)
        policy = settings.policy(found.model, found.window_tokens, found.overhead_tokens)
        rendered, _ = await asyncio.to_thread(compose.rendered, memory, policy, covered)
        size = message.size(rendered)
        check_size(size, before=old.tokens, covered=covered.tokens, window=found.window_tokens)
        new = await checkpoints.correct(
            connection,
            key,
            checkpoint,
            memory,
            rendered,
            kind="corrected",
            tokens=size,
            summariser="operator",
            prompt_version="",
            verdict={"outcome": "corrected", "by": by.actor},
        )
        served = await _serve(connection, by, key, chat, new)
        what = {"checkpoint": checkpoint, "made": new}
        await audit.record(connection, by.tenant, by.actor, "checkpoint.correct", chat, **what)
    return served


async def reset(engine: AsyncEngine, by: Operator, chat: str, keep: int | None = None) -> Dropped:
    """Drops the checkpoints of a chat; with `keep`, only those that do not lead up to that one.

    The one that is kept serves. Work that is under way is refused when it comes to publish. New
    summaries are made when the chat goes on.
    """
    async with engine.begin() as connection:
        dropped = await _drop(connection, by, chat, keep)
        await audit.record(
            connection,
            by.tenant,
            by.actor,
            "chat.reset",
            chat,
            dropped=dropped.checkpoints,
            kept=keep,
        )
    return dropped


async def recompute(engine: AsyncEngine, by: Operator, chat: str) -> Dropped:
    """Drops the checkpoints of a chat and makes new ones right away, from the stored messages."""
    async with engine.begin() as connection:
        dropped = await _drop(connection, by, chat, None)
        if not dropped.waits:
            wake_up = await work.mark_due_at_once(
                connection, await _lock(connection, by.tenant, chat)
            )
            dropped = replace(dropped, wake_up=wake_up)
        await audit.record(
            connection, by.tenant, by.actor, "chat.recompute", chat, dropped=dropped.checkpoints
        )
    return dropped


async def list_jobs(
    engine: AsyncEngine,
    tenant: int,
    states: Sequence[jobs.State] = jobs.STATES,
    *,
    after: int = 0,
    limit: int,
) -> list[Job]:
    """A page of a tenant's work in these states; `after` is the id of the last job of the page before."""
    async with engine.connect() as connection:
        return await jobs.page(connection, tenant, states, after=after, limit=limit)


async def retry(engine: AsyncEngine, by: Operator, chat: str) -> str:
    """Makes a chat's work due now, whatever failed before.

    Returns:
        The key to ring with.
    """
    async with engine.begin() as connection:
        wake_up = await work.mark_due_at_once(connection, await _lock(connection, by.tenant, chat))
        await audit.record(connection, by.tenant, by.actor, "job.retry", chat)
    return wake_up


async def retry_dead(engine: AsyncEngine, by: Operator) -> int:
    """Makes all dead work of the tenant due now; returns how many chats that are."""
    async with engine.begin() as connection:
        revived = await work.revive(connection, by.tenant)
        await audit.record(connection, by.tenant, by.actor, "job.retry", None, revived=revived)
    return revived


async def status(engine: AsyncEngine, tenant: int | None) -> Status:
    """How the work stands; of all tenants for None. Endpoints are the whole fleet's."""
    async with engine.connect() as connection:
        return Status(
            await jobs.figures(connection, tenant),
            await jobs.page(connection, tenant, ["working"], limit=_MOST_LEASES),
            await breakers.everyone(connection),
        )


async def delete(engine: AsyncEngine, by: Operator, chat: str) -> None:
    """Deletes a chat and all that is its own: messages, checkpoints, drafts, runs. The audit row stays."""
    async with engine.begin() as connection:
        await chats.forget(connection, await _lock(connection, by.tenant, chat))
        await audit.record(connection, by.tenant, by.actor, "chat.delete", chat)


async def _drop(connection: AsyncConnection, by: Operator, chat: str, keep: int | None) -> Dropped:
    key = await _lock(connection, by.tenant, chat)
    line: list[int] = []
    if keep is not None:
        made = {one.id: one.parent_id for one in await chats.made(connection, key)}
        if keep not in made:
            raise _without(chat, keep)
        step: int | None = keep
        while step in made:
            line.append(step)
            step = made[step]
    dropped = await chats.drop_checkpoints(connection, key, line)
    if keep is not None:
        await checkpoints.serve(connection, key, keep, by.actor)
    waits = await _lacks_texts(
        connection, key, (await _overview(connection, by.tenant, chat)).leaf_id
    )
    if waits:
        await work.ask_for_bodies(connection, key)
    return Dropped(dropped, waits)


async def _serve(
    connection: AsyncConnection, by: Operator, key: ChatKey, chat: str, checkpoint: int
) -> Served:
    """Serves a checkpoint that exists, and marks due what follows it."""
    if not await checkpoints.serve(connection, key, checkpoint, by.actor):
        raise Conflict(
            f"what checkpoint {checkpoint} covers was edited or deleted since, so it fits no request"
        )
    wake_up = None
    waits = await _lacks_texts(
        connection, key, (await _overview(connection, key.tenant, chat)).leaf_id
    )
    if waits:
        await work.ask_for_bodies(connection, key)
    else:
        wake_up = await work.mark_due_at_once(connection, key)
    made, _ = await _made(connection, key, chat, checkpoint)
    return Served(made, waits, wake_up)


async def _made(
    connection: AsyncConnection, key: ChatKey, chat: str, checkpoint: int
) -> tuple[Made, str]:
    found = await chats.summary(connection, key, checkpoint)
    if found is None:
        raise _without(chat, checkpoint)
    return found


async def _memory(connection: AsyncConnection, key: ChatKey, chat: str, checkpoint: int) -> Memory:
    found = await checkpoints.memory(connection, key, checkpoint)
    if found is None:  # dropped since it was looked at
        raise _without(chat, checkpoint)
    return found


def _without(chat: str, checkpoint: int) -> NotFound:
    return NotFound(f"chat {chat!r} has no checkpoint {checkpoint}")


async def _lacks_texts(connection: AsyncConnection, chat: ChatKey, leaf: str | None) -> bool:
    """Whether a text is not kept any more that the next summary of the newest path has to read."""
    path = await messages.path(connection, chat, leaf) if leaf else []
    made = await checkpoints.along(connection, chat, {row.checkpoint_id or 0 for row in path})
    covered = max((one.messages for one in made.settled), default=0)
    uncovered = [row.message_id for row in path[covered:]]
    return bool(uncovered and await messages.without_body(connection, chat, uncovered))


async def _overview(connection: AsyncConnection, tenant: int, chat: str) -> Overview:
    found = await chats.overviews(connection, tenant, chat=chat)
    if not found:
        raise NotFound(f"there is no chat {chat!r}")
    return found[0]


async def _lock(connection: AsyncConnection, tenant: int, chat: str) -> ChatKey:
    key = await chats.lock(connection, tenant, chat)
    if key is None:
        raise NotFound(f"there is no chat {chat!r}")
    return key
