"""What all commands share: settings, connections, errors as one line.

Imports inside functions keep commands fast that need no database: this module is part of all.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer
from rich.markup import escape

from service.cli import output
from service.errors import PrecisError

if TYPE_CHECKING:
    from service.settings import Settings
    from service.storage.database import Database
    from service.storage.jobs import Reads

Json = Annotated[bool, typer.Option("--json", help="Print JSON, as the REST API answers it.")]
LAST_ID: Final = 2**62  # beyond any id; what no column can hold is no id
_LONGEST_NAME: Final = 200  # characters

console = output.console()
errors = output.console(stderr=True)
Result = TypeVar("Result")


def settings(**explicit: Any) -> "Settings":  # noqa: ANN401 - any setting
    """The settings in force; wrong ones end the command with one line, unknown ones are named."""
    from service import settings as settings_module

    for name in settings_module.unknown():
        errors.print(
            f"[yellow]precis:[/] {name} is not a setting of this version; see `precis config`",
            highlight=False,
        )
    try:
        return settings_module.load(**explicit)
    except PrecisError as error:
        fail(error)


def text(given: str | None) -> str | None:
    """Checks an argument: bytes that are no text cannot be looked for."""
    if given is not None and given != given.encode(errors="replace").decode():
        raise typer.BadParameter("This is not valid UTF-8.")
    return given


def name(given: str) -> str:
    """Checks the name of something new: everybody who lists it would see control characters."""
    from service.processes.intake import CONTROL

    text(given)
    if len(given) > _LONGEST_NAME or re.search(f"[{CONTROL}]", given):
        raise typer.BadParameter(
            f"A name has at most {_LONGEST_NAME} characters and no control characters."
        )
    return given


def run(
    work: Coroutine[Any, Any, Result],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Result:
    """Runs a command; errors that people can fix end it with one line, not with a traceback."""
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(work)
    except PrecisError as error:
        fail(error)


def fail(error: PrecisError) -> NoReturn:
    """Prints what is wrong and ends with status 1."""
    errors.print(f"[bold red]precis:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@asynccontextmanager
async def reads(current: "Settings") -> AsyncIterator["Reads"]:
    """What reads of the database go through, of a command that monitors run often.

    Opened in the light way where a service is up and the schema is right. In every other case
    `database` starts the servers, or says what is wrong.
    """
    from service.storage import reading
    from service.urls import existing

    urls = existing(current)
    connection = await reading.connect(urls.database, name="precis-cli") if urls else None
    if connection is None:
        async with database(current) as opened:
            yield opened.reads
        return
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def database(current: "Settings") -> AsyncIterator["Database"]:
    """The database, also of a service that runs on the same data folder; creates nothing."""
    from service.runtime import reachable
    from service.storage.database import check_schema, connect

    keys = current.sealing_keys
    async with (
        reachable(current) as urls,
        connect(urls.database, name="precis-cli", keys=keys) as opened,
    ):
        await check_schema(opened.engine)
        await opened.seals.check()
        yield opened
