"""One request id from the filter to the summariser's call, and one trace of all that, sent as OTLP over HTTP."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from service import tracing
from service.demo.host import Host
from service.settings import load
from tests.conftest import serving
from tests.fakes.scripted_llm import Fail, Say
from tests.filter.chat import SYSTEM, Chat, filler, filter_of
from tests.service.harness import Harness
from tests.service.talk import Json, row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{SPAN}-01"
SECRET = "heron"  # in every text of the chat


@dataclass
class Collector:
    """A receiver of OTLP over HTTP; `spans` are those that came, in the order of their names' beginnings."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Json]:
        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                of = {one.key: one.value.string_value for one in resource.resource.attributes}
                found += [_plain(span) | {"resource": of} for part in resource.scope_spans for span in part.spans]
        return found

    def named(self, name: str) -> list[Json]:
        return [span for span in self.spans if span["name"] == name]


def _plain(span: Any) -> Json:
    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "kind": span.kind,
        "failed": span.status.code == 2,
        "attributes": {one.key: _value(one.value) for one in span.attributes},
        "events": list(span.events),
    }


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found


@contextmanager
def collecting() -> Iterator[Collector]:
    """In a thread of its own: what is left is sent while the test's own loop stands still."""
    collector = Collector()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Spans of what happens inside; all are there after the block."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with tracing.exporting():
            assert tracing.is_on()
            yield collector


async def turn_with_work(harness: Harness) -> str:
    """A turn of a long chat through the real filter; returns the request id that it sends."""
    async with filter_of(harness.service.url, harness.service.filter_key, on_overflow="pass") as loaded:
        chat = Chat(Host(), loaded, "chat-1", system=f"{SYSTEM} {SECRET}")
        for number in range(12):
            await chat.say_nothing_of(filler(f"{SECRET} q{number}"), filler(f"{SECRET} a{number}"))
        turn = await chat.say(f"{SECRET}?", f"{SECRET}!")
        stash: Json = turn.metadata["precis"]
        return str(stash["trace"])


async def test_one_request_id_goes_from_the_filter_to_the_summariser_and_into_all_log_lines(harness: Harness) -> None:
    harness.llm.default = Say("## Current state\n- Nothing.")
    with capture_logs([merge_contextvars]) as logs:
        sent = await turn_with_work(harness)
        assert (await harness.chat()).traceparent[3:35] == sent
        await harness.drain()

    assert re.fullmatch("[0-9a-f]{32}", sent)
    of_the_round = [line for line in logs if line["event"] == "summary.published"]
    assert of_the_round
    assert {line["request_id"] for line in logs if "chat" in line} == {sent}
    assert harness.llm.requests
    assert {request.headers["traceparent"][3:35] for request in harness.llm.requests} == {sent}
    assert {run.request_id for run in await harness.runs()} == {sent}
    shown = (await harness.service.as_operator.get("/v1/chats/chat-1")).json()
    assert {run["request_id"] for run in shown["runs"]} == {sent}


async def test_the_answer_and_a_problem_name_the_request_id(harness: Harness) -> None:
    operator, talk = harness.service.as_operator, harness.talk
    leaf = talk.turns(2)
    for path, method, body in (
        ("/v1/chats/chat-1/context", "POST", talk.question(leaf)),
        ("/v1/chats/chat-1/transcript", "PUT", talk.transcript(leaf)),
    ):
        answer = await harness.service.as_filter.request(method, path, json=body, headers={"traceparent": GIVEN})
        assert answer.is_success
        assert answer.headers["X-Request-Id"] == TRACE
    refused = await operator.get("/v1/chats/nobody", headers={"traceparent": GIVEN})
    assert (refused.status_code, refused.json()["request_id"]) == (404, TRACE)
    assert refused.headers["X-Request-Id"] == TRACE
    hot = await operator.post("/v1/chats/chat-1/context", json={}, headers={"traceparent": GIVEN})
    assert (hot.status_code, hot.json()["request_id"]) == (403, TRACE)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"{GIVEN}-more",
        f"{GIVEN}\u00e9",
    ],
)
async def test_an_invalid_traceparent_becomes_a_new_one(harness: Harness, header: str) -> None:
    answers = [
        await harness.service.as_operator.get("/v1/chats", headers={b"traceparent": header.encode("latin-1")})
        for _ in range(2)
    ]
    made = [answer.headers["X-Request-Id"] for answer in answers]
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made)
    assert len({*made, TRACE}) == 3


async def test_a_traceparent_of_a_later_version_is_understood(harness: Harness) -> None:
    headers = {"traceparent": f"01-{TRACE}-{SPAN}-01-what-comes-then"}
    assert (await harness.service.as_operator.get("/v1/chats", headers=headers)).headers["X-Request-Id"] == TRACE


async def test_work_of_an_older_release_and_of_operators_has_an_id_too(harness: Harness) -> None:
    await harness.long_chat()
    await run_sql(harness.runtime, "update chats set traceparent = null")
    await harness.compress()
    assert re.fullmatch("[0-9a-f]{32}", (await harness.runs())[-1].request_id)

    await harness.service.as_operator.post("/v1/jobs/chat-1/retry", headers={"traceparent": GIVEN})
    await harness.compress()
    assert (await harness.runs())[-1].request_id == TRACE


