"""`precis stats` and `precis audit`: what it is worth, and who changed what."""

import click

from service.cli.client import ask
from service.cli.output import as_json, paged, print_answer, print_page


@click.command()
@click.option("--by", default="day", show_default=True, help="day (in UTC), user, chat or model.")
@click.option("--from", metavar="DAY", help="First day, as 2027-01-31; by default 30 days.")
@click.option("--to", metavar="DAY", help="Last day.")
@click.option("--limit", type=int, help="Most lines: the newest days, or those with most tokens.")
@as_json
def stats(as_json: bool, **query: object) -> None:
    """Show tokens not sent, what summaries cost, and turns that lost text."""
    print_answer(ask("GET", "stats", query=query), as_json)


@click.command()
@click.option("--chat", metavar="CHAT_ID", help="Only what is about this chat.")
@click.option("--actor", help="Only what this actor did, exactly as the list names it.")
@paged
def audit(as_json: bool, **query: object) -> None:
    """List who changed or read what, the newest first."""
    page = ask("GET", "audit", query=query)
    print_page(page, "changes", "at action actor chat details id", as_json)
