"""One request id from the filter to the summariser's call, in the logs, the runs and the answers."""

import re
from typing import Any

import pytest
from opentelemetry import trace
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from tests.fakes.scripted_llm import Say
from tests.service.harness import Harness

pytestmark = pytest.mark.asyncio(loop_scope="module")

GIVEN = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("route", ["compress", "turns"])
async def test_one_request_id_goes_from_a_request_to_the_summariser_and_into_all_log_lines(
    harness: Harness, route: str
) -> None:
    """What `/v1/compress` stores, it stores after its answer."""
    harness.llm.default, sent, talk = Say("## State\n- The heron stands."), GIVEN, harness.talk
    leaf = talk.turns(20)
    body = talk.request(leaf) if route == "compress" else talk.turn(leaf)
    with capture_logs([merge_contextvars]) as logs:
        for _ in range(2):  # no model is asked about what only one request has shown
            answer = await harness.service.as_filter.post(f"/v1/{route}", json=body, headers={"X-Request-ID": sent})
            assert answer.is_success
            assert answer.headers["X-Request-ID"] == sent
            await harness.service.stored()
        assert (await harness.chat()).request_id == sent
        await harness.drain()

    told = [line for line in logs if line["event"] == "summary.published"]
    assert len(told) >= len(await harness.made()) > 0
    for line in told:
        assert (line["chat"], line["user"], line["log_level"]) == ("chat-1", (await harness.chat()).user_id, "info")
        assert line["tokens_before"] > line["tokens_after"] > 0
    assert "heron" not in str(logs).lower(), "no word of the chat"
    assert {line["request_id"] for line in logs if "chat" in line} == {sent}
    assert harness.llm.requests
    assert {request.headers["x-request-id"] for request in harness.llm.requests} == {sent}
    assert {run.request_id for run in await harness.runs()} == {sent}
    shown = (await harness.service.as_operator.get("/v1/chats/chat-1")).json()
    assert {run["request_id"] for run in shown["runs"]} == {sent}


async def test_a_problem_names_the_request_id(harness: Harness) -> None:
    operator = harness.service.as_operator
    refused = await operator.get("/v1/chats/nobody", headers={"X-Request-ID": GIVEN})
    assert (refused.status_code, refused.json()["request_id"]) == (404, GIVEN)
    assert refused.headers["X-Request-ID"] == GIVEN
    hot = await operator.post("/v1/compress", json={}, headers={"X-Request-ID": GIVEN})
    assert (hot.status_code, hot.json()["request_id"]) == (403, GIVEN)


@pytest.mark.parametrize("header", ["x" * 65, "id\tevent=other"])
async def test_an_invalid_id_becomes_a_new_one(harness: Harness, header: str) -> None:
    answers = [
        await harness.service.as_operator.get("/v1/chats", headers={b"X-Request-ID": header.encode("latin-1")})
        for _ in range(2)
    ]
    made = [answer.headers["X-Request-ID"] for answer in answers]
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made)
    assert len(set(made)) == 2


class Agent(trace.TracerProvider):
    """An agent of OpenTelemetry; notes who asks it for a tracer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get_tracer(self, instrumenting_module_name: str, *_: Any, **__: Any) -> trace.Tracer:
        self.asked.append(instrumenting_module_name)
        return trace.NoOpTracer()


async def test_an_agent_of_opentelemetry_gets_nothing_that_fastapi_would_tell_of_a_request(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", agent)
    assert (await harness.service.as_operator.get("/v1/chats", params={"limit": "heron"})).status_code == 422
    assert agent.asked == []
