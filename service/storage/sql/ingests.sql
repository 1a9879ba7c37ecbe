-- known --
-- All that an ingest has to know of a path and its chat, in one row: one that is not stored, or has
-- expired, is as if `user` had begun it now.
--
--   ids       of the nodes that were sent, and of the one that they follow
--   host_ids  the host's own ids of the nodes that were sent, in their order; null for none
--
-- Planned once and not each time, which takes six times as long: LIMIT, so that each message is
-- looked up by its key, whatever the planner thinks of arrays.
--
-- `replaced` are nodes that the host has under the same ids, and that are not on this path: their
-- texts were edited, or what stood above them was.
--
-- `lent` is the deepest checkpoint of another chat that ends at a message which is new here. What was
-- here already had its chance: a reset has dropped its summaries, and those must not come back. A
-- chat that expires lends nothing.
--
-- Of those that reach as far, a summariser's knows more than code's, and then the one that grew from
-- a newer one: an id says only which of two was begun first.
with chat as (
    select chats.*, chats.xmin::text as version from chats
    where chats.tenant_id = :tenant and chats.external_id = :chat
        and coalesce(chats.expires_at > now(), true)
), stored as (
    select messages.message_id, messages.parent_id, messages.role, messages.depth,
        messages.host_id, messages.host_hash, messages.confirmed, messages.tokens,
        messages.path_tokens, messages.step_tokens, messages.step_calls, messages.sent_at,
        messages.checkpoint_id, messages.body is null as lacks_text
    from chat cross join unnest(:ids::text[]) as sent (id)
    cross join lateral (
        select * from messages where messages.tenant_id = :tenant
            and messages.chat_id = chat.id and messages.message_id = sent.id limit 1
    ) messages
)
select chat.id, chat.version, coalesce(chat.user_id, :user) as begun_by,
    chat.left_alone_at is not null as left_alone,
    coalesce(chat.overhead_tokens, 0) as overhead,
    exists (
        select from messages where messages.tenant_id = :tenant and messages.chat_id = chat.id
    ) as has_messages,
    (select coalesce(json_agg(stored), '[]') from stored) as found,
    array(select message_id from stored where lacks_text) as without_text,
    array(
        select other.message_id
        from unnest(:host_ids::text[]) as told (id)
        cross join lateral (
            select message_id from messages where messages.tenant_id = :tenant
                and messages.chat_id = chat.id and messages.host_id = told.id
                and messages.message_id not in (select unnest(:ids::text[])) limit 16
        ) other
    ) as replaced,
    (
        select coalesce(json_object_agg(checkpoints.id, json_build_array(
            checkpoints.covered_tokens - checkpoints.tokens,
            checkpoints.kind = 'interim',
            checkpoints.windows[cardinality(checkpoints.windows)]
        )), '{}')
        from checkpoints
        where checkpoints.tenant_id = :tenant and checkpoints.chat_id = chat.id
            and checkpoints.id = any(array(select checkpoint_id from stored))
    ) as savings,
    coalesce(lent.lender, 'null') as lender
from (select) as always
left join chat on true
left join lateral (
    select json_build_array(
            checkpoints.chat_id,
            checkpoints.ancestors || checkpoints.id,
            json_build_array(
                checkpoints.covered_tokens - checkpoints.tokens,
                checkpoints.kind = 'interim',
                checkpoints.windows[cardinality(checkpoints.windows)]
            )
        ) as lender
    from checkpoints
    join chats lending on lending.tenant_id = :tenant and lending.id = checkpoints.chat_id
    where checkpoints.tenant_id = :tenant and checkpoints.covered_until = any(:ids::text[])
        and not exists (
            select from stored where stored.message_id = checkpoints.covered_until
        )
        and lending.id is distinct from chat.id
        and lending.expires_at is null and checkpoints.retired_at is null
        and lending.user_id = :user
    order by checkpoints.covered_messages desc, checkpoints.kind = 'interim',
        checkpoints.parent_id desc, checkpoints.id desc
    limit 1
) lent on true

