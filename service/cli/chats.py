"""`precis chats`: what operators look at and change of chats and their summaries."""

import json
from typing import Final, TextIO

import click

from service.cli.client import ask
from service.cli.output import (
    JsonObject,
    as_json,
    confirm,
    paged,
    print_answer,
    print_json,
    print_page,
    say,
    without_asking,
)

_CHATS: Final = (
    "chat_id state path_tokens checkpoints model messages updated_at user_id user_name title"
    " last_error left_alone_at compactor"
)
_COLUMNS: Final = {
    "branches": "leaf_id messages path_tokens checkpoint_id",
    "checkpoints": "id serving parent_id covered_messages covered_tokens tokens kind"
    " summariser created_at",
    "runs": "id outcome reason started_at calls tokens_read tokens_written published request_id",
    "pins": "number kind text speaker source replaced_by",
    "what was said": "number speaker in_summary text",
}
_PIN_FIELDS: Final = ("number", "kind", "text")
"""What `correct` reads of a pin."""
_CHAT = click.argument("chat", metavar="CHAT_ID")
_CHECKPOINT = click.argument("checkpoint", type=int)
_TEXT = click.File(encoding="utf-8")


@click.group()
def chats() -> None:
    """Show, correct, reset and delete chats and summaries."""


@chats.command("list")
@click.option("--user", help="Only chats of this user's id.")
@click.option("--model", help="Only chats for this model.")
@click.option("--state", help="Only chats whose work is working, due, waiting or dead, or idle.")
@click.option("--begins", help="Only chats whose id begins so.")
@click.option("--has", help="Only chats with a summary, one that is degraded, or an expiry.")
@paged
def list_chats(as_json: bool, **query: object) -> None:
    """List chats, the most recently updated first.

    Path tokens are those of the newest branch, calls of tools and their results included.
    """
    print_page(ask("GET", "chats", query=query), "chats", _CHATS, as_json)


@chats.command()
@_CHAT
@click.option("--checkpoint", type=int, help="Show the summary of this checkpoint.")
@click.option(
    "--only",
    type=click.Choice(["summary", "state", "pins"]),
    help="Print only this part: the summary exactly as the model gets it, or a part as `precis"
    " chats correct` reads it.",
)
@as_json
def show(chat: str, checkpoint: int | None, only: str | None, as_json: bool) -> None:
    """Show a chat with its branches, checkpoints and latest work, or one of its summaries.

    Path tokens are those of its messages, calls of tools and their results included; overhead is
    what requests carry beside them, such as a system prompt and the specifications of tools.
    """
    if only and (as_json or checkpoint is None):
        raise click.UsageError("--only needs --checkpoint, and prints a part; --json prints all.")
    place = () if checkpoint is None else ("checkpoints", checkpoint)
    answer = ask("GET", "chats", chat, *place)
    if only:
        say(_part(answer, only))
        return
    if checkpoint is not None and not as_json:
        # What is printed as it is, and the tool calls, which the text has as well.
        say(answer.pop("summary"))
        del answer["state"], answer["ledger"]
        answer["what was said"] = answer.pop("talk")
    print_answer(answer, as_json, columns=_COLUMNS)


def _part(summary: JsonObject, name: str) -> str:
    """One part of a summary; of the pins those that hold."""
    if name == "state" and not summary["state"]:
        raise click.ClickException("code wrote this summary, without a state: write one yourself")
    if name != "pins":
        return str(summary[name])
    pins = [
        {field: pin[field] for field in _PIN_FIELDS}
        for pin in summary["pins"]
        if pin["replaced_by"] is None
    ]
    return json.dumps(pins, indent=2, ensure_ascii=False)


@chats.command()
@_CHAT
@click.argument("words", default="")
@click.option(
    "--ref",
    help="Read one message or result as it is stored: M34, T12, 12.3, marker:…, or the id of a"
    " call.",
)
@click.option("--grep", help="With --ref: only lines with these words, and two lines around.")
@click.option(
    "--line", type=int, help="With --ref: begin with this line; with WORDS: with this result."
)
@click.option("--tokens", type=int, default=4000, show_default=True, help="Most tokens to show.")
@as_json
def find(chat: str, words: str, tokens: int, as_json: bool, **question: object) -> None:
    """Find WORDS in the newest branch of a chat, or read one message or result of it.

    Exits with 1 when there is nothing.
    """
    if bool(words.strip()) == bool(question["ref"]):
        raise click.UsageError("give either words to look for, or --ref with what to read")
    query = {"query": words or None, "max_tokens": tokens, **question}
    answer = ask("GET", "chats", chat, "find", query=query)
    if as_json:
        print_json(answer)
    else:
        say(answer["text"])
    if answer["status"] != "found":
        raise SystemExit(1)


@chats.command()
@_CHAT
@_CHECKPOINT
@click.option("--state", type=_TEXT, help="A file with the new state; - reads stdin.")
@click.option("--pins", type=_TEXT, help="A JSON file with the new list of pins; - reads stdin.")
@click.option(
    "--forget",
    multiple=True,
    help="Number of a sentence under `what was said` to leave out; may be repeated.",
)
def correct(
    chat: str, checkpoint: int, state: TextIO | None, pins: TextIO | None, forget: tuple[str, ...]
) -> None:
    """Store a corrected version of a checkpoint, which serves in its place."""
    try:
        text = state.read() if state else None
        listed = json.load(pins) if pins else None
    except ValueError as error:  # neither UTF-8 nor JSON
        raise click.BadParameter(str(error)) from None
    # An empty file is a slip of a pipe or an editor; it would be served at once.
    if text is not None and not text.strip():
        raise click.BadParameter("the new state is empty; nothing was changed")
    body = {"state": text, "pins": listed, "forget": forget}
    answer = ask("PATCH", "chats", chat, "checkpoints", checkpoint, body=body)
    number = answer["checkpoint"]["id"]
    say(f"Checkpoint {number} serves. Deeper ones, if there are any, are written again.")


@chats.command()
@_CHAT
@click.option("--keep", type=int, help="Keep this one, which serves, and those that it grew from.")
@without_asking
def reset(chat: str, keep: int | None, yes: bool) -> None:
    """Delete a chat's checkpoints, and have a worker summarise the chat again."""
    which = f"but {keep} and those it grew from" if keep else "with their corrections"
    confirm(f"Delete all checkpoints of chat {chat}, {which}?", yes)
    answer = ask("POST", "chats", chat, "reset", body={"keep": keep})
    say(f"{answer['dropped']} checkpoints deleted. Work is due.")


@chats.command()
@_CHAT
def resume(chat: str) -> None:
    """Summarise a chat again that its user wanted left alone."""
    ask("POST", "chats", chat, "resume")
    say("It is summarised again; work is due.")


@chats.command()
@_CHAT
@without_asking
@click.option("--for-good", is_flag=True, help="Store nothing of it for a day, if it goes on.")
def delete(chat: str, yes: bool, for_good: bool) -> None:
    """Delete a chat with everything that is stored for it."""
    confirm(f"Delete everything that Precis stores for chat {chat}?", yes)
    ask("DELETE", "chats", chat, query={"for_good": for_good or None})
    say("Deleted.")
