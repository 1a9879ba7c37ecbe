"""Chats as operators look at them, filled through plain SQL: many, and one with a large tree.

Texts are not stored, and digests are names; what pages show of a chat, its work and its checkpoints is all there.
"""

from typing import TypeAlias

import asyncpg

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

TRUNK, EVERY = 1025, 50
BRANCHES, LONG = 39, 25
"""Beside the trunk, and the messages of each: 40 branches of 2,000 messages."""
CHECKPOINTS = TRUNK // EVERY

# Of each hundred: one is dead, one waits after a failure, some are worked on or due, one will be deleted.
_MANY = (
    """
    insert into chats (tenant_id, external_id, user_id, model, window_tokens, overhead_tokens, leaf_id, leaf_digest,
                       leaf_tokens, leaf_line, created_at, updated_at, due_at, dead_at, attempts, last_error,
                       lease_until, leased_by, expires_at)
    select $1, md5('chat' || n)::uuid, (array['anna', 'bela', 'chiara', 'dmitri', 'eva', 'farid'])[n % 6 + 1],
           (array['llama3.3:70b', 'qwen3:32b', 'gpt-4.1-mini', 'mistral-small:24b'])[n % 4 + 1],
           (array[131072, 40960, 131072, 32768])[n % 4 + 1], 1800, 'leaf', md5('leaf'), 2000 + n * 7919 % 90000,
           case when n % 3 = 0 then array[n::bigint] end,
           now() - n * interval '7 minutes', now() - n * interval '1 minute',
           case when n % 100 in (7, 8) then now() - interval '20 seconds'
                when n % 100 = 9 then now() + interval '4 minutes' end,
           case when n % 100 = 11 then now() - interval '2 hours' end,
           case when n % 100 = 11 then 5 when n % 100 = 9 then 2 else 0 end,
           case when n % 100 = 11 then (array['the summariser answered HTTP 500', 'no answer within 300 seconds',
                                              'the model is not there: qwen3:320b'])[n / 100 % 3 + 1]
                when n % 100 = 9 then 'the summariser does not answer' end,
           case when n % 500 = 8 then now() + interval '1 minute' end, case when n % 500 = 8 then 'worker-1:4711' end,
           case when n % 100 = 13 then now() + interval '1 day' end
    from generate_series(1, $2::int) n
    """,
    """
    insert into messages (tenant_id, chat_id, message_id, role, depth, fingerprint, digest, content_hash, tokens,
                          path_tokens, step_tokens, step_calls)
    select $1, id, 'leaf', 'assistant', 4 + id % 130, 'f', leaf_digest, '\\x00', 600, leaf_tokens, '{600}', '{0}'
    from chats where tenant_id = $1 and leaf_id = 'leaf' and $2::int > 0
    """,
    """
    insert into checkpoints (tenant_id, chat_id, parent_id, ancestors, covered_until, covered_digest, covered_messages,
                             covered_tokens, savings, kind, ledger, summary, tokens, summariser, prompt_version)
    select $1, id, 0, '{}', 'leaf', leaf_digest, 4, 2000, '{1000}',
           case when id % 50 = 0 then 'degraded' else 'llm' end, '[]', repeat(md5(id::text), 20), 700,
           'ollama:qwen3:8b', '1'
    from chats where tenant_id = $1 and leaf_id = 'leaf' and leaf_line is not null and $2::int > 0
    """,
    """
    insert into chat_authors (tenant_id, chat_id, user_id)
    select $1, id, user_id from chats where tenant_id = $1 and $2::int > 0 on conflict do nothing
    """,
)
_CHAT = """
    insert into chats (tenant_id, external_id, user_id, model, window_tokens, overhead_tokens, leaf_id, leaf_digest,
                       leaf_tokens)
    values ($1, $2, 'anna', 'llama3.3:70b', 131072, 1800, 't' || $3::int, md5('t' || $3), $3 * 300) returning id
"""
_TREE = """
    insert into messages (tenant_id, chat_id, message_id, parent_id, role, depth, fingerprint, digest, content_hash,
                          tokens, path_tokens, step_tokens, step_calls, checkpoint_id)
    select $1, $2, name, above, case when depth % 2 = 1 then 'user' else 'assistant' end, depth, md5(name), md5(name),
           '\\x00', 300, depth * 300, '{300}', '{0}', case when depth >= $4 then $3 + depth / $4 - case when of = 't'
           then 0 else (depth / $4 - began / $4) end end
    from (
        select 't' of, 0 began, n depth, 't' || n name, case when n > 1 then 't' || n - 1 end above
        from generate_series(1, $5::int) n
        union all
        select 'b', b * $7::int, b * $7 + k, 'b' || b || '-' || k,
               case when k = 1 then 't' || b * $7 else 'b' || b || '-' || k - 1 end
        from generate_series(1, $6::int) b, generate_series(1, $7::int) k
    ) place
"""
_LINE = """
    insert into checkpoints (id, tenant_id, chat_id, parent_id, ancestors, covered_until, covered_digest,
                             covered_messages, covered_tokens, savings, kind, ledger, summary, tokens, summariser,
                             prompt_version)
    select $3 + n, $1, $2, case when n > 1 then $3 + n - 1 else 0 end,
           array(select $3 + m from generate_series(1, n - 1) m), 't' || n * $4, md5('t' || n * $4), n * $4,
           n * $4 * 300, array(select m * $4 * 300 - 2000 from generate_series(1, n) m), 'llm', '[]',
           repeat(md5(n::text), 60), 2000, 'ollama:qwen3:8b', '1'
    from generate_series(1, $5::int / $4) n
"""


async def many(connection: Connection, tenant: int, count: int) -> None:
    """So many chats; a third has a summary."""
    for statement in _MANY:
        await connection.execute(statement, tenant, count)


async def tree(connection: Connection, tenant: int, name: str) -> int:
    """A chat of 40 branches and 2,000 messages, with 20 checkpoints in a line; returns the newest one's id."""
    chat = await connection.fetchval(_CHAT, tenant, name, TRUNK)
    first: int = await connection.fetchval("select coalesce(max(id), 0) + 1000 from checkpoints")
    await connection.execute(_TREE, tenant, chat, first, EVERY, TRUNK, BRANCHES, LONG)
    await connection.execute(_LINE, tenant, chat, first, EVERY, TRUNK)
    await connection.execute("select setval(pg_get_serial_sequence('checkpoints', 'id'), $1)", first + CHECKPOINTS)
    return first + CHECKPOINTS
