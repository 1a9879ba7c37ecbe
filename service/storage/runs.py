"""Runs: one row for each round of work that did something, or failed.

Operators see in it what was read, written, rejected, and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import codec, sealing
from service.storage.sealing import AssociatedData
from service.storage.tables import runs
from service.storage.tenancy import ChatKey, match_chat

TOO_HARD = "too hard"
"""The outcome of a round that ended because work on a text took too long or too much memory."""
OWN_ERROR = "internal error"
"""The outcome of a round that ended with an error of our own code."""
NOTHING = "nothing to do"
"""The outcome of a round that found nothing worth doing."""
_ENDS = ("done", NOTHING, TOO_HARD, OWN_ERROR)
_MOST_TROUBLES = 12  # as many as end in giving up
_LATEST = 20


@dataclass(frozen=True, slots=True)
class Run:
    """One round of work on a chat.

    `request_id` is that of the request that made the work due: its log lines have it too.
    """

    id: int
    seq: int
    request_id: str | None
    outcome: str
    reason: str
    calls: int
    tokens_read: int
    tokens_written: int
    published: int
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Calls of a summariser, and the tokens that it read and wrote."""

    calls: int
    tokens_read: int
    tokens_written: int


_RUN = [runs.c[name] for name in Run.__dataclass_fields__]


async def list_latest(connection: AsyncConnection, chat: ChatKey) -> list[Run]:
    """The newest rounds of work that did something, newest first."""
    did_something = or_(runs.c.outcome != NOTHING, runs.c.calls > 0)
    query = select(*_RUN).where(*match_chat(chat, runs), did_something)
    query = query.order_by(runs.c.id.desc()).limit(_LATEST)
    cipher = await sealing.cipher_for(connection, chat.tenant)
    latest_runs: list[Run] = []
    for row in (await connection.execute(query)).mappings():
        stored = row["reason"]
        packed = cipher.decrypt(aad_for_reason(chat, row["id"]), stored) if stored else None
        reason = codec.unpack_text(packed) if packed else ""
        latest_runs.append(Run(**{**row, "reason": reason}))
    return latest_runs


def aad_for_reason(chat: ChatKey, run: int) -> AssociatedData:
    """The place of a round's reason."""
    return AssociatedData(runs.name, "reason", chat, run)


async def find_troubles(
    connection: AsyncConnection, chat: ChatKey, run: int, *, by_code: bool
) -> Sequence[str]:
    """How the rounds before this one ended where the work stands now, newest first.

    At most twelve, all of the same kind of work. Each is `TOO_HARD` or `OWN_ERROR`. A round that
    published something got on, so that those before it were about other texts; one that was
    stopped, or whose summariser failed, says nothing.
    """
    query = select(runs.c.outcome, runs.c.published).where(
        *match_chat(chat, runs),
        runs.c.by_code == by_code,
        runs.c.id < run,
        runs.c.outcome.in_(_ENDS),
    )
    outcomes: list[str] = []
    newest = query.order_by(runs.c.id.desc()).limit(_MOST_TROUBLES)
    for outcome, published in await connection.execute(newest):
        if outcome not in (TOO_HARD, OWN_ERROR):
            break
        outcomes.append(outcome)
        if published:
            break
    return outcomes


async def begin_run(
    connection: AsyncConnection, chat: ChatKey, seq: int, request_id: str, *, by_code: bool
) -> int:
    """Notes that a round has begun, and that an earlier one that has not ended never will.

    Whoever begins has the chat's only lease for this kind of work: the worker of the earlier one
    was killed, or the database went away under it.
    """
    lost = (*match_chat(chat, runs), runs.c.by_code == by_code, runs.c.outcome == "running")
    await connection.execute(update(runs).where(*lost).values(outcome="lost", ended_at=func.now()))
    values = {"seq": seq, "request_id": request_id, "by_code": by_code}
    statement = insert(runs).values(**chat.columns, **values)
    query = statement.returning(runs.c.id)
    return cast(int, (await connection.execute(query)).scalar_one())


async def count_run(
    connection: AsyncConnection, chat: ChatKey, run: int, spent: TokenUse, *, published: bool
) -> None:
    """Adds what an attempt took, and whether it was published, to a round."""
    await connection.execute(
        update(runs)
        .where(*match_chat(chat, runs), runs.c.id == run)
        .values(
            calls=runs.c.calls + spent.calls,
            tokens_read=runs.c.tokens_read + spent.tokens_read,
            tokens_written=runs.c.tokens_written + spent.tokens_written,
            published=runs.c.published + int(published),
        )
    )


async def end_run(
    connection: AsyncConnection,
    chat: ChatKey,
    run: int,
    outcome: str,
    reason: str = "",
) -> int:
    """Notes how a round ended.

    `done`, `nothing to do`, `waits`, `failed`, `too hard`, `internal error`, `refused`, or
    `released`; `lost` is what the next one finds that has not.

    Returns:
        How many checkpoints it has published.
    """
    cipher = await sealing.cipher_for(connection, chat.tenant)
    sealed = cipher.encrypt(aad_for_reason(chat, run), codec.pack_text(reason)) if reason else None
    values = {"outcome": outcome, "reason": sealed, "ended_at": func.now()}
    ended = update(runs).where(*match_chat(chat, runs), runs.c.id == run).values(values)
    return (await connection.execute(ended.returning(runs.c.published))).scalar_one_or_none() or 0


async def drop_idle(connection: AsyncConnection, chat: ChatKey, run: int) -> None:
    """Deletes the row of a round, unless it called a summariser or published something."""
    is_idle = runs.c.calls == 0, runs.c.published == 0
    await connection.execute(
        delete(runs).where(*match_chat(chat, runs), runs.c.id == run, *is_idle)
    )
