"""`precis users`: what is stored of one user: list, show, erase."""

import click

from service.cli.client import ask
from service.cli.output import (
    as_json,
    confirm,
    paged,
    print_answer,
    print_page,
    say,
    without_asking,
)

_USER = click.argument("user", metavar="USER_ID")


@click.group()
def users() -> None:
    """Find and erase what is stored of one user of Open WebUI."""


@users.command("list")
@click.option("--begins", help="Only users whose id begins so.")
@paged
def list_users(as_json: bool, **query: object) -> None:
    """List the users who wrote in chats, by id."""
    page = ask("GET", "users", query=query)
    print_page(page, "users", "user_id user_name chats beside updated_at", as_json)


@users.command()
@_USER
@as_json
def show(user: str, as_json: bool) -> None:
    """Show what is stored of a user, without texts."""
    print_answer(ask("GET", "users", user), as_json)


@users.command()
@_USER
@without_asking
def erase(user: str, yes: bool) -> None:
    """Delete everything that is stored of a user.

    Shows first what is stored, and asks. docs/howto/retention.md has what remains, and why.
    """
    if not yes:
        print_answer(ask("GET", "users", user), as_json=False)
        confirm(f"Delete all of this? Backups, and Open WebUI, keep what they have of user {user}.")
    ask("DELETE", "users", user)
    say(f"Everything of user {user} is deleted.")
