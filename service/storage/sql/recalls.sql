-- lenders --
-- For the first turn of a fork, which is not stored yet: the chats of `user`, or of anyone, that
-- have a checkpoint on the path; see `contexts.sql`.
select chat.id from chats chat
where chat.tenant_id = :tenant and (:anyone or chat.user_id = :user)
    and chat.expires_at is null and chat.id in (
        select lent.chat_id from checkpoints lent
        where lent.tenant_id = :tenant and lent.covered_digest = any(cast(:digests as text[]))
    )

-- covered --
-- Of these chats (`chats`) the one that knows the newest message of the pairs, that message's
-- deepest checkpoint, and of this the one that was served: the one asked for, if the branch has it,
-- or else the deepest. A branch without one has a `whole` all the same.
select chat.id, made.id as made,
    case when :whole then newest.message_id else made.covered_until end as until,
    case when :whole then newest.digest else made.covered_digest end as digest,
    chat.user_id as owner, chat.window_tokens - chat.overhead_tokens as left_tokens
from chats chat
cross join lateral (
    select stored.message_id, stored.digest, stored.checkpoint_id, pair.place
    from unnest(cast(:ids as text[]), cast(:digests as text[]))
        with ordinality as pair (id, digest, place)
    join messages stored on stored.tenant_id = :tenant and stored.chat_id = chat.id
        and stored.message_id = pair.id and stored.digest = pair.digest
    order by pair.place limit 1
) newest
left join checkpoints head
    on head.tenant_id = :tenant and head.chat_id = chat.id and head.id = newest.checkpoint_id
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = chat.id and made.id =
        case when :checkpoint = any(head.ancestors) then :checkpoint else head.id end
where chat.tenant_id = :tenant and chat.id = any(cast(:chats as bigint[]))
    and (made.id is not null or :whole)
    and coalesce(chat.expires_at > now(), true)
order by newest.place, chat.id desc limit 1
