-- copy --
-- The messages of this chat that another chat with the same root has at the same place. Of several,
-- the chat that is stored for longest says whose they are.
with theirs as (
    select distinct on (own.message_id) own.message_id,
        coalesce(lent.author_id, lender.user_id) as author
    from messages own
    join messages root on root.tenant_id = :tenant and root.message_id in (
        select begun.message_id from messages begun
        where begun.tenant_id = :tenant and begun.chat_id = :chat and begun.depth = 1
    ) and root.depth = 1 and root.chat_id != :chat
    join messages lent on lent.tenant_id = :tenant and lent.chat_id = root.chat_id
        and lent.message_id = own.message_id
    join chats lender on lender.tenant_id = :tenant and lender.id = lent.chat_id
    where own.tenant_id = :tenant and own.chat_id = :chat
        and own.message_id = any(cast(:ids as text[]))
    order by own.message_id, lender.id
)
update messages set author_id = theirs.author
from theirs, chats this
where messages.tenant_id = :tenant and messages.chat_id = :chat
    and messages.message_id = theirs.message_id
    and this.tenant_id = :tenant and this.id = :chat
    and theirs.author not in ('', this.user_id)
returning messages.author_id

-- wrote_on --
-- The message `leaf`, and all above it. One at a time by the key, as in `messages.path`.
with recursive up as (
    select stored.parent_id, stored.author_id from messages stored
    where stored.tenant_id = :tenant and stored.chat_id = :chat and stored.message_id = :leaf
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
