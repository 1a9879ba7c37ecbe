"""Runs `precis serve`, `worker` and `demo` until they are stopped."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from uvicorn.loops.auto import auto_loop_factory

from service import __version__
from service.api.scrape import create_worker_app
from service.api.server import open_listener, run_server, serve_requests
from service.app import BackgroundService, create_app
from service.cli import shell
from service.cli.logs import set_up_logs
from service.cli.output import say
from service.embedded.secret import write_private
from service.embedded.urls import KEY_FILE, announce, make_address
from service.errors import ConfigurationError
from service.names import FIRST_TENANT
from service.runtime import Runtime, open_runtime, open_servers
from service.settings import PREFIX, Settings
from service.storage import keys
from service.usecases.keys import create_key
from workers.worker import run_worker as worker_running


def run(work: Coroutine[None, None, object], current: Settings) -> None:
    """Runs a command on uvloop where there is one, as uvicorn does, with logs as set there."""
    set_up_logs(current)
    shell.run(work, auto_loop_factory())


async def serve(current: Settings, *background: BackgroundService) -> None:
    """The service, and what runs in its process."""
    stopped = _stop_signal()
    listener = open_listener(current.host, current.port)
    serving = run_server(create_app(current, *background), listener)
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(serving)
        # Loaded modules stay: a garbage collection of them would stop all requests for 0.1 s.
        gc.freeze()
        host, port = listener.getsockname()[:2]
        key_file = None
        if not current.database_url:
            key_file = await _leave_key(runtime)
            address = make_address(host, port)
            stack.enter_context(announce(current.data_dir, runtime.urls, address))
        say(
            f"Precis {__version__} on http://{host}:{port},"
            f" summaries by {runtime.worker_context.by}"
        )
        if key_file:
            say(
                f"{key_file} has an operator key: with it you sign in to the pages. Commands use it"
                f" where PRECIS_DATA_DIR is {key_file.parent}. `precis install-filter` installs the"
                " filter, with its own key."
            )
        died = runtime.urls.died or asyncio.get_running_loop().create_future()
        await asyncio.wait({stopped, died}, return_when=asyncio.FIRST_COMPLETED)
        if died.done():
            raise died.result()


async def run_worker(current: Settings) -> None:
    """One more worker, on servers that others share."""
    stopped = _stop_signal()
    if not (current.database_url and current.redis_url):
        raise ConfigurationError(
            f"a worker needs {PREFIX}DATABASE_URL and {PREFIX}REDIS_URL; without them,"
            " `precis serve` runs its own"
        )
    async with (
        open_servers(current) as urls,
        open_runtime(current, urls) as runtime,
        run_embedded_worker(runtime),
        _take_port(current),
    ):
        say(f"Precis {__version__} worker, summaries by {runtime.worker_context.by}")
        await asyncio.wait({stopped})


@asynccontextmanager
async def _take_port(current: Settings) -> AsyncIterator[None]:
    """The worker's own port, if it is to have one."""
    if not current.worker_port:
        yield
        return
    listener = open_listener(current.host, current.worker_port, f"{PREFIX}WORKER_PORT")
    async with serve_requests(create_worker_app(current), listener):
        say(f"/livez and /metrics on http://{current.host}:{current.worker_port}")
        yield


def _stop_signal() -> asyncio.Future[None]:
    """Done when the process is asked to end."""
    loop = asyncio.get_running_loop()
    stopped = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.cancel)
    return stopped


async def _leave_key(runtime: Runtime) -> Path | None:
    """Puts a valid operator key into the data folder, for those who may read its file.

    A valid key stays, so that not every start makes one; a revoked or deleted one is replaced.
    Returns the file if the key is new.
    """
    path = runtime.settings.data_dir.absolute() / KEY_FILE
    engine = runtime.database.engine
    if path.is_file():
        async with engine.connect() as connection:
            if await keys.find_valid_key(connection, path.read_text().strip()):
                return None
    name = f"the file {KEY_FILE}"
    key = await create_key(engine, FIRST_TENANT, "precis serve", "operator", name)
    write_private(path, f"{key.key}\n")
    return path


def run_embedded_worker(runtime: Runtime) -> AbstractAsyncContextManager[object]:
    """The arq worker in the service's process; the service itself knows nothing of workers."""
    return worker_running(runtime.worker_context, runtime.queue, runtime.urls.redis)