-- open --
-- Locks the chat's row, unless it has changed since it was read as `version`, or makes one where
-- there was none. In a statement of its own behind the locks of tombstones (`deletions`), so that it sees what
-- those who held them have deleted.
with deleted as (
    select from tombstones
    where tombstones.tenant_id = :tenant and tombstones.until > now()
        and tombstones.hash = any(cast(:hashes as bytea[]))
), locked as (
    select chats.id from chats
    where chats.tenant_id = :tenant and chats.id = cast(:id as bigint)
        and chats.xmin::text = cast(:version as text)
    for no key update
), begun as (
    insert into chats (tenant_id, external_id, user_id, model, window_tokens)
    select :tenant, :chat, :user, :model, cast(:window as integer)
    where cast(:id as bigint) is null and not exists (select from deleted)
    on conflict (tenant_id, external_id) do nothing
    returning id
)
select exists (select from deleted) as deleted,
    (select id from locked union all select id from begun) as id

-- store --
-- Inserts messages, or gives those a text that are without one; and notes all that changes of the
-- chat. The newest path is copied to its row as in `chats.sql`.
with fresh as (
    insert into messages (
        tenant_id, chat_id, message_id, parent_id, role, depth, host_id, host_hash, confirmed,
        tokens, path_tokens, step_tokens, step_calls, sent_at, checkpoint_id, body, author_id
    )
    select cast(:tenant as bigint), cast(:chat as bigint),
        message_id, parent_id, role, depth, host_id, host_hash, confirmed, tokens, path_tokens,
        cast(step_tokens as integer[]), cast(step_calls as integer[]), sent_at, checkpoint_id, body,
        author_id
    from unnest(
        cast(:message_id as text[]), cast(:parent_id as text[]), cast(:role as text[]),
        cast(:depth as integer[]), cast(:host_id as text[]), cast(:host_hash as text[]),
        cast(:confirmed as boolean[]), cast(:tokens as integer[]), cast(:path_tokens as bigint[]),
        cast(:step_tokens as text[]), cast(:step_calls as text[]), cast(:sent_at as bigint[]),
        cast(:checkpoint_id as bigint[]), cast(:body as bytea[]), cast(:author_id as text[])
    ) as sent (
        message_id, parent_id, role, depth, host_id, host_hash, confirmed, tokens, path_tokens,
        step_tokens, step_calls, sent_at, checkpoint_id, body, author_id
    )
    on conflict (chat_id, message_id) do update set body = excluded.body
), author as (
    insert into chat_authors (tenant_id, chat_id, user_id)
    select :tenant, :chat, :user
    on conflict do nothing
)
update chats
set user_id = :owner, model = :model, window_tokens = :window, window_assumed = :window_assumed,
    overhead_tokens = :overhead, compactor = cast(:compactor as text),
    usage_factor = coalesce(cast(:usage_factor as float8),
        case when chats.model = :model then chats.usage_factor else 1 end),
    expires_at = now() + make_interval(secs => cast(:expires_in as float8)),
    left_alone_at = case when :left_alone then chats.left_alone_at end,
    title = coalesce(cast(:title as bytea), chats.title),
    -- Only the owner's name is stored, and it goes when somebody else is the owner now.
    user_name = coalesce(
        case when cast(:user as text) = :owner then cast(:user_name as bytea) end,
        case when chats.user_id = :owner then chats.user_name end),
    updated_at = now(),
    leaf_id = :leaf, leaf_tokens = :leaf_tokens,
    leaf_line = (made.ancestors || made.id)[cardinality(made.ancestors) - 14:],
    leaf_savings = made.savings[cardinality(made.savings) - 15:],
    leaf_windows = made.windows[cardinality(made.windows) - 15:],
    served_id = coalesce(nullif(cast(:served as bigint), 0), chats.served_id),
    handed_seq = chats.handed_seq + case when :due then 1 else 0 end,
    due_at = case when :due then coalesce(chats.due_at, now() + make_interval(secs => :delay))
        else chats.due_at end,
    code_at = case when :due then least(chats.code_at, now() + make_interval(secs => :delay))
        else chats.code_at end,
    due_leaves = case when :due then array[cast(:leaf as text)] || other.leaves
        else chats.due_leaves end,
    request_id = case when :due then cast(:request_id as text) else chats.request_id end,
    dead_at = case when :due then null else chats.dead_at end
