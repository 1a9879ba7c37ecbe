-- A claim: `one_by_one`, `next_chat` and `lease_for_code` or `lease_for_model`, in one transaction.

-- one_by_one --
-- Claims are made one by one: two at the same time would count the same work under way, and each
-- would pass by what the other has locked and go away empty. A claim whose worker froze must not
-- hold up the fleet, so it may be silent in the middle of one for 10 s only.
select pg_advisory_xact_lock(hashtext('precis claim')),
    set_config('idle_in_transaction_session_timeout', '10s', true)

-- next_chat --
-- The next work: of the tenant with the least work of its kind under way, and of those the one that
-- was served longest ago. Of a tenant, code's work goes before the model's, and then the chat that
-- has been due for longest. Several of each tenant, because an ingest may have the first locked.
-- Whether the chat is due is asked again after locking it, as it may have changed meanwhile. "No
-- key": a row that refers to the chat, as the counters do, locks its key while it is written, and a
-- chat passed by for that would wait for the next sweep.
--
-- asking    whether the summariser may be asked
-- patience  failed attempts after which it is not asked
select chats.id, chats.tenant_id, chats.attempts, head.by_code, {writer} as writer from tenants
cross join lateral (
    (
        select id, code_at as at, true as by_code from chats
        where chats.tenant_id = tenants.id and code_at <= now()
            and (code_until is null or code_until < now())
            and coalesce(expires_at > now(), true)
        order by code_at limit 4
    )
    union all
    (
        select id, due_at as at, false as by_code from chats
        where chats.tenant_id = tenants.id and due_at <= now()
            and (lease_until is null or lease_until < now())
            and code_until is null and coalesce(code_at > now(), true)
            and coalesce(expires_at > now(), true)
            and (:asking or attempts >= :patience)
        order by due_at limit 4
    )
) head
join chats on chats.tenant_id = tenants.id and chats.id = head.id
where case when head.by_code
    then chats.code_at <= now() and (chats.code_until is null or chats.code_until < now())
    else chats.due_at <= now() and (chats.lease_until is null or chats.lease_until < now())
    end
order by case when head.by_code
    then (select count(*) from chats w where w.tenant_id = tenants.id and w.code_until > now())
    else (select count(*) from chats w where w.tenant_id = tenants.id and w.lease_until > now())
    end, tenants.served_at nulls first, head.by_code desc, head.at
limit 1 for no key update of chats skip locked

-- lease_for_code --
-- Code's work is due again when the lease ends, unless it is finished before. An ingest or a
-- publication by a model makes it due earlier, and `finish` does not end that. An attempt counts
-- where code's work is all there is. The columns of both leases are fields of `Lease`.
update chats
set code_token = :token, code_until = now() + make_interval(secs => :seconds),
    code_at = now() + make_interval(secs => :seconds),
    leased_by = case when lease_until > now() then leased_by else :worker end,
    attempts = case when :alone then least(attempts, 1000) + 1 else attempts end
where chats.tenant_id = :tenant and chats.id = :chat
returning {columns}

-- writer --
-- The model of its host that writes a chat's summaries. A chat that expires is no chat of its page.
case when chats.expires_at is null then
    case tenants.summariser when 'chat' then chats.model else nullif(tenants.summariser, '') end
end

-- lease_for_model --
-- An attempt counts from its beginning: a worker that dies in it cannot count it. No more than 1000
-- are counted; a chat may fail for ever, a column does not count for ever.
update chats
set lease_token = :token, lease_until = now() + make_interval(secs => :seconds),
    lease_endpoint = :endpoint, leased_by = :worker, attempts = least(attempts, 1000) + 1
where chats.tenant_id = :tenant and chats.id = :chat
returning {columns}

-- columns --
handed_seq as seq, epoch, attempts, model, window_tokens as window, usage_factor,
    overhead_tokens as overhead,
    case when leaf_id is null then array_remove(due_leaves, null)
        else leaf_id || array_remove(due_leaves, leaf_id) end as leaves,
    compactor, external_id as chat_id, user_id, request_id, left_alone_at is not null as left_alone,
    (select {writer} from tenants where tenants.id = chats.tenant_id) as writer
