"""Use case: a user looks at what stands for the earlier part of a chat, and says what they want.

That is: leave it alone, go on again, keep a sentence in its summaries, or withdraw one. Only who
began a chat says so; others look at the branches that they wrote on. Operators do the same for
users. Each change leaves an audit row, without a word of the chat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import NotFound, Unprocessable
from service.settings import Settings
from service.storage import audit, authors, wishes, work
from service.storage.contexts import Served
from service.storage.database import Database
from service.storage.wishes import Wanted
from service.summarising.kept.wishes import MOST, wish
from service.usecases import context, inspect
from service.usecases.context import Decision, Lookup, Path
from service.usecases.operate import Operator


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: a `user` for their own chat, by Open WebUI's id, or an operator for any chat."""

    by: Operator
    user: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What stands for the earlier part of a branch, and what its user wants of the chat."""

    decision: Decision
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Changed:
    """What a user wants of a chat now; `wake_up` is the wake-up message to send, if there is one.

    `wishes` are the sentences, in their order; they are withdrawn by their place, from 1.
    """

    left_alone: bool
    wishes: Sequence[str]
    wake_up: str | None = None


def of_user(tenant: int, user: str) -> Asker:
    """A user, as the audit names them."""
    return Asker(Operator(tenant, audit.user_actor(user)), user)


async def view(
    database: Database,
    settings: Settings,
    asker: Asker,
    chat: str,
    pairs: Sequence[tuple[str, str]],
    depth: int,
) -> View:
    """What a request of this branch would carry now.

    Args:
        database: what it is read from.
        settings: the rules.
        asker: who looks.
        chat: Open WebUI's chat id.
        pairs: (id, digest) of the branch's newest messages, leaf first.
        depth: how many messages the branch has.

    Raises:
        NotFound: this user neither began such a chat here nor wrote on this branch of it.
    """
    async with database.engine.connect() as connection:
        wanted = await _visible(connection, asker, chat, pairs)
    served = Served(settings.apply_share(wanted.model))
    path = Path(depth, pairs)
    asked = Lookup(asker.by.tenant, chat, None, path, sizes=[0] * len(pairs), served=served)
    return View(await context.stored(database, asked), wanted)


async def read(engine: AsyncEngine, by: Operator, chat: str) -> Wanted:
    """What a user wants of a chat, for an operator, which the audit log notes: it is a text.

    Raises:
        NotFound: this tenant has no such chat.
    """
    asker = Asker(by)
    async with engine.begin() as connection:
        wanted = await _find(connection, asker, chat)
        await _note(connection, asker, "wish.read", chat)
    return wanted


async def leave_alone(engine: AsyncEngine, asker: Asker, chat: str) -> Changed:
    """Nothing serves this chat any more, and no summary of it is made, until it is resumed.

    What is stored of it stays.

    Raises:
        NotFound: this user has no such chat here.
    """
    async with engine.begin() as connection:
        wanted = await _find(connection, asker, chat, lock=True)
        await wishes.leave_alone(connection, wanted.key)
        await _note(connection, asker, "chat.leave", chat)
    return Changed(True, wanted.wishes)


async def resume(engine: AsyncEngine, asker: Asker, chat: str) -> Changed:
    """The chat is summarised again, at once if it has grown enough.

    Raises:
        NotFound: this user has no such chat here.
    """
    async with engine.begin() as connection:
        wanted = await _find(connection, asker, chat, lock=True)
        await wishes.resume(connection, wanted.key)
        wake_up = await work.mark_due_at_once(connection, wanted.key)
        await _note(connection, asker, "chat.resume", chat)
    return Changed(False, wanted.wishes, wake_up)


async def focus(
    engine: AsyncEngine, asker: Asker, chat: str, sentence: str, *, mask: bool
) -> Changed:
    """Keeps a sentence in the chat's summaries, as the user's own constraint.

    `mask` says whether secrets in it are masked.

    Raises:
        NotFound: this user has no such chat here.
        Unprocessable: the sentence is empty or too long, or the chat has enough of them.
    """
    text = wish(sentence, mask)
    async with engine.begin() as connection:
        wanted = await _find(connection, asker, chat, lock=True)
        held = [*dict.fromkeys((*wanted.wishes, text))]
        if len(held) > MOST:
            why = f"a chat has at most {MOST} sentences of focus; withdraw one first"
            raise Unprocessable(why, pointer="/focus")
        return await _wish(connection, asker, chat, wanted, held, "wish.add", len(held))


async def withdraw(engine: AsyncEngine, asker: Asker, chat: str, place: int) -> Changed:
    """Takes a sentence away, by its place from 1; the next summaries are without it.

    Raises:
        NotFound: this user has no such chat here, or it has no such sentence.
    """
    async with engine.begin() as connection:
        wanted = await _find(connection, asker, chat, lock=True)
        held = list(wanted.wishes)
        if not 1 <= place <= len(held):
            raise NotFound(f"chat {chat!r} has no sentence {place} of focus; it has {len(held)}")
        del held[place - 1]
        return await _wish(connection, asker, chat, wanted, held, "wish.withdraw", place)


async def _wish(
    connection: AsyncConnection,
    asker: Asker,
    chat: str,
    wanted: Wanted,
    held: Sequence[str],
    action: str,
    place: int,
) -> Changed:
    """Stores the wishes, and makes the work due that puts them into the summary."""
    left_alone = wanted.left_alone_at is not None
    await wishes.store(connection, wanted.key, held)
    # Of a chat that is left alone there is no work, until it is resumed.
    wake_up = None if left_alone else await work.mark_due_at_once(connection, wanted.key)
    await _note(connection, asker, action, chat, place=place)
    return Changed(left_alone, held, wake_up)


async def _visible(
    connection: AsyncConnection, asker: Asker, chat: str, pairs: Sequence[tuple[str, str]]
) -> Wanted:
    """A chat for somebody who looks at a branch; another writer is told no wish of its owner."""
    wanted = await wishes.find(connection, asker.by.tenant, chat)
    if wanted is None:
        raise inspect.no_chat(chat)
    if asker.user in (None, wanted.owner):
        return wanted
    if not await authors.wrote_on(connection, wanted.key, asker.user, pairs):
        raise inspect.no_chat(chat)
    return replace(wanted, wishes=())


async def _find(
    connection: AsyncConnection, asker: Asker, chat: str, *, lock: bool = False
) -> Wanted:
    wanted = await wishes.find(connection, asker.by.tenant, chat, lock=lock)
    if wanted is None or asker.user not in (None, wanted.owner):
        # The same words for a chat of somebody else: nobody learns that it is there.
        raise inspect.no_chat(chat)
    return wanted


async def _note(
    connection: AsyncConnection, asker: Asker, action: str, chat: str, **details: object
) -> None:
    await audit.record(connection, asker.by.tenant, asker.by.actor, action, chat, **details)
