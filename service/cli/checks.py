"""`precis config` and `precis healthcheck`."""

import click

from service.cli import client, shell


@click.command()
def config() -> None:
    """Print the settings in force, secrets hidden."""
    from service.settings import redacted, variable

    for name, value in redacted(shell.settings()).items():
        click.echo(f"{variable(name)}={value}")


@click.command()
@click.option("--worker", is_flag=True, help="Ask whether the worker at PRECIS_WORKER_PORT lives.")
def healthcheck(worker: bool) -> None:
    """Exit with 0 when the service at PRECIS_HOST and PRECIS_PORT is ready, else with 1."""
    client.check_well(worker=worker)
