-- by_digest --
select id, reply, taken_at is not null as is_taken,
    extract(epoch from expires_at - now()) as seconds_left
from prompts
where prompts.tenant_id = :tenant and chat_id = :chat and digest = :digest

-- basis --
select basis from prompts where prompts.tenant_id = :tenant and chat_id = :chat limit 1

-- waiting --
select {columns} from prompts
where prompts.tenant_id = :tenant and chat_id = :chat and reply is null limit 1

-- drop --
delete from prompts where prompts.tenant_id = :tenant and chat_id = :chat

-- is_out --
-- Whether a host has a prompt for this model.
select exists (
    select from prompts
    where prompts.tenant_id = :tenant and model = :model and reply is null
        and expires_at > now()
)

-- wake_round --
-- The chat's row before the prompt's, as whoever changes a chat locks it.
update chats set due_at = now()
where chats.tenant_id = :tenant and chats.id = (
    select chat_id from prompts
    where prompts.tenant_id = :tenant and prompts.id = :prompt
        and taken_at is not null and reply is null
)
returning chats.id, handed_seq

-- reply --
update prompts set reply = :reply, replied_at = now()
where prompts.tenant_id = :tenant and prompts.id = :prompt
    and taken_at is not null and reply is null
returning extract(epoch from replied_at - taken_at)

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

-- prospect --
-- What there is for a host that asks for the prompt of a chat: `there`, if there is one that nobody
-- has taken; `soon`, if a worker is to look at the chat within moments, or does so; else null, also
-- while another asker has the prompt.
select case
        when prompt.taken_at is null and prompt.id is not null then 'there'
        when prompt.id is null and chats.due_at <= now() + interval '20 seconds' then 'soon'
    end
from chats
left join prompts prompt
    on prompt.tenant_id = :tenant and prompt.chat_id = chats.id and prompt.reply is null
        and prompt.expires_at > now()
where chats.tenant_id = :tenant and chats.external_id = :external
