"""`precis users`: what is stored of one user: list, show, export, erase."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.cli.chats import Tenant, with_tenant
from service.cli.output import print_json, print_rows
from service.errors import ConfigurationError
from service.names import FIRST_TENANT

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from service.usecases.operate import Operator

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="What is stored of one user of Open WebUI."
)

UserId = Annotated[str, typer.Argument(callback=shell.text, help="Open WebUI's id of the user.")]


@app.command("list")
def list_users(
    begins: Annotated[
        str, typer.Option(callback=shell.text, help="Only users whose id begins so.")
    ] = "",
    after: Annotated[
        str, typer.Option(callback=shell.text, help="Only users behind this id.")
    ] = "",
    tenant: Tenant = FIRST_TENANT,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: shell.Json = False,
) -> None:
    """Lists the users who wrote in chats, by id."""
    from service.usecases import people

    found = with_tenant(
        tenant, lambda engine, by: people.list_users(engine, by.tenant, limit, after, begins)
    )
    if as_json:
        print_json(found)
        return
    rows = [
        (one.user_id, str(one.chats), str(one.beside), f"{one.updated_at:%Y-%m-%d %H:%M}")
        for one in found
    ]
    print_rows(shell.console, ("user", "chats", "beside others", "updated"), rows)


@app.command()
def show(user: UserId, tenant: Tenant = FIRST_TENANT, as_json: shell.Json = False) -> None:
    """Shows what is stored of a user, without texts."""
    from service.usecases import people

    found = with_tenant(tenant, lambda engine, by: people.show(engine, by, user))
    if as_json:
        print_json(found)
        return
    stored = found.stored
    rows = [
        ("own chats", len(found.chats)),
        ("messages in them", stored.messages),
        ("of these, by others", stored.of_others),
        ("checkpoints of them", stored.checkpoints),
        ("rounds of work on them", stored.runs),
        ("chats of others with messages of the user", len(found.beside)),
        ("messages in those", stored.written_beside),
        ("checkpoints that have read one", stored.covered_beside),
        ("rows of daily figures", stored.figures),
        ("rows of the audit log", stored.audit),
    ]
    _print_counts(rows)


@app.command()
def export(
    user: UserId,
    to: Annotated[Path, typer.Option("--to", help="File to write; it must not exist.")],
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Writes everything that is stored of a user, with texts, as lines of JSON."""
    import msgspec

    from service.usecases import people

    async def work(engine: AsyncEngine, by: Operator) -> int:
        records = await people.export(engine, by, user)
        count = 0
        with os.fdopen(_created(to), "wb") as file:
            async for record in records:
                file.write(msgspec.json.encode(record) + b"\n")
                count += 1
        return count

    count = with_tenant(tenant, work)
    shell.console.print(f"Wrote {count:,} records to {to}.", markup=False)


@app.command()
def erase(
    user: UserId,
    tenant: Tenant = FIRST_TENANT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what, delete nothing.")] = False,
    as_json: shell.Json = False,
) -> None:
    """Deletes everything that is stored of a user, and says what remains and why."""
    from service.usecases import people

    if not (yes or dry_run):
        typer.confirm(f"Delete everything that Precis stores of user {user}?", abort=True)
    found = with_tenant(tenant, lambda engine, by: people.erase(engine, by, user, dry=dry_run))
    if as_json:
        print_json(found)
        return
    shell.console.print("Nothing was deleted; this would be:" if dry_run else "Deleted:")
    rows = [
        ("chats", found.chats),
        ("messages in them", found.messages),
        ("checkpoints of them", found.checkpoints),
        ("texts of messages in chats of others", found.messages_beside),
        ("checkpoints that had read one", found.checkpoints_beside),
    ]
    _print_counts(rows)
    shell.console.print("What remains:")
    remains = [
        (one.what, "" if one.count is None else f"{one.count:,}", one.why) for one in found.remains
    ]
    print_rows(shell.console, ("what", "number", "why"), remains)


def _print_counts(counts: Sequence[tuple[str, int]]) -> None:
    rows = [(what, f"{number:,}") for what, number in counts]
    print_rows(shell.console, ("what", "number"), rows)


def _created(path: Path) -> int:
    """A new file that only its owner may read: texts are in it."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}; name a new file in a folder of yours"
        ) from error
