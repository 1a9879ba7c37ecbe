"""`precis audit`: what operators changed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from service.cli import shell
from service.cli.chats import Tenant, with_tenant
from service.cli.output import print_json, print_rows
from service.names import FIRST_TENANT


def audit(
    chat: Annotated[
        str | None, typer.Option(callback=shell.text, help="Only changes of this chat.")
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option(
            callback=shell.text, help="Only changes by this actor, as the list names it, or `cli`."
        ),
    ] = None,
    before: Annotated[
        int | None, typer.Option(min=1, max=shell.LAST_ID, help="Only changes before this id.")
    ] = None,
    tenant: Tenant = FIRST_TENANT,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: shell.Json = False,
) -> None:
    """Lists what operators changed, the newest first."""
    from service.usecases import inspect

    found = with_tenant(
        tenant,
        lambda engine, by: inspect.list_changes(
            engine, by.tenant, limit, chat=chat, actor=actor, before=before
        ),
    )
    if as_json:
        print_json(found)
        return
    rows = [
        (
            str(one.id),
            f"{one.at:%Y-%m-%d %H:%M:%S}",
            one.actor,
            one.action,
            one.chat or "",
            json.dumps(one.details, ensure_ascii=False) if one.details else "",
        )
        for one in found
    ]
    columns = ("id", "at", "actor", "action", "chat", "details")
    print_rows(shell.console, columns, rows, least=("id", "details"))
