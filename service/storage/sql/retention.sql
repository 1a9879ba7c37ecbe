-- drop_covered --
-- Drops what no branch needs, and counts it. A branch needs its messages
-- below the deepest checkpoint of its leaf, walked up from the leaf; what an interim one covers has
-- not been read by a summariser yet.
with recursive needed as (
    select m.message_id, m.parent_id, coalesce(c.covered_messages, 0) as covered
    from messages m
    left join checkpoints head
        on head.tenant_id = :tenant and head.chat_id = :chat and head.id = m.checkpoint_id
    left join checkpoints c
        on c.tenant_id = :tenant and c.chat_id = :chat
        and c.id = case head.kind when 'interim' then head.parent_id else head.id end
    where m.tenant_id = :tenant and m.chat_id = :chat and m.depth > coalesce(c.covered_messages, 0)
        and not exists (
            select 1 from messages child
            where child.tenant_id = :tenant and child.chat_id = :chat
                and child.parent_id = m.message_id
        )
    union
    select above.message_id, above.parent_id, needed.covered
    from needed join messages above
        on above.tenant_id = :tenant and above.chat_id = :chat
        and above.message_id = needed.parent_id
    where above.depth > needed.covered
), unneeded as (
    select stored.message_id from messages stored
    where stored.tenant_id = :tenant and stored.chat_id = :chat and stored.body is not null
        and stored.author_id is distinct from ''
        and stored.message_id not in (select message_id from needed)
), dropped as (
    update messages set body = null from unneeded
    where messages.tenant_id = :tenant and messages.chat_id = :chat
        and messages.message_id = unneeded.message_id
)
select count(*) from unneeded
