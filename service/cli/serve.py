"""`precis serve`, `worker` and `demo`, which run until they are stopped; `config`, `healthcheck`.

`running`, which loads the whole service, is what the first three run.
"""

from pathlib import Path

import click

from service.cli import client, shell


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
    running.run(running.serve(current, *([running.run_embedded_worker] if worker else [])), current)


@click.command()
def worker() -> None:
    """Run one more worker, on PRECIS_DATABASE_URL and PRECIS_REDIS_URL.

    Start as many as you need.
    """
    from service.cli import running

    current = shell.settings()
    running.run(running.run_worker(current), current)


@click.command()
def demo() -> None:
    """Play a long recorded conversation, and show what happens."""
    from service.cli import running
    from service.cli.demo import play_demo

    current = shell.settings(log_level="warning")
    playing = play_demo(running.run_embedded_worker)
    running.run(playing, current)


@click.command()
def config() -> None:
    """Print the settings in force, secrets hidden."""
    from service.settings import name_variable, redact_settings

    for name, value in redact_settings(shell.settings()).items():
        click.echo(f"{name_variable(name)}={value}")


@click.command()
@click.option("--worker", is_flag=True, help="Ask whether the worker at PRECIS_WORKER_PORT lives.")
def healthcheck(worker: bool) -> None:
    """Exit with 0 when the service at PRECIS_HOST and PRECIS_PORT is ready, else with 1."""
    client.check_well(worker=worker)
