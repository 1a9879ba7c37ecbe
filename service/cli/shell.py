"""What all commands share: settings, connections, errors as one line, logs."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

import structlog
import typer
from rich.console import Console
from rich.markup import escape
from uvicorn.loops.auto import auto_loop_factory

from service import settings as settings_module
from service.errors import PrecisError
from service.runtime import reachable
from service.settings import Settings
from service.storage.database import Database, check_schema, connect

console = Console()
errors = Console(stderr=True)
Result = TypeVar("Result")


def settings(**explicit: Any) -> Settings:  # noqa: ANN401 - any setting
    """The settings in force; wrong ones end the command with one line, unknown ones are named."""
    for name in settings_module.unknown():
        errors.print(f"[yellow]precis:[/] {name} is no setting of this version; see `precis config`", highlight=False)
    try:
        return settings_module.load(**explicit)
    except PrecisError as error:
        fail(error)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs a command; errors that people can mend end it with one line, not with a traceback."""
    try:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:  # uvloop where there is one, as uvicorn does
            return runner.run(work)
    except PrecisError as error:
        fail(error)


def fail(error: PrecisError) -> NoReturn:
    """Prints what is wrong and ends with status 1."""
    errors.print(f"[bold red]precis:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@asynccontextmanager
async def database(current: Settings) -> AsyncIterator[Database]:
    """The migrated database, also that of a service which runs on the same data folder."""
    async with reachable(current) as urls, connect(urls.database, name="precis-cli") as opened:
        await check_schema(opened.engine)
        yield opened


def set_up_logs(current: Settings) -> None:
    """Log lines on stderr, for people or for machines. Message texts are never logged."""
    level = getattr(logging, current.log_level.upper())
    logging.basicConfig(level=max(level, logging.WARNING), stream=sys.stderr)
    last = (
        structlog.processors.JSONRenderer()
        if current.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
