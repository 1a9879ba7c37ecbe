"""The commands: processes, set-up and checks here, the groups `keys`, `chats` and `jobs` beside."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.table import Column, Table

from service import __version__
from service.api.app import Beside, create_app
from service.api.connection import Limits
from service.api.server import bind, listening, raise_open_files
from service.cli import chats, install, jobs, keys, shell
from service.cli.demo import demonstrate
from service.cli.logs import set_up_logs
from service.errors import ConfigurationError, PrecisError
from service.runtime import Runtime, announced, running, servers
from service.settings import PREFIX, Settings, as_env, as_markdown, redacted
from service.storage.database import migrate as migrate_database
from service.usecases.retain import Removed, remove_old
from workers.worker import running as worker_running

_FIRST_KEYS = "first-keys"

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Keeps long Open WebUI conversations inside the model's window. Settings come from the environment:"
    " see `precis config`.",
)
app.add_typer(keys.app, name="keys")
app.add_typer(chats.app, name="chats")
app.add_typer(jobs.app, name="jobs")
app.command()(jobs.status)
app.command()(install.install_filter)
app.command()(install.uninstall_filter)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Overrides PRECIS_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Overrides PRECIS_PORT; 0 takes a free one.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Overrides PRECIS_DATA_DIR.")] = None,
    worker: Annotated[bool, typer.Option(help="Also run a worker in this process.")] = True,
) -> None:
    """Runs the service and a worker, with embedded servers unless both URLs are set."""
    given = {"host": host, "port": port, "data_dir": data_dir}
    current = shell.settings(**{name: value for name, value in given.items() if value is not None})
    set_up_logs(current)
    shell.run(_serve(current, *([embedded_worker] if worker else [])))


@app.command("worker")
def work() -> None:
    """Runs a worker of a fleet, on the PostgreSQL and the Redis of the settings. Run as many as you like."""
    current = shell.settings()
    set_up_logs(current)
    shell.run(_work(current))


@app.command()
def demo(
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Also write the figures to this file.")
    ] = None,
    fleet: Annotated[
        bool,
        typer.Option(
            "--fleet", help="With PostgreSQL and Redis by URL and two workers, each a process."
        ),
    ] = False,
) -> None:
    """Plays a long recorded conversation against a service of its own, and shows what happens."""
    shell.run(demonstrate(embedded_worker, shell.console, json_path, fleet=fleet))


@app.command()
def migrate() -> None:
    """Brings the database to the schema of this version."""

    async def work() -> None:
        current = shell.settings()
        if current.database_url:  # Redis has nothing to migrate, and need not be there
            await migrate_database(current.database_url.get_secret_value())
        else:
            await _migrate_embedded(current)

    shell.run(work())
    shell.console.print(f"The database is at the schema of precis {__version__}.")


@app.command()
def retention(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> None:
    """Removes what is older than the settings allow, as workers do once an hour; also when PRECIS_RETENTION is off."""

    async def work() -> Removed:
        current = shell.settings()
        async with shell.database(current) as database:
            return await remove_old(database.engine, current, dry=dry_run)

    table = Table("kind", Column("found" if dry_run else "removed", justify="right"))
    for kind, count in asdict(shell.run(work())).items():
        table.add_row(kind, f"{count:,}")
    shell.console.print(table)


@app.command()
def config(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page of all settings instead.")
    ] = False,
    env: Annotated[
        bool, typer.Option("--env", help="Print an example of a .env file instead.")
    ] = False,
) -> None:
    """Prints the settings in force, secrets hidden."""
    if markdown or env:
        typer.echo(as_markdown() if markdown else as_env(), nl=False)
        return
    for name, value in redacted(shell.settings()).items():
        typer.echo(f"{PREFIX}{name.upper()}={value}")


@app.command()
def healthcheck() -> None:
    """Ends with status 0 when the service of these settings is ready, for Docker and the like."""
    current = shell.settings()
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(current.host, current.host)
    url = httpx.URL(scheme="http", host=host, port=current.port, path="/readyz")
    try:
        answer = httpx.get(url, timeout=5, trust_env=False)
    except httpx.HTTPError as error:
        shell.fail(PrecisError(f"no answer from {url}: {error!r}"))
    if answer.status_code != httpx.codes.OK:
        shell.fail(PrecisError(f"{url} answers {answer.status_code}: {answer.text[:1000]}"))


@app.command()
def version() -> None:
    """Prints the version."""
    typer.echo(__version__)


async def _migrate_embedded(current: Settings) -> None:
    """Embedded servers are migrated when they start; those of a running service were."""
    if announced(current) is None:
        async with servers(current):
            pass


async def _serve(current: Settings, *beside: Beside) -> None:
    stopped = _stop_signal()
    listener = bind(current.host, current.port)
    raise_open_files(current.max_connections)
    async with listening(create_app(current, *beside), listener, Limits.of(current)) as runtime:
        _greet(runtime, listener)
        died = runtime.urls.died or asyncio.get_running_loop().create_future()
        await asyncio.wait({stopped, died}, return_when=asyncio.FIRST_COMPLETED)
        if died.done():
            raise died.result()


async def _work(current: Settings) -> None:
    stopped = _stop_signal()
    if not (current.database_url and current.redis_url):
        raise ConfigurationError(
            f"a worker needs {PREFIX}DATABASE_URL and {PREFIX}REDIS_URL; without them, `precis serve` runs its own"
        )
    async with (
        servers(current) as urls,
        running(current, urls) as runtime,
        embedded_worker(runtime),
    ):
        shell.console.print(
            f"Precis {__version__} worker, summaries by {runtime.worker_context.by}"
        )
        await asyncio.wait({stopped})


def _stop_signal() -> asyncio.Future[None]:
    """Done when the process is asked to end."""
    loop = asyncio.get_running_loop()
    stopped = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.cancel)
    return stopped


def _greet(runtime: Runtime, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    say = shell.console.print
    say(
        f"Precis {__version__} on [bold]http://{host}:{port}[/], summaries by {runtime.worker_context.by}"
    )
    if not runtime.first_keys:
        return
    if sys.stdout.isatty():
        say("First start. These keys are shown once and stored as hashes:")
        for scope, key in runtime.first_keys.items():
            say(f"  {scope:8} [bold]{key}[/]", highlight=False)
        return
    # What is no terminal may be a journal that many read and somebody ships elsewhere.
    path = runtime.settings.data_dir.absolute() / _FIRST_KEYS
    _write_private(path, "".join(f"{scope:8} {key}\n" for scope, key in runtime.first_keys.items()))
    say(
        f"First start. The keys are in {path}, for this user alone. Take them, and delete the file.",
        soft_wrap=True,
    )


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # of a database that is gone
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


@asynccontextmanager
async def embedded_worker(runtime: Runtime) -> AsyncIterator[None]:
    """The arq worker beside the service; the service itself knows nothing of workers."""
    async with worker_running(runtime.worker_context, runtime.queue, runtime.urls.redis):
        yield
