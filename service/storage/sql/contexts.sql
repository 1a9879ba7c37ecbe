-- The one read of the request path, in three forms, of which each fills in `read`: which `newest` node
-- of the path is stored, of which checkpoints the choice is (`line`), and `which` chat it is. The
-- columns are the fields of `StoredContext`, and then those of `Checkpoint`.
--
-- Parameters of all of them:
--   tenant, model  whose chat it is, and which model is asked now
--   total          tokens of the request as it came, by our own count
--   limit          tokens above which it needs a summary, as the model's provider counts
--   window         the model's window
--
-- `made` is chosen among the checkpoints with which the request fits. Those go first that were
-- written for a window like this one, at least half as large; without any, those for the largest.
-- Among equals it is the one that served last, because the request then begins like the one before;
-- else the deepest, after which most turns fit. The deepest serves too where the request fits with
-- none. A line has 16 checkpoints at most.

-- read --
select chat.id, use.factor, chat.left_alone_at is not null, newest.message_id,
    newest.message_id is not null and newest.body is null, coalesce(newest.depth, 0),
    coalesce(newest.confirmed, false), newest.host_id is not null, made.summary, coalesce(made.id <= chat.served_id, false),
    -- An interim one with a parent carries on what a model wrote.
    coalesce(made.kind = 'degraded' or made.kind = 'interim' and made.parent_id = 0, false),
    chat.attempts > 0,
    (
        select told.host_id from messages told
        where told.tenant_id = :tenant and told.chat_id = chat.id
            and told.message_id = made.covered_until
    ),
    made.id, made.covered_until, made.covered_messages, made.covered_tokens, made.tokens
from chats chat
cross join lateral (
    select case when chat.model = :model then chat.usage_factor else 1 end
) use (factor)
{newest}
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = chat.id and newest.message_id is not null
        and made.id = (
            select line.id
            from unnest({line}) with ordinality line (id, savings, written_for, place)
            cross join lateral (
                select line.savings >= :total::bigint - floor(:limit::bigint / use.factor),
                    least(line.written_for * 2::bigint, :window::bigint)
            ) judged (fits, likeness)
            order by judged.fits desc, case when judged.fits then judged.likeness end desc,
                judged.fits and line.id = chat.served_id desc, line.place desc
            limit 1
        )
where chat.tenant_id = :tenant and {which}

-- leaf --
-- The path that was ingested last: `leaf` is the newest node above the question. Four index probes,
-- however long the path.
left join messages newest
    on newest.tenant_id = :tenant and newest.chat_id = chat.id and newest.message_id = :leaf
        and chat.leaf_id = :leaf

-- any --
-- Any path: the newest stored node among `ids`, which come leaf first. ORDER BY, because no join keeps
-- the order by itself (a hash join did not).
cross join lateral (
    select stored.message_id, stored.depth, stored.confirmed, stored.host_id, stored.body,
        stored.checkpoint_id
    from unnest(:ids::text[]) with ordinality as sent (id, place)
    join messages stored on stored.tenant_id = :tenant and stored.chat_id = chat.id
        and stored.message_id = sent.id
    order by sent.place limit 1
) newest
left join checkpoints head
    on head.tenant_id = :tenant and head.chat_id = chat.id and head.id = newest.checkpoint_id

-- doubts --
-- Of a chat of which a request shows nothing that is stored: whether another request has shown a path
-- that none showed again, and whether the host was asked for its messages before: it has told some
-- that no request has shown.
select exists (
        select from messages where messages.tenant_id = :tenant and chat_id = :chat
            and host_id is null and not confirmed and depth = 1
    ) as is_volatile,
    exists (
        select from messages where messages.tenant_id = :tenant and chat_id = :chat
            and host_id is not null and not confirmed
    ) as is_told
