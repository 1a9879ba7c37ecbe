"""Use case: delete the chats that Open WebUI has no more, whatever events were missed.

Open WebUI is asked for each chat. It says "not found" of a chat that an admin may not see, too, so
that counts only where this admin is shown others' chats, or where the chat is the admin's own. An
error ends the round, and so does a number of missing chats that looks like another Open WebUI.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from service.clients.openwebui import OpenWebUI
from service.errors import Conflict
from service.names import MOST_MISSING
from service.storage import chats
from service.storage.chats import SavedChat
from service.storage.keys import Operator
from service.usecases import delete


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The number of chats that were asked for, and the ids of those that are missing."""

    asked: int
    missing: list[str]


async def reconcile(
    engine: AsyncEngine,
    webui: OpenWebUI,
    by: Operator,
    *,
    most: int = MOST_MISSING,
    dry: bool = False,
) -> Reconciliation:
    """Deletes the chats of a tenant that its Open WebUI has no more.

    Raises:
        OpenWebUIError: it does not answer, or not clearly; nothing was deleted.
        Conflict: more than `most` percent are missing, or it shows this admin no chats of others;
            nothing was deleted.
    """
    async with engine.connect() as connection:
        stored = await chats.list_saved_chats(connection, by.tenant)
    missing = await _find_missing(webui, stored)
    if len(missing) * 100 > len(stored) * most:
        raise Conflict(
            f"Open WebUI at {webui.url} has no more {len(missing)} of {len(stored)} chats, which is"
            f" more than {most} %: nothing was deleted. If it is the right one, run"
            " `precis reconcile` with a higher --most"
        )
    for chat in missing if not dry else ():
        await delete.delete_chat(engine, by, chat, "Open WebUI has it no more")
    return Reconciliation(len(stored), missing)


async def _find_missing(webui: OpenWebUI, stored: Sequence[SavedChat]) -> list[str]:
    """The chats that are surely not there."""
    admin = await webui.whoami()
    missing: list[SavedChat] = []
    sees_others = False
    for chat in stored:
        owner = await webui.owner_of(chat.chat_id)
        if owner is None:
            missing.append(chat)
        sees_others = sees_others or owner not in (None, admin)
    others = [chat for chat in missing if chat.begun_by != admin]
    # One chat of another user is not enough: it may be shared with everybody.
    if others and not (sees_others and await webui.shows_all_chats()):
        raise Conflict(
            f"Open WebUI at {webui.url} shows this admin no chat of other users, so nobody knows"
            " which it has: give it ENABLE_ADMIN_CHAT_ACCESS=true, or delete chats"
            " by `precis chats delete`"
        )
    return [chat.chat_id for chat in missing]
