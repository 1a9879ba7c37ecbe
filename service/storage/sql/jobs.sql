-- page --
-- A tenant's jobs in these states with an id above `after`, in that order. The columns are fields of
-- `Job`.
select chats.id, tenants.name as tenant, chats.external_id as chat_id, chats.model, job.state,
    chats.attempts, chats.last_error, chats.due_at, chats.dead_at,
    case when job.state = 'working' then chats.leased_by end as worker,
    case when job.state = 'working' then greatest(chats.lease_until, chats.code_until) end
        as lease_until
from chats join tenants on tenants.id = chats.tenant_id
cross join lateral (select {state}) job (state)
where chats.tenant_id = :tenant and (chats.due_at is not null or chats.dead_at is not null)
    and job.state = any(:states::text[]) and chats.id > :after
order by chats.id limit :limit

-- counts --
-- How many chats are in each state, and for how many seconds the first of them is due; of all
-- tenants for null.
select job.state, count(*) as chats,
    extract(epoch from now() - min(least(chats.due_at, chats.code_at))) as seconds
from chats
join lateral (select {state}) job (state) on true
where (:tenant::bigint is null or chats.tenant_id = :tenant)
    and (chats.due_at is not null or chats.dead_at is not null)
group by 1
