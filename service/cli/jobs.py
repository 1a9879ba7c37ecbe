"""`precis status`, `precis jobs` and `precis audit`: the work, and who did what."""

from typing import Final

import click

from service.cli.client import ask
from service.cli.output import (
    as_json,
    paged,
    print_json,
    print_page,
    print_table,
    say,
)

_JOBS: Final = "chat_id state last_error attempts due_at dead_at worker"


@click.group()
def jobs() -> None:
    """List and retry work that is due, waiting for another attempt, or dead."""


@jobs.command("list")
@click.option("--state", help="Only work that is working, due, waiting or dead.")
@paged
def list_jobs(as_json: bool, **query: object) -> None:
    """List chats with work, and why it waits."""
    print_page(ask("GET", "jobs", query=query), "jobs", _JOBS, as_json)


@jobs.command()
@click.argument("chat", metavar="[CHAT_ID]", default="")
@click.option("--dead", is_flag=True, help="All dead work.")
def retry(chat: str, dead: bool) -> None:
    """Make the work on a chat due now, and forget its failed attempts."""
    if bool(chat) is dead:
        raise click.UsageError("Pass a chat id or --dead.")
    if dead:
        say(f"{ask('POST', 'jobs', 'retry')['chats']} chats are due again.")
    else:
        ask("POST", "jobs", chat, "retry")
        say("The work is due now.")


@click.command()
@as_json
def status(as_json: bool) -> None:
    """Show the queue, circuit breakers, tokens not sent, and warnings.

    Exits with 1 when work has been due for two minutes and nobody works.
    """
    answer = ask("GET", "status")
    queue = answer["queue"]
    if as_json:
        print_json(answer)
    else:
        for warning in answer["warnings"]:
            say(f"{warning}.")
        say(f"Summaries are written by {answer['writer']}.")
        say(
            f"{queue['due']} due (the oldest for {queue['oldest_due_seconds']:.0f} s),"
            f" {queue['working']} working, {queue['waiting']} waiting, {queue['dead']} dead"
        )
        not_sent = answer["month"]["tokens_not_sent"]
        say(f"In 30 days, {not_sent:,} tokens were not sent.")
        if answer["endpoints"]:
            print_table(
                answer["endpoints"], "name state failures open_until last_error", "summarisers"
            )
    if queue["stalled"]:
        raise SystemExit(1)


@click.command()
@click.option("--chat", metavar="CHAT_ID", help="Only what is about this chat.")
@click.option("--actor", help="Only what this actor did, exactly as the list names it.")
@paged
def audit(as_json: bool, **query: object) -> None:
    """List who changed or read what, the newest first."""
    page = ask("GET", "audit", query=query)
    print_page(page, "changes", "at action actor chat details id", as_json)
