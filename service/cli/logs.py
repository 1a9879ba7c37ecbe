"""Log lines on stderr, for people or for machines, without texts of chats.

Texts are not logged on purpose anywhere. What is left are errors of libraries, which quote what
they failed on: of those, the log has the class and the places in the code.
"""

import logging
import sys
from contextlib import suppress
from types import TracebackType

import structlog
from structlog.typing import EventDict, WrappedLogger

from service.errors import PrecisError, format_trace
from service.settings import Settings
from service.text.characters import escape_hidden

_ErrorInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def set_up_logs(current: Settings) -> None:
    """Our own log lines by structlog, and those of libraries from warnings on."""
    level, lines = getattr(logging, current.log_level.upper()), _Lines(sys.stderr)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OfLibraries(logging.BASIC_FORMAT))
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])
    people = [_write_out, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    machines = [structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(lambda error: format_trace(error[1])),
            *(machines if current.log_format == "json" else people),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: lines,
    )


class _Lines(structlog.PrintLogger):
    """Lines on a stream. One that cannot be written costs the line, and not what it is about."""

    def msg(self, message: str) -> None:
        """Writes a line, unless the disk below the stream is full or the stream is closed."""
        with suppress(OSError, ValueError):
            super().msg(message)

    debug = info = warn = warning = error = critical = exception = fatal = log = msg


class _OfLibraries(logging.Formatter):
    """Errors as their classes: arguments of a message (arq's), and the reason of a record."""

    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record.args, tuple):
            record.args = tuple(_rename_logger(one) for one in record.args)
        return escape_hidden(super().format(record))

    def formatException(  # noqa: N802 - logging's name
        self, ei: _ErrorInfo | tuple[None, None, None]
    ) -> str:
        return format_trace(ei[1]) if ei[1] else ""


def _rename_logger(argument: object) -> object:
    """An error that is not ours by its class."""
    ours = isinstance(argument, PrecisError) or not isinstance(argument, BaseException)
    return argument if ours else type(argument).__name__


def _write_out(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {
        name: escape_hidden(value) if isinstance(value, str) else value
        for name, value in event.items()
    }
