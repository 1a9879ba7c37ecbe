"""The command `precis`: what it can do, and where. A command's module loads when it is named.

And what only its work needs, when it works: functions import that themselves. The help of a command
would otherwise wait over a second for the database, the API and the tokenizer that it never uses.
tests/cli/test_imports.py holds that.
"""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from service import __version__

# Command -> module in service.cli, its function or typer app, and the line in `precis --help`.
_COMMANDS = {
    "serve": ("serve", "serve", "Run the service and a worker."),
    "worker": ("serve", "work", "Run one more worker, on shared PostgreSQL and Redis."),
    "demo": ("serve", "demo", "Play a long recorded conversation and show what happens."),
    "migrate": ("maintenance", "migrate", "Bring the database to the schema of this version."),
    "backup": ("backup", "backup", "Write the whole database to a file."),
    "restore": ("backup", "restore", "Replace the whole database by a backup."),
    "retention": ("maintenance", "retention", "Delete what is older than the settings allow."),
    "reconcile": (
        "maintenance",
        "reconcile",
        "Delete the chats that Open WebUI has no more.",
    ),
    "config": ("checks", "config", "Print the settings in force, secrets hidden."),
    "healthcheck": ("checks", "healthcheck", "Exit with 0 when the service is ready, else with 1."),
    "status": ("status", "status", "Show the queue, running work, breakers, and who lives."),
    "install-filter": ("install", "install_filter", "Install or update the filter in Open WebUI."),
    "uninstall-filter": ("install", "uninstall_filter", "Remove the filter from Open WebUI."),
    "keys": ("keys", "app", "Create, list and revoke API keys; make and rotate encryption keys."),
    "tenants": ("tenants", "app", "Erase a tenant."),
    "chats": ("chats", "app", "Show, correct, recompute and delete chats and summaries."),
    "summariser": ("summariser", "app", "Ask the summariser once, or reset its breaker."),
    "audit": ("audit", "audit", "List what operators changed, and who."),
    "users": ("people", "app", "Find, export and erase what is stored of one user."),
    "stats": ("stats", "stats", "Show tokens not sent, and what summaries cost, by day or user."),
    "jobs": ("jobs", "app", "List and retry pending or dead work."),
}


class _Lazy(TyperCommand):
    """Stands for a command in the help, and becomes the real one when it gets arguments."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        *rest: Any,  # noqa: ANN401 - typer's own
        **more: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """The context of the real command; typer runs the command of the context."""
        return _load(str(self.name)).make_context(info_name, args, *rest, **more)


def _load(name: str) -> Any:  # noqa: ANN401 - typer keeps its copy of click private
    module, attribute, _ = _COMMANDS[name]
    found = getattr(import_module(f"service.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return get_command(found)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(found)
    return get_command(alone)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Keeps long Open WebUI conversations inside the model's window. Settings come from the"
    " environment: see `precis config`.",
)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command; `--version` has acted by its callback."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _register() -> None:
    for name, (_, _, summary) in _COMMANDS.items():
        app.command(name, cls=_Lazy, help=summary)(_never_called)


def _never_called() -> None:
    raise NotImplementedError("the real command runs instead")


_register()