from (
    -- A chat has 256 due branches at most, so that its row stays small; those that the path goes on
    -- from are due no more.
    select array(
        select due.leaf from chats cross join unnest(chats.due_leaves) with ordinality due (leaf, place)
        where chats.tenant_id = :tenant and chats.id = :chat
            and due.leaf <> all(cast(:path as text[]))
        order by due.place limit 255
    ) as leaves
) other
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = :chat and made.id = cast(:made as bigint)
where chats.tenant_id = :tenant and chats.id = :chat
returning chats.handed_seq

-- tell --
-- Notes that nodes which are stored were seen again, and what the host calls those that it told.
-- It confirms `leaf` and the unconfirmed nodes above it (`is_up`).
with recursive up as (
    select message_id, parent_id from messages
    where messages.tenant_id = :tenant and chat_id = :chat and message_id = :leaf and not confirmed
    union all
    select above.message_id, above.parent_id from up
    cross join lateral (
        select message_id, parent_id from messages
        where messages.tenant_id = :tenant and chat_id = :chat and message_id = up.parent_id
            and not confirmed
        limit 1
    ) above
), told as (
    select id, host_id, host_hash
    from unnest(cast(:ids as text[]), cast(:host_ids as text[]), cast(:host_hashes as text[]))
        as told (id, host_id, host_hash)
    where host_id is not null
)
update messages
set confirmed = messages.confirmed or seen.is_up,
    host_id = coalesce(seen.host_id, messages.host_id),
    host_hash = coalesce(seen.host_hash, messages.host_hash)
from (
    select coalesce(up.message_id, told.id) as id, up.message_id is not null as is_up,
        told.host_id, told.host_hash
    from up full join told on told.id = up.message_id
) seen
where messages.tenant_id = :tenant and messages.chat_id = :chat and messages.message_id = seen.id
returning messages.message_id, messages.parent_id, seen.is_up

-- gone --
-- The nodes `replaced`, which the host has under the same ids somewhere else now; what stood above
-- them, and does not stand on their new `path`: it was edited or deleted too. And what no host has
-- told, which may have the same texts.
with recursive up as (
    select message_id, parent_id from messages
    where messages.tenant_id = :tenant and chat_id = :chat
        and message_id = any(cast(:replaced as text[]))
    union
    select above.message_id, above.parent_id from up
    cross join lateral (
        select message_id, parent_id from messages
        where messages.tenant_id = :tenant and chat_id = :chat and message_id = up.parent_id
            and message_id <> all(cast(:path as text[]))
        limit 1
    ) above
)
select message_id from up
union
select message_id from messages
where messages.tenant_id = :tenant and chat_id = :chat and host_id is null
    and message_id <> all(cast(:path as text[]))

-- copy_authors --
-- A fork or a clone repeats the words of the chat that it was made from, so everybody who wrote there
-- is an author here. Another chat is such a source if it has the same first question and the same
-- answer, which is one of `answers`.
insert into chat_authors (tenant_id, chat_id, user_id)
select distinct own.tenant_id, own.chat_id, theirs.user_id
from messages own
join messages root on root.tenant_id = :tenant and root.message_id = own.parent_id
    and root.depth = 1 and root.chat_id != :chat
join messages answer on answer.tenant_id = :tenant and answer.chat_id = root.chat_id
    and answer.message_id = own.message_id
join chat_authors theirs on theirs.tenant_id = :tenant and theirs.chat_id = root.chat_id
where own.tenant_id = :tenant and own.chat_id = :chat
    and own.message_id = any(cast(:answers as text[]))
on conflict do nothing
