-- take --
-- Takes the prompt of a chat that nobody has taken, by the host's id of the chat. The chat's row is
-- locked first, as whoever changes a chat locks it, and its round is due when the time for a reply
-- is over.
with chat as (
    update chats set due_at = now() + make_interval(secs => :seconds)
    where chats.tenant_id = :tenant and chats.external_id = :external
        and exists (
            select 1 from prompts
            where prompts.tenant_id = chats.tenant_id and prompts.chat_id = chats.id
                and prompts.taken_at is null and prompts.expires_at > now()
        )
    returning chats.id
)
update prompts
set taken_at = now(), expires_at = now() + make_interval(secs => :seconds)
from chat
where prompts.tenant_id = :tenant and prompts.chat_id = chat.id and prompts.taken_at is null
    and prompts.expires_at > now()
returning prompts.id, prompts.chat_id, prompts.form

-- is_planned --
-- Whether a worker is to look at a chat within moments, or does so, and no prompt of it is with a
-- host: then a prompt of it may be stored soon.
select exists (
    select 1 from chats
    where chats.tenant_id = :tenant and chats.external_id = :external
        and chats.due_at <= now() + interval '20 seconds'
        and not exists (
            select 1 from prompts
            where prompts.tenant_id = chats.tenant_id and prompts.chat_id = chats.id
                and prompts.taken_at is not null and prompts.reply is null
                and prompts.expires_at > now()
        )
)
