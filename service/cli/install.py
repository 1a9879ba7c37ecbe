"""`precis install-filter` and `precis uninstall-filter`: the filter in an Open WebUI."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from service.cli import shell
from service.cli.output import print_table, say
from service.errors import ConfigurationError

if TYPE_CHECKING:
    from service.clients.openwebui import Login
    from service.settings import Settings

_URL = click.option(
    "--url", required=True, help="Address of Open WebUI, such as https://chat.example.org."
)
_EMAIL = click.option(
    "--email",
    help="Email of an admin. Asks for the password, or reads it from stdin.",
)
_API_KEY = click.option(
    "--api-key",
    help="An admin's API key or session token, instead of --email; or set PRECIS_OPENWEBUI_KEY.",
)


@click.command()
@_URL
@_EMAIL
@_API_KEY
@click.option("--service-url", help="URL at which Open WebUI reaches this service.")
@click.option(
    "--summariser",
    help="Who writes summaries: `chat` for each chat's own model, the id of another model in Open"
    " WebUI, or `none` for code alone.  [default: as it is; at first, chat]",
)
@click.option("--tenant", help="Tenant to make the key for, if you run several Open WebUIs.")
@click.option(
    "--recall/--no-recall",
    default=True,
    help="With the tool that looks up what a summary covers, or without it.",
)
@click.option(
    "--action/--no-action",
    default=True,
    help="With the buttons under messages for users, or without them.",
)
def install_filter(
    url: str,
    email: str | None,
    api_key: str | None,
    service_url: str | None,
    summariser: str | None,
    tenant: str | None,
    recall: bool,
    action: bool,
) -> None:
    """Install or update the filter, its tool and its buttons, with a key, and switch them on.

    Then it checks, from inside Open WebUI, that the filter reaches this service. Run it again
    after an upgrade: it changes only what differs.
    """
    from service.clients.openwebui import sign_in
    from service.embedded.urls import find_announcement, make_address, read_settings_urls
    from service.usecases import install

    current = shell.settings()
    # Where it really listens: `precis serve --port` is in nobody's settings.
    about = None if read_settings_urls(current) else find_announcement(current.data_dir)
    here = about["address"] if about else make_address(current.host, current.port)
    wish = install.Wish(service_url, tenant, here, summariser, recall, action)

    async def work() -> None:
        async with (
            sign_in(url, _find_actor(current, email, api_key)) as webui,
            shell.database(current) as database,
        ):
            rows = await install.install(webui, wish, database, say, current)
        print_table(rows, "model window written_by")

    shell.run(work())


@click.command()
@_URL
@_EMAIL
@_API_KEY
def uninstall_filter(url: str, email: str | None, api_key: str | None) -> None:
    """Remove the filter, its tool and its buttons, and revoke the keys made for them."""
    from service.clients.openwebui import sign_in
    from service.usecases import install

    current = shell.settings()

    async def work() -> None:
        async with (
            sign_in(url, _find_actor(current, email, api_key)) as webui,
            shell.database(current) as database,
        ):
            await install.uninstall(webui, database, say)

    shell.run(work())


def _find_actor(current: Settings, email: str | None, api_key: str | None) -> Login | str | None:
    from service.clients.openwebui import Login

    key = api_key or current.openwebui_key.get_secret_value()
    if key or email is None:
        return key or None
    if sys.stdin.isatty():
        password = click.prompt(f"Password of {email} in Open WebUI", hide_input=True, err=True)
    else:
        password = sys.stdin.readline().strip()
    if not password:
        raise ConfigurationError(
            f"there is no terminal to ask for the password of {email}: write it to stdin, or set"
            " PRECIS_OPENWEBUI_KEY in place of --email"
        )
    return Login(email, password)
