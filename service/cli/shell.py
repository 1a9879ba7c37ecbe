"""Shared by commands that work on this machine: settings, loops, the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from service.cli.output import say

if TYPE_CHECKING:
    import asyncio

    from service.embedded.urls import Urls
    from service.settings import Settings
    from service.storage.database import Database

Result = TypeVar("Result")


def settings(**explicit: Any) -> Settings:  # noqa: ANN401 - any setting
    """The settings in force; unknown ones are named.

    Raises:
        ConfigurationError: one is wrong.
    """
    from service import settings as settings_module

    for name in settings_module.list_unknown():
        say(f"precis: {name} is not a setting of this version; see `precis config`", err=True)
    return settings_module.load(**explicit)


def run(
    work: Coroutine[Any, Any, Result],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Result:
    """Runs a command's work to its end."""
    import asyncio

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(work)


@asynccontextmanager
async def migrate_and_connect(current: Settings) -> AsyncIterator[Urls]:
    """The servers, also of a service that runs on the same data folder; embedded ones migrated."""
    from service.embedded.urls import read_announcement, read_settings_urls
    from service.runtime import open_servers

    if running := read_settings_urls(current) or read_announcement(current.data_dir):
        yield running
        return
    async with open_servers(current) as urls:
        yield urls


@asynccontextmanager
async def database(current: Settings) -> AsyncIterator[Database]:
    """The database, also of a service that runs on the same data folder; creates nothing."""
    from service.runtime import check_reachable
    from service.storage.database import LONG, check_schema, connect

    keys = current.sealing_keys
    async with (
        check_reachable(current) as urls,
        connect(urls.database, name="precis-cli", keys=keys, statement_seconds=LONG) as connected,
    ):
        await check_schema(connected.reads)
        await connected.keyring.check_keys()
        yield connected
