"""`precis config` and `precis healthcheck`."""

import click

from service.cli import client, shell
from service.cli.output import print_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(as_json: bool) -> None:
    """Print the settings in force, secrets hidden."""
    from service.settings import PREFIX, redacted

    values = {f"{PREFIX}{name.upper()}": one for name, one in redacted(shell.settings()).items()}
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        click.echo(f"{name}={value}")


@click.command()
@click.option("--worker", is_flag=True, help="Ask whether the worker at PRECIS_WORKER_PORT lives.")
def healthcheck(worker: bool) -> None:
    """Exit with 0 when the service at PRECIS_HOST and PRECIS_PORT is ready, else with 1."""
    client.check_well(worker=worker)
