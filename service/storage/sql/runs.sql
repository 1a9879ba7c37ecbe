-- latest --
select {columns} from runs
where runs.tenant_id = :tenant and chat_id = :chat and (outcome <> :nothing or calls > 0)
order by id desc limit 20

-- lose --
-- Whoever begins a round has the chat's only lease for this kind of work: the worker of an earlier
-- one that has not ended was killed, or the database went away under it.
update runs set outcome = 'lost', ended_at = now()
where runs.tenant_id = :tenant and chat_id = :chat and by_code = :by_code
    and outcome = 'running'

-- begin --
insert into runs (tenant_id, chat_id, seq, request_id, by_code)
values (:tenant, :chat, :seq, :request_id, :by_code)
returning id

-- count --
update runs set calls = calls + :calls, tokens_read = tokens_read + :tokens_read,
    tokens_written = tokens_written + :tokens_written, published = published + :published
where runs.tenant_id = :tenant and chat_id = :chat and id = :run

-- end --
update runs set outcome = :outcome, reason = :reason, ended_at = now()
where runs.tenant_id = :tenant and chat_id = :chat and id = :run
returning published

-- drop_idle --
delete from runs
where runs.tenant_id = :tenant and chat_id = :chat and id = :run and calls = 0 and published = 0

-- breakers --
-- An endpoint that nobody asks any more stays half-open for ever: its last failure is long ago.
select {state} as state, count(*) from endpoints
where open_until is null or changed_at > now() - interval '1 hour'
group by 1

-- prompts_for_models --
select count(*) from prompts where reply is null

-- add_sums --
-- The database's clock, so that all processes count on the same day.
insert into sums (tenant_id, day, model, tokens_not_sent, tokens_read, truncated)
select tenants.id, cast(now() at time zone 'utc' as date), cast(:model as text),
    cast(:tokens_not_sent as bigint), cast(:tokens_read as bigint), cast(:truncated as bigint)
from tenants where tenants.id = :tenant_id
on conflict (tenant_id, day, model) do update set
    tokens_not_sent = sums.tokens_not_sent + excluded.tokens_not_sent,
    tokens_read = sums.tokens_read + excluded.tokens_read,
    truncated = sums.truncated + excluded.truncated

-- read_sums --
select day, model, tokens_not_sent, tokens_read, truncated from sums
where sums.tenant_id = $1 and day > (now() at time zone 'utc')::date - $2::int
order by day desc, tokens_not_sent + tokens_read desc, model
