-- infos --
-- The fields of `CheckpointInfo`; `which` is an id, or null for all of the chat.
select made.id, nullif(made.parent_id, 0) as parent_id,
    made.id in (
        select unnest(head.ancestors || head.id) from checkpoints head
        where head.tenant_id = :tenant and head.chat_id = :chat
            and head.id in (
                select checkpoint_id from messages
                where messages.tenant_id = :tenant and messages.chat_id = :chat
            )
    ) as serving,
    made.covered_until as boundary, coalesce(last.host_id, made.covered_until) as covered_until,
    made.covered_messages, made.covered_tokens, made.tokens, made.kind, made.summariser,
    made.prompt_version, made.verdict, made.created_at
from checkpoints made
left join messages last
    on last.tenant_id = :tenant and last.chat_id = :chat and last.message_id = made.covered_until
where made.tenant_id = :tenant and made.chat_id = :chat
    and made.id = coalesce(:which, made.id)
order by made.id

-- summary --
select summary from checkpoints
where checkpoints.tenant_id = :tenant and chat_id = :chat and id = :checkpoint

-- planned --
-- The fields of `planning.Checkpoint`, after whether it is an interim one.
select kind = 'interim', id, covered_until, covered_messages, covered_tokens, tokens, parent_id,
    windows[cardinality(windows)]
from checkpoints
where checkpoints.tenant_id = :tenant and chat_id = :chat and id = any(:ids)

-- line --
-- A checkpoint and those that it grew from, down to the one that is stored whole: ids rise to the
-- child.
select line.id, line.memory, line.summary, cardinality(grown.ids) as length
from (
    select (made.ancestors || made.id)[cardinality(made.ancestors) / :whole * :whole + 1:] as ids
    from checkpoints made
    where made.tenant_id = :tenant and made.chat_id = :chat and made.id = :checkpoint
) grown
join checkpoints line
    on line.tenant_id = :tenant and line.chat_id = :chat and line.id = any(grown.ids)
order by line.id

-- lineage --
select ancestors, savings, windows from checkpoints
where checkpoints.tenant_id = :tenant and chat_id = :chat and id = :last

-- whole --
select * from checkpoints
where checkpoints.tenant_id = :tenant and chat_id = :chat and id = :checkpoint

-- next_id --
select nextval(pg_get_serial_sequence('checkpoints', 'id'))

-- drop_all_but --
delete from checkpoints
where checkpoints.tenant_id = :tenant and chat_id = :chat and id <> all(:keep)

-- retire_others --
-- Those that reach as far as `newest`, but those of branches that go off above.
{subtree}
update checkpoints set retired_at = now()
where checkpoints.tenant_id = :tenant and chat_id = :chat and id <> :newest
    and covered_messages >= :depth and retired_at is null
    and not exists (
        select from messages last
        where last.tenant_id = :tenant and last.chat_id = :chat
            and last.message_id = checkpoints.covered_until
            and last.message_id not in (select message_id from subtree)
    )

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
