"""The command `precis`.

What a command needs, it imports when it works: the help of one would otherwise wait for the
database, the API and the tokenizer. tests/cli/test_imports.py holds that.
"""

import click

from service import __version__
from service.cli import (
    backup,
    chats,
    install,
    jobs,
    keys,
    maintenance,
    people,
    serve,
)
from service.cli.output import say
from service.errors import PrecisError


class _Failure(click.ClickException):
    """One line on stderr, and status 1."""

    def show(self, file: object = None) -> None:  # noqa: ARG002 - click's
        """Prints the line."""
        say(f"precis: {' '.join(self.message.split())}", err=True)


class _Precis(click.Group):
    def invoke(self, context: click.Context) -> object:
        """Runs a command; errors that people can fix end it with one line, not with a traceback."""
        try:
            return super().invoke(context)
        except PrecisError as error:
            raise _Failure(str(error)) from error


@click.group(cls=_Precis, no_args_is_help=True)
@click.version_option(__version__, message="%(version)s", help="Print the version and exit.")
def app() -> None:
    """Keeps long Open WebUI conversations inside the model's window.

    Commands about chats, jobs, keys and users ask the service: the one that runs on
    PRECIS_DATA_DIR, or that of PRECIS_URL and PRECIS_KEY. See docs/howto/operate.md; `precis
    config` shows the settings that a service would have here.
    """


for command in (
    serve.serve,
    serve.worker,
    serve.demo,
    serve.config,
    serve.healthcheck,
    install.install_filter,
    install.uninstall_filter,
    maintenance.migrate,
    backup.backup,
    backup.restore,
    maintenance.retention,
    maintenance.reconcile,
    maintenance.tenants,
    jobs.status,
    chats.chats,
    jobs.jobs,
    jobs.audit,
    keys.keys,
    people.users,
):
    app.add_command(command)
