-- A claim: `one_by_one`, `next_chat` and `lease`, in one transaction.

-- one_by_one --
-- Claims are made one by one: two at the same time would count the same work under way, and each
-- would pass by what the other has locked and go away empty. A claim whose worker froze must not
-- hold up the fleet, so it may be silent in the middle of one for 10 s only.
select pg_advisory_xact_lock(hashtext('precis claim')),
    set_config('idle_in_transaction_session_timeout', '10s', true)

-- next_chat --
-- The chats that have been due for longest, of the tenant with the least work under way, and of
-- those the one that was served longest ago. Several of each tenant, because an ingest may have
-- the first locked. What is asked of the chat itself is asked again after locking it, as it may
-- have changed meanwhile. "No key": a row that refers to the chat, as the counters do, locks its
-- key while it is written, and a chat passed by for that would wait for the next sweep.
--
-- asking    whether the summariser may be asked
-- patience  failed attempts after which it is not asked
select chats.id, chats.tenant_id, chats.attempts from tenants
cross join lateral (
    select id, due_at from chats
    where chats.tenant_id = tenants.id and due_at <= now()
        and (lease_until is null or lease_until < now())
        and coalesce(expires_at > now(), true)
        and (:asking or attempts >= :patience or pressing)
    order by due_at limit 4
) head
join chats on chats.tenant_id = tenants.id and chats.id = head.id
where chats.due_at <= now() and (chats.lease_until is null or chats.lease_until < now())
order by (select count(*) from chats w where w.tenant_id = tenants.id and w.lease_until > now()),
    tenants.served_at nulls first, head.due_at
limit 1 for no key update of chats skip locked

-- lease --
-- An attempt counts from its beginning: a worker that dies in it cannot count it. No more than 1000
-- are counted; a chat may fail for ever, a column does not count for ever. The columns are fields
-- of `Lease`.
update chats
set lease_token = :token, lease_until = now() + make_interval(secs => :seconds),
    lease_endpoint = :endpoint, leased_by = :worker, attempts = least(attempts, 1000) + 1
where chats.tenant_id = :tenant and chats.id = :chat
returning handed_seq as seq, epoch, attempts, model, window_tokens as window,
    usage_factor, overhead_tokens as overhead, leaf_id as leaf, array_remove(due_leaves, leaf_id) as other_leaves,
    compactor, external_id as chat_id, user_id, request_id, left_alone_at is not null as left_alone
