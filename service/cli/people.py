"""`precis users`: what is stored of one user: list, show, export, erase."""

import os
from pathlib import Path

import click

from service.cli.client import ask, pieces
from service.cli.output import (
    as_json,
    confirm,
    paged,
    print_answer,
    print_page,
    say,
    without_asking,
)
from service.errors import ConfigurationError

_USER = click.argument("user", metavar="USER_ID")


@click.group()
def users() -> None:
    """Find, export and erase what is stored of one user of Open WebUI."""


@users.command("list")
@click.option("--begins", help="Only users whose id begins so.")
@paged
def list_users(as_json: bool, **query: object) -> None:
    """List the users who wrote in chats, by id."""
    page = ask("GET", "users", query=query)
    print_page(page, "users", "user_id chats beside updated_at", as_json)


@users.command()
@_USER
@as_json
def show(user: str, as_json: bool) -> None:
    """Show what is stored of a user, without texts."""
    print_answer(ask("GET", "users", user), as_json)


@users.command()
@_USER
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write; it must not exist.",
)
def export(user: str, to: Path) -> None:
    """Write everything that is stored of a user, with texts, as lines of JSON."""
    try:
        count = _written(user, to)
    except FileExistsError:
        raise ConfigurationError(f"{to} is there already; name another file") from None
    except OSError as error:
        to.unlink(missing_ok=True)
        raise ConfigurationError(f"{to} cannot be written: {error.strerror}") from error
    except BaseException:
        to.unlink(missing_ok=True)  # half an export would pass for a whole one
        raise
    say(f"Wrote {count:,} records to {to}.")


def _written(user: str, to: Path) -> int:
    """Writes an export; returns how many records it has."""
    # Only its owner may read it: texts are in it.
    with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        count = 0
        for piece in pieces("users", user, "export"):
            file.write(piece)
            count += piece.count(b"\n")
    return count


@users.command()
@_USER
@without_asking
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@as_json
def erase(user: str, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete everything that is stored of a user, and say what remains and why.

    Shows first what would be deleted, and asks.
    """
    if dry_run or not yes:
        preview = ask("DELETE", "users", user, query={"dry_run": True})
        say("Nothing was deleted; this would be:", err=True)
        print_answer(preview, as_json)
        if dry_run:
            return
        confirm(f"Delete everything that Precis stores of user {user}?")
    answer = ask("DELETE", "users", user)
    say("Deleted:", err=True)
    print_answer(answer, as_json)
