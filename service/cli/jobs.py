"""`precis jobs` and `precis status`: work, and who does it."""

from typing import Final

import click

from service.cli.client import ask
from service.cli.output import (
    as_json,
    paged,
    print_answer,
    print_page,
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
    """Show the queue, circuit breakers, tokens not sent, and what is amiss.

    Exits with 1 when work is due for two minutes and nobody works.
    """
    answer = ask("GET", "status")
    stalled = answer["queue"]["stalled"]
    if not as_json:
        for warning in answer.pop("warnings"):
            say(f"{warning}.")
        queue = answer.pop("queue")
        say(f"Summaries are written by {answer.pop('writer')}.")
        say(
            f"{queue['due']} due (the oldest for {queue['oldest_due_seconds']:.0f} s),"
            f" {queue['working']} working, {queue['waiting']} waiting, {queue['dead']} dead"
        )
        answer["last 30 days"] = answer.pop("month")
    print_answer(answer, as_json)
    if stalled:
        raise SystemExit(1)
