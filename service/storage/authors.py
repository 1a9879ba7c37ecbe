"""Whose messages a chat has.

Who sends messages first is taken for their author, questions and answers alike. Forks and clones
keep the ids and digests of the chat that they were made from, so they take its authors over.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import ARRAY, Text, bindparam, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import sealing
from service.storage.tables import chat_authors
from service.storage.tenancy import ChatKey

# The messages of this chat that another chat with the same root has at the same place. Of several,
# the chat that is stored for longest says whose they are.
_COPY = text("""
with theirs as (
    select distinct on (own.message_id) own.message_id,
        coalesce(lent.author_id, lender.user_id) as author
    from messages own
    join messages root on root.tenant_id = :tenant and root.digest in (
        select begun.digest from messages begun
        where begun.tenant_id = :tenant and begun.chat_id = :chat and begun.depth = 1
    ) and root.depth = 1 and root.chat_id != :chat
    join messages lent on lent.tenant_id = :tenant and lent.chat_id = root.chat_id
        and lent.message_id = own.message_id and lent.digest = own.digest
    join chats lender on lender.tenant_id = :tenant and lender.id = lent.chat_id
    where own.tenant_id = :tenant and own.chat_id = :chat and own.message_id = any(:ids)
    order by own.message_id, lender.id
)
update messages set author_id = theirs.author
from theirs, chats this
where messages.tenant_id = :tenant and messages.chat_id = :chat
    and messages.message_id = theirs.message_id
    and this.tenant_id = :tenant and this.id = :chat
    and theirs.author not in ('', this.user_id)
returning messages.author_id
""").bindparams(bindparam("ids", type_=ARRAY(Text)))


# The newest message of the pairs that is stored, and all above it. One at a time by the key, as in
# `messages.path`.
_WROTE_ON = text("""
with recursive up as (
    (select stored.parent_id, stored.author_id
    from unnest(cast(:ids as text[]), cast(:digests as text[]))
        with ordinality as pair (id, digest, place)
    join messages stored on stored.tenant_id = :tenant and stored.chat_id = :chat
        and stored.message_id = pair.id and stored.digest = pair.digest
    order by pair.place limit 1)
    union all
    select parent.parent_id, parent.author_id from up
    cross join lateral (
        select above.parent_id, above.author_id from messages above
        where above.tenant_id = :tenant and above.chat_id = :chat
            and above.message_id = up.parent_id
        limit 1
    ) parent
)
select exists (select 1 from up where up.author_id = :user) and exists (
    select 1 from chat_authors
    where chat_authors.tenant_id = :tenant and chat_authors.chat_id = :chat
        and chat_authors.user_id = :user and chat_authors.sent
)
""").bindparams(*(bindparam(name, type_=ARRAY(Text)) for name in ("ids", "digests")))


async def wrote_on(
    connection: AsyncConnection, chat: ChatKey, user: str, pairs: Sequence[tuple[str, str]]
) -> bool:
    """Whether a user, who did not begin the chat, wrote on a branch of it.

    Nobody did whose messages came with a fork: what somebody else goes on with is not theirs.

    `pairs` are (id, digest) of its newest messages, leaf first; the newest one that is stored
    counts, and what is above it.
    """
    seal = await sealing.of(connection, chat.tenant)
    parameters = {
        "tenant": chat.tenant,
        "chat": chat.id,
        "user": user,
        "ids": [identity for identity, _ in pairs],
        "digests": [seal.keyed(digest) for _, digest in pairs],
    }
    return bool((await connection.execute(_WROTE_ON, parameters)).scalar_one())


async def add(connection: AsyncConnection, chat: ChatKey, user: str) -> None:
    """Notes that a user sends messages to a chat."""
    row = chat.columns | {"user_id": user, "sent": True}
    statement = insert(chat_authors).values(row)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["chat_id", "user_id"],
            set_={"sent": True},
            where=chat_authors.c.sent.is_(False),
        )
    )


async def copy(connection: AsyncConnection, chat: ChatKey, ids: Collection[str]) -> None:
    """Takes over whose these messages are from the chat that this one was made from, if any."""
    parameters = {"tenant": chat.tenant, "chat": chat.id, "ids": list(ids)}
    copied = set((await connection.execute(_COPY, parameters)).scalars())
    if copied:
        rows = [chat.columns | {"user_id": user, "sent": False} for user in sorted(copied)]
        await connection.execute(insert(chat_authors).on_conflict_do_nothing(), rows)
