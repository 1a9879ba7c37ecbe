"""`/metrics`: who may read it, what is counted, and that no label ever has a word of anybody."""

import re

import httpx
import pytest
from starlette.routing import Route

from service import __version__
from service.api import scrape
from service.api.scrape import create_worker_app
from service.settings import load
from service.storage import runs
from service.web import pages
from tests.conftest import METRICS_TOKEN, Service
from tests.fakes.scripted_llm import Fail, Say
from tests.service.harness import Harness
from tests.service.journey import Tenant
from tests.service.problems import is_problem
from tests.service.talk import Talk, long_chat, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

Sample = tuple[str, frozenset[tuple[str, str]]]
COMPRESS = "/v1/compress"
METRICS_KEY = {"Authorization": f"Bearer {METRICS_TOKEN}"}


@pytest.fixture(autouse=True)
def _figures_are_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "_KEPT", 0.0)


def parsed(text: str) -> dict[Sample, float]:
    """Every sample by its name and labels."""
    found = re.findall(r"(?m)^(\w+)(?:\{(.*)\})? (\S+)$", text)
    return {(name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels))): float(value) for name, labels, value in found}


async def scraped(service: Service) -> dict[Sample, float]:
    async with httpx.AsyncClient(base_url=service.url, headers=METRICS_KEY) as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parsed(answer.text)


class Counted:
    """What was counted since the last look."""

    def __init__(self, service: Service, before: dict[Sample, float]) -> None:
        self._service, self._before = service, before

    async def since(self, name: str, **labels: str) -> float:
        """How much a counter grew."""
        sample = name, frozenset(labels.items())
        return (await scraped(self._service)).get(sample, 0) - self._before.get(sample, 0)


async def counted(service: Service) -> Counted:
    return Counted(service, await scraped(service))


async def value(service: Service, name: str, **labels: str) -> float | None:
    """A gauge; None when it is not shown."""
    return (await scraped(service)).get((name, frozenset(labels.items())))


async def test_an_answer_is_counted_with_the_tokens_that_it_saves(service: Service, harness: Harness) -> None:
    now = await counted(service)
    talk, leaf = await long_chat(service.as_filter)
    await talk.ask(leaf)
    await harness.drain(service.runtime.worker_context)

    answer = await talk.ask(leaf)
    await Talk(service.as_filter, "another", talk.rows).ask(leaf)

    assert answer["status"] == "ready"
    count = "precis_context_duration_seconds_count"
    assert await now.since(count, answer="ready") == 1
    assert await now.since(count, answer="pending") == 2
    assert (
        await now.since("precis_http_request_duration_seconds_count", method="POST", route=COMPRESS, status="200") == 3
    )
    saved = answer["tokens"]["before"] - answer["tokens"]["after"]
    assert await now.since("precis_context_tokens_saved_total") == saved > 0


async def test_work_is_counted_by_its_outcome_and_the_summariser_by_its_answers(
    service: Service, harness: Harness
) -> None:
    now = await counted(service)
    harness.llm.script(Say(""), Say(""))
    await harness.talk.ingest(harness.talk.turns(20))
    await harness.drain()

    assert await now.since("precis_run_duration_seconds_count", outcome="done") >= 1
    assert await now.since("precis_gate_rejections_total", reason="empty") == 2
    assert await now.since("precis_checkpoints_published_total", kind="degraded") == 1
    assert await now.since("precis_summariser_call_duration_seconds_count", outcome="answered") >= 2
    assert await now.since("precis_summariser_tokens_total", direction="read") > 0

    harness.llm.default = Fail(503)
    await harness.talk.ingest(harness.talk.turns(8, leaf=list(harness.talk.rows)[-1], prefix="more-"))
    await harness.compress()

    assert await now.since("precis_summariser_call_duration_seconds_count", outcome="away") == 1
    assert await now.since("precis_run_duration_seconds_count", outcome="failed") == 1


