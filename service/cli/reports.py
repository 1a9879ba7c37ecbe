"""`precis stats` and `precis audit`: the daily sums of tokens, and who changed what."""

import click

from service.cli.client import ask
from service.cli.output import as_json, paged, print_answer, print_page
from service.names import MONTH


@click.command()
@click.option("--days", type=int, default=MONTH, show_default=True, help="Days, with today (UTC).")
@as_json
def stats(days: int, as_json: bool) -> None:
    """Show tokens not sent, tokens read for summaries, and turns that lost text."""
    print_answer(ask("GET", "stats", query={"days": days}), as_json)


@click.command()
@click.option("--chat", metavar="CHAT_ID", help="Only what is about this chat.")
@click.option("--actor", help="Only what this actor did, exactly as the list names it.")
@paged
def audit(as_json: bool, **query: object) -> None:
    """List who changed or read what, the newest first."""
    page = ask("GET", "audit", query=query)
    print_page(page, "changes", "at action actor chat details id", as_json)
