-- Statements about messages. `columns` are those of `MessageRow`, `above` and `subtree` the first
-- parts of statements.

-- by_host_id --
select {columns} from messages
where messages.tenant_id = :tenant and chat_id = :chat and host_id = :host_id
order by created_at desc limit 1

-- untold --
select message_id from messages
where messages.tenant_id = :tenant and chat_id = :chat and host_id is null

-- by_id --
select {columns} from messages
where messages.tenant_id = :tenant and chat_id = :chat and message_id = any(:ids)

-- path --
-- One at a time by the key. For a join, PostgreSQL's generic plan, which takes a chat for small,
-- read all of its messages for each one: 1.5 s for 1,000.
with recursive up as (
    select {columns} from messages
    where messages.tenant_id = :tenant and chat_id = :chat and message_id = :leaf
    union all
    select parent.* from up
    cross join lateral (
        select {columns} from messages
        where messages.tenant_id = :tenant and chat_id = :chat and message_id = up.parent_id
        limit 1
    ) parent
)
select * from up order by depth

-- above --
with recursive above as (
    select message_id, parent_id from messages
    where messages.tenant_id = :tenant and chat_id = :chat and message_id = :leaf
    union all
    select parent.message_id, parent.parent_id from messages parent
    join above on parent.message_id = above.parent_id
    where parent.tenant_id = :tenant and parent.chat_id = :chat
)

-- wrote_on --
{above}
select 1 from messages
where messages.tenant_id = :tenant and chat_id = :chat and author_id = :user
    and message_id in (select message_id from above)
limit 1

-- branches --
-- Not `exists`: PostgreSQL's generic plan takes a chat for small, and looks through all of its
-- messages for each one: 1 s for 2,000. This it hashes once.
select coalesce(host_id, message_id), depth, path_tokens, checkpoint_id from messages
where messages.tenant_id = :tenant and chat_id = :chat
    and message_id not in (
        select child.parent_id from messages child
        where child.tenant_id = :tenant and child.chat_id = :chat and child.parent_id is not null
    )
order by depth desc

-- bodies --
select message_id, body from messages
where messages.tenant_id = :tenant and chat_id = :chat and message_id = any(:ids)
    and body is not null

-- subtree --
with recursive subtree as (
    select message_id from messages
    where messages.tenant_id = :tenant and chat_id = :chat and message_id = any(:roots)
    union all
    select child.message_id from messages child
    join subtree on child.parent_id = subtree.message_id
    where child.tenant_id = :tenant and child.chat_id = :chat
)

-- drop_below --
{subtree}
delete from messages
where messages.tenant_id = :tenant and chat_id = :chat
    and message_id in (select message_id from subtree)

-- unconfirmed --
select message_id from messages
where messages.tenant_id = :tenant and chat_id = :chat
    and not confirmed and host_id is null
    and (parent_id = any(:parents) or (:at_beginning and parent_id is null))

-- assign_checkpoint --
-- A message keeps a checkpoint that is deeper, or as deep, unless it is one of `superseded`; if the
-- new one is `preferred`, none does. An interim one that is as deep gives way. It is not enough to
-- look at those that the new one grew from: code's summaries and copies of another chat's are
-- published while a model writes this one.
{subtree}, outdone as (
    select made.id from checkpoints made
    join checkpoints newest on newest.id = :checkpoint
    where made.tenant_id = :tenant and made.chat_id = :chat
        and newest.tenant_id = :tenant and newest.chat_id = :chat
        and (
            made.covered_messages < newest.covered_messages
            or made.covered_messages = newest.covered_messages and made.kind = 'interim'
        )
)
update messages set checkpoint_id = :checkpoint
where messages.tenant_id = :tenant and chat_id = :chat
    and message_id in (select message_id from subtree)
    and (
        :preferred or checkpoint_id is null or checkpoint_id = any(:superseded)
        or checkpoint_id in (select id from outdone)
    )