async def test_one_trace_goes_from_the_filter_to_the_summariser(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.llm.default = Say(f"## Current state\n- The {SECRET} stands.")
    with exported(monkeypatch) as collector:
        sent = await turn_with_work(harness)
        await harness.drain()
        await harness.service.as_filter.get("/livez")

    spans = {span["id"]: span for span in collector.spans}
    assert {span["trace"] for span in spans.values()} == {sent}
    assert {span["resource"]["service.name"] for span in spans.values()} == {"precis"}
    (stored,) = [span for span in spans.values() if span["name"] == "PUT /v1/chats/{chat_id}/transcript"]
    assert stored["parent"] not in spans, "the filter's, which sends none itself"
    (ingest,) = collector.named("ingest")
    assert ingest["parent"] == stored["id"]
    assert ingest["attributes"]["precis.due"] is True
    round_ = collector.named("round")[0]
    assert round_["parent"] == ingest["id"]
    assert round_["attributes"]["precis.outcome"] == "done"
    for name in ("plan", "chat scripted", "publish"):
        assert collector.named(name)[0]["parent"] == round_["id"], name
    call = collector.named("chat scripted")[0]
    assert call["kind"] == 3, "a client's"
    assert call["attributes"]["gen_ai.request.model"] == "scripted"
    assert call["attributes"]["gen_ai.provider.name"] == "openai"
    assert call["attributes"]["gen_ai.usage.input_tokens"] > 0
    assert call["id"] == harness.llm.requests[0].headers["traceparent"][36:52]
    asked = collector.named("POST /v1/chats/{chat_id}/context")[0]["attributes"]
    assert (asked["http.response.status_code"], asked["precis.chat"]) == (200, "chat-1")
    # Bytes of strings stand in protobuf as they are.
    everything = b"".join(collector.bodies)
    assert SECRET.encode() not in everything
    assert b"user of" not in everything
    assert b"livez" not in everything


async def test_of_an_error_a_span_has_the_class_alone(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.llm.script(*[Fail(400, {"error": f"I do not like the {SECRET}"})] * 4)
    await harness.long_chat()
    with exported(monkeypatch) as collector:
        await harness.compress()

    call = collector.named("chat scripted")[0]
    assert call["failed"]
    assert call["attributes"]["error.type"] == "SummariserError"
    assert call["events"] == []
    assert SECRET.encode() not in b"".join(collector.bodies)


async def test_a_trace_of_open_webui_goes_on(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    with exported(monkeypatch) as collector, provider.get_tracer("open-webui").start_as_current_span("chat") as theirs:
        await turn_with_work(harness)

    where = theirs.get_span_context()
    assert {span["trace"] for span in collector.spans} == {f"{where.trace_id:032x}"}
    assert collector.named("PUT /v1/chats/{chat_id}/transcript")[0]["parent"] == f"{where.span_id:016x}"


async def test_what_the_caller_does_not_record_is_not_recorded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exported(monkeypatch) as collector:
        headers = {"traceparent": f"00-{TRACE}-{SPAN}-00"}
        answer = await harness.service.as_operator.get("/v1/chats", headers=headers)
    assert answer.headers["X-Request-Id"] == TRACE
    assert collector.spans == []


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
async def test_without_an_endpoint_no_span_is_made(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with tracing.exporting():
        assert not tracing.is_on()
        assert tracing.span("nothing") is tracing.span("nothing"), "one object for all"


async def test_an_agent_of_opentelemetry_gets_nothing_that_fastapi_would_tell_of_a_request(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    assert (await harness.service.as_operator.get("/v1/chats", params={"limit": SECRET})).status_code == 422
    assert kept.get_finished_spans() == ()


async def test_nothing_of_the_sdk_is_loaded_while_it_is_off() -> None:
    code = "import sys, service.cli.running, workers.worker; sys.exit('opentelemetry.sdk' in sys.modules)"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True, env=clean)


async def test_an_endpoint_without_the_extra_is_a_warning(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(tracing, "_EXPORTER", "no_such_package.otlp")
    urls = harness.runtime.urls
    with capture_logs() as logs, tracing.exporting():
        async with serving(load(database_url=urls.database, redis_url=urls.redis)):
            assert not tracing.is_on()
    (warned,) = [line["what"] for line in logs if line["event"] == "start.warning"]
    assert warned.startswith("OTEL_EXPORTER_OTLP_ENDPOINT is set, but the packages for it are missing")
    assert "openwebui-precis[otel]" in warned


async def test_another_protocol_than_http_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert ["port 4318" in one for one in tracing.warnings()] == [True]


async def test_the_newest_request_that_found_work_due_is_the_one_that_is_named(harness: Harness) -> None:
    leaf = await harness.long_chat()
    later = harness.talk.turns(1, leaf=leaf, prefix="later-")
    body = harness.talk.transcript(later)
    path = "/v1/chats/chat-1/transcript"
    answer = await harness.service.as_filter.put(path, json=body, headers={"traceparent": GIVEN})
    assert answer.status_code == 202
    assert (await row(harness.runtime, "select traceparent from chats")).traceparent == GIVEN
