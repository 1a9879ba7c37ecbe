-- lead_to_kept --
-- A message falls back to the deepest kept ancestor of its checkpoint: ids rise to the child.
update messages m
set checkpoint_id = (select max(a) from unnest(c.ancestors) a where a = any(:keep))
from checkpoints c
where m.tenant_id = :tenant and m.chat_id = :chat
    and c.tenant_id = :tenant and c.chat_id = :chat
    and c.id = m.checkpoint_id and not c.id = any(:keep)

-- retire --
-- The checkpoint `newest` with the boundary `until` serves in place of those that are `superseded`,
-- and of the interim ones with a boundary on the path to `until`. These go out of service, but for
-- those that a branch needs which goes off above. The messages that pointed to one fall back to the
-- deepest one that is left on their path. It need not be an ancestor: a branch may keep an interim
-- one in service.
with recursive path as (
    select message_id, parent_id, checkpoint_id from messages
    where messages.tenant_id = :tenant and chat_id = :chat and message_id = :until
    union all
    select above.message_id, above.parent_id, above.checkpoint_id from messages above
    join path on above.message_id = path.parent_id
    where above.tenant_id = :tenant and above.chat_id = :chat
), retiring as (
    select id from checkpoints c
    where c.tenant_id = :tenant and c.chat_id = :chat
        and c.id <> :newest and c.retired_at is null
        and (
            c.id = any(:superseded)
            or c.kind = 'interim' and c.covered_until in (select message_id from path)
        )
        and not exists (
            select from messages m
            where m.tenant_id = :tenant and m.chat_id = :chat and m.checkpoint_id = c.id
                and m.message_id not in (select message_id from path)
        )
), falling_back as (
    update messages m
    set checkpoint_id = (
        select c.id from checkpoints c
        where c.tenant_id = :tenant and c.chat_id = :chat and c.covered_messages <= m.depth
            and c.id in (select checkpoint_id from path)
            and c.id not in (select id from retiring)
        order by c.covered_messages desc limit 1
    )
    where m.tenant_id = :tenant and m.chat_id = :chat
        and m.message_id in (select message_id from path)
        and m.checkpoint_id in (select id from retiring)
)
update checkpoints set retired_at = now()
where checkpoints.tenant_id = :tenant and chat_id = :chat and id in (select id from retiring)
