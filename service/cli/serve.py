"""`precis serve`, `worker` and `demo`: the commands that run processes until they are stopped.

What they run is in `running`, which loads the whole service.
"""

from pathlib import Path
from typing import Annotated

import typer

from service.cli import shell


def serve(
    host: Annotated[str | None, typer.Option(help="Overrides PRECIS_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Overrides PRECIS_PORT; 0 takes a free one.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Overrides PRECIS_DATA_DIR.")] = None,
    worker: Annotated[bool, typer.Option(help="Also run a worker in this process.")] = True,
) -> None:
    """Runs the service and a worker.

    It starts a PostgreSQL and a Valkey of its own in PRECIS_DATA_DIR, unless PRECIS_DATABASE_URL
    and PRECIS_REDIS_URL are set.
    """
    from service.cli import running

    given = {"host": host, "port": port, "data_dir": data_dir}
    current = shell.settings(**{name: value for name, value in given.items() if value is not None})
    running.run(running.serve(current, *([running.embedded_worker] if worker else [])), current)


def work() -> None:
    """Runs one more worker, on PRECIS_DATABASE_URL and PRECIS_REDIS_URL.

    Start as many as you need.
    """
    from service.cli import running

    current = shell.settings()
    running.run(running.work(current), current)


def demo(
    json_path: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the figures and the whole summary to this file."),
    ] = None,
    fleet: Annotated[
        bool,
        typer.Option(
            "--fleet",
            help="Run the service and two workers as a fleet: PostgreSQL and Redis by URL.",
        ),
    ] = False,
    serves: Annotated[
        bool,
        typer.Option("--serve", help="Leave the service running, with its pages, until Ctrl+C."),
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(help="A new data folder that stays; by default it is deleted at the end."),
    ] = None,
) -> None:
    """Plays a long recorded conversation against a service of its own, and shows what happens."""
    from service.cli import running

    if keep and keep.exists():
        raise typer.BadParameter(f"{keep} exists already; name a new folder", param_hint="--keep")
    running.run(running.demo(json_path, fleet=fleet, serves=serves, keep=keep))
