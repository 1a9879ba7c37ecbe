-- users --
-- The columns are fields of `User`.
select chat_authors.user_id,
    count(*) filter (where chats.user_id = chat_authors.user_id) as chats,
    count(*) filter (where chats.user_id != chat_authors.user_id) as shared_chats,
    max(chats.updated_at) as updated_at,
    -- The newest name, and the chat that it is sealed for.
    (array_agg(chats.id order by chats.updated_at desc) filter (where chats.user_name is not null
        and chats.user_id = chat_authors.user_id))[1] as id,
    (array_agg(chats.user_name order by chats.updated_at desc) filter (
        where chats.user_name is not null and chats.user_id = chat_authors.user_id))[1] as user_name
from chat_authors
join chats on chats.tenant_id = :tenant and chats.id = chat_authors.chat_id
where chat_authors.tenant_id = :tenant and chat_authors.user_id > :after
    and starts_with(chat_authors.user_id, :begins)
group by 1 order by 1 limit :limit