async def test_the_queue_is_shown_as_it_stands(service: Service, harness: Harness) -> None:
    for state in ("working", "due", "waiting", "dead", "waiting_for_model"):
        assert await value(service, "precis_queue_chats", state=state) == 0
    assert await value(service, "precis_queue_oldest_due_seconds") == 0
    await harness.talk.ingest(harness.talk.turns(20))
    await run_sql(service.runtime, "update chats set due_at = now() - interval '3 minutes'")

    assert await value(service, "precis_queue_chats", state="due") == 1
    assert 180 <= (await value(service, "precis_queue_oldest_due_seconds") or 0) < 240

    await run_sql(service.runtime, "update chats set due_at = null, dead_at = now()")
    assert await value(service, "precis_queue_chats", state="dead") == 1
    assert await value(service, "precis_schema_at_head") == 1
    assert await value(service, "precis_build_info", version=__version__) == 1


async def test_without_its_databases_a_service_shows_that_and_no_old_figure(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(runs, "read_queue_figures", away)
    monkeypatch.setattr(type(service.runtime.queue), "has_worker", away)

    shown = await scraped(service)

    names = {name for name, _ in shown}
    assert shown["precis_database_up", frozenset()] == shown["precis_redis_up", frozenset()] == 0
    assert not {"precis_queue_chats", "precis_worker_alive", "precis_schema_at_head"} & names
    assert "process_resident_memory_bytes" in names


async def test_metrics_are_read_with_their_token_and_nothing_else_is(service: Service) -> None:
    wrong = ("", f"Basic {METRICS_TOKEN}", "Bearer", f"Bearer {METRICS_TOKEN}x", METRICS_TOKEN, "Bearer \u00e9")
    async with httpx.AsyncClient(base_url=service.url) as client:
        for told in (*wrong, f"Bearer {service.operator_key}"):
            is_problem(await client.get("/metrics", headers={b"Authorization": told.encode()}), 401)
        is_problem(await client.get("/v1/chats", headers=METRICS_KEY), 401)


@pytest.mark.parametrize("told", ["", "Bearer", "Bearer "])
async def test_without_a_token_nobody_reads_metrics(told: str) -> None:
    transport = httpx.ASGITransport(create_worker_app(load()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        is_problem(await client.get("/metrics", headers={"Authorization": told}), 401)


ALLOWED = {
    "method": r"GET|PUT|POST|PATCH|DELETE|other",
    "status": r"\d{3}",
    "version": r"\d+\.\d+\.\d+|none|other",
    "le": r"[\d.e-]+|\+Inf",
    "answer": r"ready|not_needed|pending",
    "direction": r"read|written",
    "state": r"working|due|waiting|dead|waiting_for_model|open|half-open|closed",
    "kind": r"llm|extractive|degraded|interim|chats|messages|checkpoints|bodies|runs|audit",
    "outcome": r"done|nothing to do|waits|failed|internal error|refused|released|answered|away"
    r"|compressed|truncated_with_summary|truncated|unchanged",
    "reason": r"[a-z_-]{3,20}",
}


async def check_labels(service: Service, a: Tenant) -> None:
    """After all that a tenant can do, labels have known values only (`tests/service/test_tenants.py`)."""
    for method, path in (("GET", f"/{a.talk.user}"), ("BREW", "/v1/chats"), ("GET", f"/v1/chats/{a.talk.user}/x")):
        await a.filter.request(method, path, headers={"Precis-Filter": a.talk.user})

    async with httpx.AsyncClient(base_url=service.url, headers=METRICS_KEY) as client:
        text = (await client.get("/metrics")).text
        routes = set((await client.get("/openapi.json")).json()["paths"])
    # What another test of this process may have asked for; the description leaves it out.
    undescribed = {"/openapi.json"}
    undescribed |= {
        route.path for module in pages._MODULES for route in module.router.routes if isinstance(route, Route)
    }
    words = {a.name, "tenant-b", a.talk.user, a.talk.model, a.talk.chat, "Story", service.filter_key}
    assert not [word for word in words if word in text]
    for name, labels in parsed(text):
        for label, told in labels:
            if label == "route":
                assert told in routes | undescribed | {"unmatched"}, name
            else:
                assert re.fullmatch(ALLOWED[label], told), (name, label, told)
