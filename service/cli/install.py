"""`precis install-filter` and `precis uninstall-filter`: the filter in an Open WebUI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.names import FIRST_TENANT

if TYPE_CHECKING:
    from service.clients.openwebui import Login
    from service.settings import Settings
    from service.usecases.install import Say

Url = Annotated[str, typer.Option(help="Address of Open WebUI, such as https://chat.example.org.")]
Email = Annotated[
    str | None,
    typer.Option(
        help="Email of an admin. Asks for the password, unless PRECIS_OPENWEBUI_PASSWORD is set."
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        help="An admin's API key or session token, instead of --email; or set PRECIS_OPENWEBUI_KEY."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing, only print what would be done.")
]


def install_filter(
    url: Url,
    email: Email = None,
    api_key: ApiKey = None,
    service_url: Annotated[
        str | None, typer.Option(help="URL at which Open WebUI reaches this service.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Only for this model; may be repeated.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant to make the key for, if you run several Open WebUIs.")
    ] = None,
    recall: Annotated[
        bool, typer.Option(help="With the tool that looks up what a summary covers, or without it.")
    ] = True,
    action: Annotated[
        bool, typer.Option(help="With the buttons under messages for users, or without them.")
    ] = True,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let the filter use http:// to a public address.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Installs or updates the filter, its tool and its buttons, with a key, and switches them on.

    Then it checks, from inside Open WebUI, that the filter reaches this service. Running it again
    changes nothing.
    """
    from service.clients.openwebui import signed_in
    from service.urls import address, reached_at
    from service.usecases import install

    current = shell.settings()
    # Where it really listens: `precis serve --port` is in nobody's settings.
    here = address(current) or reached_at(current.host, current.port)
    wish = install.Wish(
        tuple(model or ()), service_url, tenant, here, FIRST_TENANT, recall, action, insecure
    )

    async def work() -> None:
        async with signed_in(url, _who(current, email, api_key)) as webui:
            await install.install(
                webui, wish, lambda: shell.database(current), _say(dry_run), dry=dry_run
            )

    shell.run(work())


def uninstall_filter(
    url: Url, email: Email = None, api_key: ApiKey = None, dry_run: DryRun = False
) -> None:
    """Removes the filter, its tool and its buttons, and revokes the keys made for them."""
    from service.clients.openwebui import signed_in
    from service.usecases import install

    current = shell.settings()

    async def work() -> None:
        async with signed_in(url, _who(current, email, api_key)) as webui:
            await install.uninstall(
                webui, lambda: shell.database(current), _say(dry_run), dry=dry_run
            )

    shell.run(work())


def _who(current: Settings, email: str | None, api_key: str | None) -> Login | str | None:
    from service.clients.openwebui import Login

    key = api_key or current.openwebui_key.get_secret_value()
    if key or email is None:
        return key or None
    password = current.openwebui_password.get_secret_value()
    return Login(
        email,
        password or typer.prompt(f"Password of {email} in Open WebUI", hide_input=True, err=True),
    )


def _say(dry_run: bool) -> Say:
    before = "would be done: " if dry_run else ""
    return lambda line: shell.console.print(
        before + line, markup=False, highlight=False, soft_wrap=True
    )
