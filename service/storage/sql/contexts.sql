-- The one read of the request path, in its three forms, of which two begin alike. All return the
-- same columns, in the order in which `contexts` takes them.
--
-- Parameters of all of them:
--   tenant       whose chat it is
--   window       the model's window in tokens; null for the one of the last ingest
--   apply_parts  share of the window above which a request is served, in parts of `all_parts`
--   room         tokens that the request may have at most, or null
--   beside       what goes beside the messages now, as the filter estimates it; null where it does
--                not say so. The chat's overhead is for its last estimate, so the difference counts;
--                while that estimate is 0, all of the overhead is measured and has this one in it.
--
-- `made` is the shallowest checkpoint that brings the request under apply_at and into its room,
-- because the injected prefix then changes least often; when none does, the deepest. Savings never
-- fall, so `width_bucket` finds it by bisection: with 500 checkpoints one is looked up.

-- continued --
-- The path that was ingested last, and goes on from its leaf (`leaf`) or from the message `above` a
-- new question of `question` tokens. Digests alone are compared, since a digest is made of the id.
-- Two index probes, however long the path: 20 and 2000 messages take the same time.
select chat.id as chat, chat.window_tokens as window, beside.overhead,
    chat.left_alone_at is not null as left_alone, chat.leaf_id as known, request.tokens,
    made.id as checkpoint, made.covered_until, made.covered_digest, made.covered_messages,
    made.covered_tokens, made.tokens as summary_tokens, made.summary
from chats chat
cross join lateral (
    select greatest(
        chat.overhead_tokens + coalesce(:beside::integer
            - coalesce(nullif(chat.beside_tokens, 0),
                least(chat.overhead_tokens, :beside::integer)), 0), 0)
) beside (overhead)
cross join lateral (
    select chat.leaf_tokens + beside.overhead
        + case when chat.leaf_digest = :leaf then 0 else :question::bigint end
) request (tokens)
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = chat.id and made.id = coalesce(
        chat.leaf_line[1 + width_bucket(
            request.tokens - 1 - least(
                coalesce(:window::integer, chat.window_tokens) * :apply_parts::bigint / :all_parts,
                :room::bigint),
            chat.leaf_savings)],
        chat.leaf_line[cardinality(chat.leaf_line)])
where chat.tenant_id = :tenant and chat.external_id = :chat
    and chat.leaf_digest in (:leaf, :above)
    and coalesce(chat.expires_at > now(), true)

-- path --
-- How the two below begin: the newest stored message among `ids` and `digests`, leaf first. `new` is
-- what those before each of them cost, in tokens. ORDER BY, because no join keeps the order of the
-- pairs by itself (a hash join did not). The line is cut to its deepest 16, as in `chats.sql`.
select chat.id as chat, chat.window_tokens as window, beside.overhead,
    chat.left_alone_at is not null as left_alone, newest.message_id as known, request.tokens,
    made.id as checkpoint, made.covered_until, made.covered_digest, made.covered_messages,
    made.covered_tokens, made.tokens as summary_tokens, made.summary
from chats chat
cross join lateral (
    select greatest(
        chat.overhead_tokens + coalesce(:beside::integer
            - coalesce(nullif(chat.beside_tokens, 0),
                least(chat.overhead_tokens, :beside::integer)), 0), 0)
) beside (overhead)
cross join lateral (
    select stored.message_id, stored.path_tokens, stored.checkpoint_id, pair.place
    from unnest(:ids::text[], :digests::text[]) with ordinality as pair (id, digest, place)
    join messages stored on stored.tenant_id = :tenant and stored.chat_id = chat.id
        and stored.message_id = pair.id and stored.digest = pair.digest
    order by pair.place limit 1
) newest
cross join lateral (
    select newest.path_tokens + beside.overhead + (:new::bigint[])[newest.place]
) request (tokens)
left join checkpoints head
    on head.tenant_id = :tenant and head.chat_id = chat.id and head.id = newest.checkpoint_id
left join lateral (
    select (head.ancestors || head.id)[cardinality(head.ancestors) - 14:],
        head.savings[cardinality(head.savings) - 15:]
) line (ids, savings) on true
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = chat.id and made.id = coalesce(
        line.ids[1 + width_bucket(
            request.tokens - 1 - least(
                coalesce(:window::integer, chat.window_tokens) * :apply_parts::bigint / :all_parts,
                :room::bigint),
            line.savings)],
        line.ids[cardinality(line.ids)])

-- branched --
-- Any path of the chat.
where chat.tenant_id = :tenant and chat.external_id = :chat
    and coalesce(chat.expires_at > now(), true)

-- elsewhere --
-- Any path of another chat, for a fork, a clone or an import of `chat`: these keep the ids of their
-- messages, and so the digests. It is one of `lender`, or of anyone in the tenant for null. Of
-- several, the one that knows the newest message. A chat that expires lends nothing: it is deleted
-- with everything stored for it. One that is left alone borrows nothing.
where chat.tenant_id = :tenant and (:lender::text is null or chat.user_id = :lender)
    and chat.expires_at is null
    and chat.id in (
        select lent.chat_id from checkpoints lent
        where lent.tenant_id = :tenant and lent.covered_digest = any(:digests::text[])
    )
    and not exists (
        select 1 from chats asking
        where asking.tenant_id = :tenant and asking.external_id = :chat
            and asking.left_alone_at is not null
    )
order by newest.place, chat.id desc
limit 1
