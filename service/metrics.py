"""Every metric of Precis, in the text format of Prometheus.

A process counts in a registry of its own, which the API and each worker show. The API reads the
metrics of the whole fleet from the database and Redis when somebody asks (`service.api.scrape`).

Labels have few values that are known beforehand: the template of a route, a status, an outcome, a
state, a version. Never an id, a name, a model, or a word of a chat. `docs/howto/monitor.md` lists
all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from service import __version__

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
UNMATCHED: Final = "unmatched"
"""The route of a request to an unknown address, whose path may say anything."""
OTHER: Final = "other"

_PROCESS: Final = CollectorRegistry()
# Seconds. The read on the request path takes a millisecond; a browser waits no longer than ten.
_REQUEST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_READ: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
# Seconds. From a summary by code to a small model on a slow machine.
_WORK: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

# Without this, each metric has a second series with the time of its first value.
disable_created_metrics()  # type: ignore[no-untyped-call]
ProcessCollector(registry=_PROCESS)
_BUILD: Final = Info("precis_build", "The running version.", registry=_PROCESS)
_BUILD.info({"version": __version__})


def _make_counter(
    name: str, meaning: str, label: str = "", values: tuple[str, ...] = ()
) -> Counter:
    """A counter with at most one label; known values begin at 0, so that a rate sees the first."""
    counter = Counter(name, meaning, [label] if label else [], registry=_PROCESS)
    for value in values:
        counter.labels(value)
    return counter


def _make_histogram(
    name: str, meaning: str, bounds: tuple[float, ...], label: str, values: tuple[str, ...]
) -> Histogram:
    """A histogram of seconds with one label, whose known values begin at 0."""
    histogram = Histogram(name, meaning, [label], buckets=bounds, registry=_PROCESS)
    for value in values:
        histogram.labels(value)
    return histogram


# Requests.
_REQUESTS: Final = Histogram(
    "precis_http_request_duration_seconds",
    "Time of HTTP requests, with the reading of their bodies.",
    ["method", "route", "status"],
    buckets=_REQUEST,
    registry=_PROCESS,
)
_CONTEXTS: Final = _make_histogram(
    "precis_context_duration_seconds",
    "Time to decide what a request carries, by the answer.",
    _READ,
    "answer",
    ("ready", "not_needed", "pending"),
)
_TOKENS_SAVED: Final = _make_counter(
    "precis_context_tokens_saved_total", "Tokens that summaries kept out of requests."
)
OUTCOMES: Final = _make_counter(
    "precis_filter_outcomes_total",
    "Outcomes of the requests of finished turns.",
    "outcome",
    ("compressed", "truncated_with_summary", "truncated", "unchanged"),
)
DELETED: Final = _make_counter(
    "precis_deleted_total",
    "Deleted objects by kind; a chat counts as one, with everything stored for it.",
    "kind",
    ("chats", "messages", "checkpoints", "bodies", "runs", "audit"),
)

# Work.
RUNS: Final = _make_histogram(
    "precis_run_duration_seconds",
    "Time of rounds of work on a chat, by their outcome.",
    _WORK,
    "outcome",
    (
        "done",
        "nothing to do",
        "waits",
        "failed",
        "internal error",
        "refused",
        "released",
    ),
)
PUBLISHED: Final = _make_counter(
    "precis_checkpoints_published_total",
    "Published summaries by their kind; `degraded` ones were written by code for a summariser.",
    "kind",
    ("llm", "extractive", "degraded", "interim"),
)
GATE_REJECTIONS: Final = _make_counter(
    "precis_gate_rejections_total",
    "Replies of the summariser that the publish gate rejected, by reason; one may have several.",
    "reason",
)
SUMMARISER_CALLS: Final = _make_histogram(
    "precis_summariser_call_duration_seconds",
    "Time of calls of the summariser, by their outcome.",
    _WORK,
    "outcome",
    ("answered", "failed", "away"),
)
SUMMARISER_TOKENS: Final = _make_counter(
    "precis_summariser_tokens_total",
    "Tokens that the summariser read and wrote, as its server counts them if it does.",
    "direction",
    ("read", "written"),
)
TEXT_PROCESSES_ENDED: Final = _make_counter(
    "precis_text_processes_ended_total",
    "Text processes that were ended or died, and were replaced.",
)


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Counts a request. `route` is a template or `UNMATCHED`."""
    _REQUESTS.labels(method, route, str(status)).observe(seconds)


def count_answer(answer: str, seconds: float, saved: int) -> None:
    """Counts an answer to `POST /v1/compress`, and the tokens that it `saved` of the request."""
    _CONTEXTS.labels(answer).observe(seconds)
    _TOKENS_SAVED.inc(saved)


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Chats by the state of their work, and the breakers of the fleet's summarisers.

    Attributes:
        chats: state → how many; those `waiting_for_model`, one of the chat's host, are in another
            state too.
        oldest_due_seconds: how long the oldest due one has waited.
        breakers: state → how many.
        schema_at_head: whether the database is at the newest migration of this version.
    """

    chats: dict[str, int]
    oldest_due_seconds: float
    breakers: dict[str, int]
    schema_at_head: bool


def render_process() -> bytes:
    """The counts of this process, as text."""
    return generate_latest(_PROCESS)


def render_fleet(queue: QueueFigures | None, worker_alive: bool | None) -> bytes:
    """The metrics of the whole fleet, as text.

    `queue` is None when PostgreSQL does not answer, and `worker_alive` when Redis does not: then
    their metrics are left out, because an old value or a zero would be a lie.
    """
    registry = CollectorRegistry()
    _make_gauge(registry, "precis_database_up", "Whether PostgreSQL answers.", queue is not None)
    if queue is not None:
        _show_queue(registry, queue)
    _make_gauge(registry, "precis_redis_up", "Whether Redis answers.", worker_alive is not None)
    if worker_alive is not None:
        meaning = "Whether any worker has taken or looked for work in 11 seconds."
        _make_gauge(registry, "precis_worker_alive", meaning, worker_alive)
    return generate_latest(registry)


def _show_queue(registry: CollectorRegistry, queue: QueueFigures) -> None:
    meaning = "Chats by the state of their work."
    _make_state_gauge(registry, "precis_queue_chats", meaning, queue.chats)
    meaning = "How long the oldest due chat has waited for a worker."
    _make_gauge(registry, "precis_queue_oldest_due_seconds", meaning, queue.oldest_due_seconds)
    meaning = (
        "Circuit breakers of summarisers by state; one that failed last an hour ago is left out."
    )
    _make_state_gauge(registry, "precis_breakers", meaning, queue.breakers)
    meaning = "Whether the database is at this version's newest migration."
    _make_gauge(registry, "precis_schema_at_head", meaning, queue.schema_at_head)


def _make_gauge(registry: CollectorRegistry, name: str, meaning: str, value: float) -> None:
    Gauge(name, meaning, registry=registry).set(value)


def _make_state_gauge(
    registry: CollectorRegistry, name: str, meaning: str, numbers: Mapping[str, int]
) -> None:
    gauge = Gauge(name, meaning, ["state"], registry=registry)
    for state, number in numbers.items():
        gauge.labels(state).set(number)
