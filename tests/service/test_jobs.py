"""`GET /v1/jobs`, `POST /v1/jobs/{chat}/retry` and `GET /v1/status`: the work as operators see it."""

from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.conftest import Service
from tests.service.harness import Harness
from tests.service.talk import Json, row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

REASON = "Model 'scripted' at http://llm/v1: HTTP 500: out of memory."


@pytest_asyncio.fixture(loop_scope="module")
async def queue(service: Service) -> None:
    """Two chats due, one worked on, one put off, one dead, one without work; and one that is due in another tenant."""
    await run_sql(service.runtime, "insert into tenants (name) values ('another') on conflict do nothing")
    await run_sql(
        service.runtime,
        """
        insert into chats (tenant_id, external_id, user_id, model, window_tokens,
                           due_at, dead_at, lease_until, lease_token, leased_by, attempts, last_error)
        select tenants.id, chat, 'user', 'model', 8192, now() + due, now() + dead, now() + lease,
               case when lease is not null then gen_random_uuid() end, case when lease is not null then 'host:1' end,
               attempts, case when attempts > 1 then :reason end
        from tenants join (values
            ('default', 'due-1', interval '-100 s', null::interval, null::interval, 0),
            ('default', 'due-2', '-99 s', null, null, 0),
            ('default', 'working', '0 s', null, '60 s', 1),
            ('default', 'put-off', '60 s', null, null, 3),
            ('default', 'dead', null, '0 s', null, 12),
            ('default', 'idle', null, null, null, 0),
            ('another', 'theirs', '-5000 s', null, null, 0)
        ) as chat (tenant, chat, due, dead, lease, attempts) on tenants.name = tenant
        order by array_position(array['due-1', 'due-2', 'working', 'put-off', 'dead', 'idle', 'theirs'], chat)
        """,
        reason=REASON,
    )


async def get(service: Service, where: str, **query: Any) -> Json:
    response = await service.as_operator.get(f"/v1{where}", params=query)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def retry(service: Service, chat: str) -> int:
    return (await service.as_operator.post(f"/v1/jobs/{chat}/retry")).status_code


@pytest.mark.usefixtures("queue")
async def test_every_chat_with_work_is_counted_and_listed_once_with_its_state_and_reason(service: Service) -> None:
    jobs: list[Json] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await get(service, "/jobs", limit=1, cursor=cursor)
        assert len(page["jobs"]) == 1
        jobs += page["jobs"]
        cursor = page["next"]

    assert [job["chat_id"] for job in jobs] == ["due-1", "due-2", "working", "put-off", "dead"]
    assert {job["chat_id"]: (job["state"], job["attempts"], job["last_error"], job["worker"]) for job in jobs} == {
        "due-1": ("due", 0, None, None),
        "due-2": ("due", 0, None, None),
        "working": ("working", 1, None, "host:1"),
        "put-off": ("waiting", 3, REASON, None),
        "dead": ("dead", 12, REASON, None),
    }
    status = await get(service, "/status")
    # Not what the other tenant has, which has waited longer.
    assert 100 <= status["queue"].pop("oldest_due_seconds") < 1000
    assert status["queue"] == {"working": 1, "due": 2, "waiting": 1, "dead": 1, "stalled": False}
    assert status["endpoints"] == []
    assert status["warnings"] == []


async def test_work_that_is_due_for_long_and_that_nobody_does_is_stalled(service: Service, harness: Harness) -> None:
    await harness.long_chat()
    assert (await get(service, "/status"))["queue"]["stalled"] is False
    await run_sql(service.runtime, "update chats set due_at = now() - interval '121 seconds'")
    status = await get(service, "/status")
    assert status["queue"]["stalled"] is True
    (warning,) = status["warnings"]
    assert "start `precis worker`, or more of them" in warning
    await run_sql(service.runtime, "update chats set lease_until = now() + interval '1 minute'")
    assert (await get(service, "/status"))["queue"]["stalled"] is False


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("chat", ["dead", "idle"])
async def test_a_retry_makes_work_due_now_rings_and_is_audited(service: Service, chat: str) -> None:
    assert await retry(service, chat) == 204

    query = "select *, due_at <= now() as due from chats where external_id = :chat"
    after = await row(service.runtime, query, chat=chat)
    assert (after.due, after.attempts, after.dead_at) == (True, 0, None)
    audited = await row(service.runtime, "select * from audit")
    assert (audited.action, audited.chat) == ("job.retry", chat)
    assert audited.actor == f"{service.operator_key[:14]}… test"
    async with Redis.from_url(service.runtime.urls.redis) as redis:
        assert len(await redis.keys("arq:job:compress:*")) == 1


@pytest.mark.usefixtures("queue")
async def test_a_retry_of_work_that_is_under_way_takes_nothing_from_its_worker(service: Service) -> None:
    assert await retry(service, "working") == 204

    after = await row(service.runtime, "select * from chats where external_id = 'working'")
    assert after.lease_token
    assert after.handed_seq == 1  # so that it is due again when the worker ends
