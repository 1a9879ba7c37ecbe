"""`precis serve`, `worker` and `demo`: the commands that run processes until they are stopped.

What they run is in `running`, which loads the whole service.
"""

from pathlib import Path

import click

from service.cli import shell


@click.command()
@click.option("--host", help="Overrides PRECIS_HOST.")
@click.option("--port", type=int, help="Overrides PRECIS_PORT; 0 takes a free one.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Overrides PRECIS_DATA_DIR.")
@click.option(
    "--worker/--no-worker", default=True, help="Also run a worker in this process, or none."
)
def serve(host: str | None, port: int | None, data_dir: Path | None, worker: bool) -> None:
    """Run the service and a worker.

    It starts a PostgreSQL and a Valkey of its own in PRECIS_DATA_DIR, unless PRECIS_DATABASE_URL
    and PRECIS_REDIS_URL are set.
    """
    from service.cli import running

    options = {"host": host, "port": port, "data_dir": data_dir}
    current = shell.settings(
        **{name: value for name, value in options.items() if value is not None}
    )
    running.run(running.serve(current, *([running.embedded_worker] if worker else [])), current)


@click.command()
def worker() -> None:
    """Run one more worker, on PRECIS_DATABASE_URL and PRECIS_REDIS_URL.

    Start as many as you need.
    """
    from service.cli import running

    current = shell.settings()
    running.run(running.work(current), current)


@click.command()
def demo() -> None:
    """Play a long recorded conversation, and show what happens."""
    from service.cli import running

    running.run(running.demo(), shell.settings(log_level="warning"))
