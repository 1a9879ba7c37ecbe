-- covered --
-- The part of a chat that a request hides: down to the boundary of its checkpoint, or the `whole` of
-- its path, as far as it is stored.
select chat.id, coalesce(newest.message_id, made.covered_until) as node,
    case when :whole then coalesce(newest.message_id, made.covered_until)
        else made.covered_until end as until,
    chat.user_id as owner,
    (chat.window_tokens / chat.usage_factor)::integer - chat.overhead_tokens as left_tokens
from chats chat
left join messages newest
    on newest.tenant_id = :tenant and newest.chat_id = chat.id and newest.message_id = :node
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = chat.id and made.id = :checkpoint
where chat.tenant_id = :tenant and chat.external_id = :chat
    and (made.id is not null or :whole and newest.message_id is not null)
    and coalesce(chat.expires_at > now(), true)
