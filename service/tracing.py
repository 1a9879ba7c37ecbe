"""The request id, from the filter's request to the summariser's call, and spans for OpenTelemetry.

The id is the trace id of W3C's `traceparent`, which the filter sends. A request and a round of work
carry the header in a context variable; all their log lines have the id as `request_id`.

Spans are made only while `exporting` sends them. They have ids, sizes and times, never a text of a
chat: attributes are named one by one, and of an error only its class is told.
"""

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol

from structlog.contextvars import bind_contextvars, reset_contextvars

from service import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OpenSpan
    from opentelemetry.trace import Tracer

Kind = Literal["internal", "server", "client", "consumer"]
Value = str | int | float | bool | list[str]

# https://www.w3.org/TR/trace-context/: version, trace id, span id, flags; a later version may have
# more behind them.
_TRACEPARENT = re.compile(
    "(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?"
)
_TRACE = slice(3, 35)  # of a `traceparent`
_SPAN = slice(36, 52)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"

_current: ContextVar[str] = ContextVar("precis.traceparent", default="")
_tracer: "Tracer | None" = None


class Span(Protocol):
    """What is noted of a piece of work."""

    def set(self, name: str, value: Value | None) -> None:
        """Notes an attribute; None is left out."""

    def rename(self, name: str) -> None:
        """Gives it another name."""

    def fail(self, kind: str) -> None:
        """Marks it as failed, with the kind of error."""


def accepted(header: str) -> str:
    """A `traceparent` as it was sent, or a new one when that is none."""
    found = _TRACEPARENT.fullmatch(header)
    if not found or (found[1] == "00" and found[5]):
        return fresh()
    return f"00-{found[2]}-{found[3]}-{found[4]}"


def fresh() -> str:
    """A new `traceparent`. It says "sampled", which leaves the choice to whoever records."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def current() -> str | None:
    """The `traceparent` to hand on; None outside of requests and rounds of work."""
    return _current.get() or None


def request_id() -> str | None:
    """The request id: what log lines, answers and runs name."""
    return _current.get()[_TRACE] or None


def id_of(traceparent: str) -> str:
    """The request id of a `traceparent`."""
    return traceparent[_TRACE]


@contextmanager
def within(traceparent: str) -> Iterator[None]:
    """Hands the `traceparent` on, and puts its request id on each log line, inside."""
    token = _current.set(traceparent)
    logged = bind_contextvars(request_id=traceparent[_TRACE])
    try:
        yield
    finally:
        reset_contextvars(**logged)
        _current.reset(token)


def is_on() -> bool:
    """Whether spans are sent."""
    return _tracer is not None


class _Nothing:
    """The span when none are sent."""

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def set(self, name: str, value: Value | None) -> None:
        pass

    def rename(self, name: str) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass


_NOTHING = _Nothing()


def span(
    name: str, attributes: Mapping[str, Value] | None = None, kind: Kind = "internal"
) -> AbstractContextManager[Span]:
    """A span below the current one, for the work inside."""
    if _tracer is None:
        return _NOTHING
    return _recorded(_tracer, name, attributes or {}, kind)


def note(name: str, value: Value) -> None:
    """Notes an attribute of the current span, wherever that was begun."""
    if _tracer is not None:
        from opentelemetry import trace

        trace.get_current_span().set_attribute(name, value)


class _Recorded:
    def __init__(self, of: "OpenSpan") -> None:
        self._of = of

    def set(self, name: str, value: Value | None) -> None:
        if value is not None:
            self._of.set_attribute(name, value)

    def rename(self, name: str) -> None:
        self._of.update_name(name)

    def fail(self, kind: str) -> None:
        from opentelemetry.trace import StatusCode

        self._of.set_attribute("error.type", kind)
        self._of.set_status(StatusCode.ERROR)


@contextmanager
def _recorded(
    tracer: "Tracer", name: str, attributes: Mapping[str, Value], kind: Kind
) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind

    # The SDK's own way to note an error stores its message, which may quote a chat.
    with tracer.start_as_current_span(
        name,
        context=_above(),
        kind=SpanKind[kind.upper()],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as made:
        where = made.get_span_context()
        below = f"00-{where.trace_id:032x}-{where.span_id:016x}-{where.trace_flags:02x}"
        token = _current.set(below)
        noted = _Recorded(made)
        try:
            yield noted
        except BaseException as error:
            noted.fail(type(error).__name__)
            raise
        finally:
            _current.reset(token)


def _above() -> "Context | None":
    """Where the next span belongs; None below a span of this process, which the SDK knows."""
    from opentelemetry import trace

    traceparent = _current.get()
    known = trace.get_current_span().get_span_context()
    if not traceparent or traceparent[_SPAN] == f"{known.span_id:016x}":
        return None
    above = trace.SpanContext(
        int(traceparent[_TRACE], 16),
        int(traceparent[_SPAN], 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(traceparent[-2:], 16)),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(above))


def warnings() -> list[str]:
    """What keeps spans from being sent that the environment asks for."""
    if not _is_wanted():
        return []
    found = []
    if not _is_installed():
        found.append(
            f"{_set_one(_ENDPOINTS)} is set, but the packages for it are missing: no traces are"
            " sent. Install openwebui-precis[otel], or unset the variable"
        )
    protocol = os.environ.get(_set_one(_PROTOCOLS), "")
    if protocol not in ("", "http/protobuf"):
        found.append(
            f"{_set_one(_PROTOCOLS)} is {protocol}, but Precis sends traces as http/protobuf: name"
            " the collector's HTTP endpoint, usually on port 4318"
        )
    return found


@contextmanager
def exporting() -> Iterator[None]:
    """Sends spans inside, if OpenTelemetry's own variables name an endpoint and it is installed.

    On the way out it sends what is left.
    """
    global _tracer
    if not (_is_wanted() and _is_installed()):
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # What the variables say about the resource; they may name the service.
    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "precis"}))
    resource = resource.merge(Resource({"service.version": __version__}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer("precis", __version__)
    try:
        yield
    finally:
        _tracer = None
        provider.shutdown()


def _is_wanted() -> bool:
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    none = os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    return bool(os.environ.get(_set_one(_ENDPOINTS))) and not (off or none)


def _is_installed() -> bool:
    try:
        return find_spec(f"{_EXPORTER}.trace_exporter") is not None
    except ModuleNotFoundError:
        return False


def _set_one(names: tuple[str, ...]) -> str:
    """The first of these variables that is set, or the last."""
    return next((name for name in names if os.environ.get(name)), names[-1])
