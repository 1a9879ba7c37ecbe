-- lenders --
-- For the first turn of a fork, which is not stored yet: the chats of `lender`, or for null of anyone,
-- that have the checkpoint of its request.
select chat.id from chats chat
join checkpoints lent
    on lent.tenant_id = :tenant and lent.chat_id = chat.id and lent.id = :checkpoint
where chat.tenant_id = :tenant and chat.expires_at is null
    and (cast(:lender as text) is null or chat.user_id = :lender)

-- covered --
-- Of these chats (`chats`) what a request hides: down to the boundary of its checkpoint, or of its
-- path the `whole`, as far as it is stored.
select chat.id, made.id as made, coalesce(newest.message_id, made.covered_until) as node,
    case when :whole then coalesce(newest.message_id, made.covered_until)
        else made.covered_until end as until,
    chat.user_id as owner,
    (chat.window_tokens / chat.usage_factor)::integer - chat.overhead_tokens as left_tokens
from chats chat
left join messages newest
    on newest.tenant_id = :tenant and newest.chat_id = chat.id and newest.message_id = :node
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = chat.id and made.id = :checkpoint
where chat.tenant_id = :tenant and chat.id = any(cast(:chats as bigint[]))
    and (made.id is not null or :whole and newest.message_id is not null)
    and coalesce(chat.expires_at > now(), true)
limit 1
