"""Use case: a host has its own models write, by prompts that it takes and replies that it hands in.

It asks for the prompts of one chat at a time, after a turn of that chat.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from service.clients.wake_ups import Queue
from service.errors import NotFound
from service.storage import prompts
from service.storage.database import Database
from service.storage.prompts import TakenPrompt

_LOOKS: Final = 0.5  # seconds between two looks
_LATE: Final = 10.0  # seconds that a reply may be on its way


@dataclass(frozen=True, slots=True)
class NextPrompt:
    """A prompt that was taken, or none; `again` says that one may be there soon."""

    prompt: TakenPrompt | None
    again: bool


async def take_next(
    database: Database, tenant: int, chat: str, wait: float, limit: float
) -> NextPrompt:
    """Takes the next prompt of a chat, for which its model has `limit` seconds.

    While a worker has yet to say whether there is one, it is waited for, `wait` seconds at most.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    while prospect := await prompts.find_prospect(database.reads, tenant, chat):
        if prospect == "there":
            async with database.engine.begin() as connection:
                taken = await prompts.take_prompt(connection, tenant, chat, limit + _LATE)
            if taken:
                return NextPrompt(taken, again=True)
        if loop.time() + _LOOKS > until:
            return NextPrompt(None, again=True)
        await asyncio.sleep(_LOOKS)
    return NextPrompt(None, again=False)


async def accept_reply(
    database: Database, queue: Queue, tenant: int, prompt: str, reply: bytes
) -> float:
    """Stores the reply to a prompt, packed, and wakes a worker, whose round goes on with it.

    Returns:
        The seconds since the prompt was taken.

    Raises:
        NotFound: no such prompt waits for a reply.
    """
    async with database.engine.begin() as connection:
        answered = await prompts.store_reply(connection, tenant, prompt, reply)
    if answered is None:
        raise NotFound(
            "no prompt with this id waits for a reply: it has one, its time is over, or its chat"
            " was changed or deleted; nothing is to be done"
        )
    # After the commit: a worker that comes earlier would find no reply.
    await queue.wake(answered.wake_up)
    return answered.seconds
