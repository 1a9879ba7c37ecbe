"""`precis users`: what is stored of one user."""

import click

from service.cli.client import ask
from service.cli.output import as_json, print_json, print_object, say

_USER = click.argument("user", metavar="USER_ID")


@click.group()
def users() -> None:
    """Show and erase what is stored of one user of Open WebUI."""


@users.command()
@_USER
@as_json
def show(user: str, as_json: bool) -> None:
    """Show what is stored of a user, without texts."""
    answer = ask("GET", "users", user)
    if as_json:
        print_json(answer)
    else:
        print_object(answer)


@users.command()
@_USER
@click.option("--yes", is_flag=True, help="Show nothing, and do not ask.")
def erase(user: str, yes: bool) -> None:
    """Delete everything that is stored of a user.

    Shows first what is stored, and asks. docs/howto/retention.md has what remains, and why.
    """
    if not yes:
        print_object(ask("GET", "users", user))
        click.confirm(
            "Delete all of this? Backups and Open WebUI keep what they have of this user.",
            abort=True,
        )
    ask("DELETE", "users", user)
    say(f"Everything of user {user} is deleted.")
