"""`precis chats`: what operators look at and change of chats and their summaries."""

from typing import Final, TextIO

import click

from service.cli.client import ask
from service.cli.output import (
    JsonObject,
    as_json,
    paged,
    print_json,
    print_object,
    print_page,
    print_table,
    say,
)

_CHATS: Final = "chat_id state checkpoints path_tokens updated_at title"
_BRANCHES: Final = "leaf_id messages path_tokens checkpoint_id"
_CHECKPOINTS: Final = (
    "id serving parent_id covered_messages covered_tokens tokens kind summariser created_at"
)
_RUNS: Final = "id outcome reason started_at calls tokens_read tokens_written published request_id"
_CHAT = click.argument("chat", metavar="CHAT_ID")
_CHECKPOINT = click.argument("checkpoint", type=int)
_TEXT = click.File(encoding="utf-8")


@click.group()
def chats() -> None:
    """Show, correct, reset and delete chats and summaries."""


@chats.command("list")
@click.option("--user", help="Only chats of the user with this id.")
@click.option("--state", help="Only chats whose work is working, due, waiting or dead, or idle.")
@click.option("--begins", help="Only chats whose id begins with this text.")
@paged
def list_chats(as_json: bool, **query: object) -> None:
    """List chats, the most recently updated first; --json has all columns.

    Path tokens are those of the newest branch, calls of tools and their results included.
    """
    print_page(ask("GET", "chats", query=query), "chats", _CHATS, as_json)


@chats.command()
@_CHAT
@click.option("--checkpoint", type=int, help="Show the summary of this checkpoint.")
@click.option(
    "--only",
    type=click.Choice(["summary", "state", "rules", "quotations"]),
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
    if as_json:
        print_json(answer)
    elif only:
        _print_part(answer, only)
    elif checkpoint is None:
        _print_chat(answer)
    else:
        _print_summary(answer)


def _print_chat(answer: JsonObject) -> None:
    print_object(answer["chat"])
    if answer["prompt"]:
        print_object(answer["prompt"], "waiting for the answer of a model")
    print_table(answer["branches"], _BRANCHES, "branches")
    print_table(answer["checkpoints"], _CHECKPOINTS, "checkpoints")
    print_table(answer["runs"], _RUNS, "runs")


def _print_summary(answer: JsonObject) -> None:
    say(answer["summary"])
    print_object(answer["checkpoint"], "checkpoint")
    print_table(answer["pins"], "number kind text speaker source replaced_by", "pins")
    print_table(answer["talk"], "number speaker in_summary text", "what was said")


def _print_part(answer: JsonObject, name: str) -> None:
    """Prints one part of a summary; rules and quotations one on each line, as far as they hold."""
    if name in ("rules", "quotations"):
        holding = [pin for pin in answer["pins"] if pin["replaced_by"] is None]
        say("\n".join(pin["text"] for pin in holding if f"{pin['kind']}s" == name))
    elif answer[name]:
        say(answer[name])
    else:
        say(
            "Code wrote this summary, so it has no state yet: what you pass to `precis chats"
            " correct` as --state becomes its state.",
            err=True,
        )


@chats.command()
@_CHAT
@click.argument("words", default="")
@click.option("--ref", help="Read one message or result as it is stored: M34, T12 or 12.3.")
@click.option("--grep", help="With --ref: only lines with these words, and two lines around.")
@click.option(
    "--line", type=int, help="With --ref: begin with this line; with WORDS: with this result."
)
@as_json
def find(chat: str, words: str, as_json: bool, **query: object) -> None:
    """Find WORDS in the newest branch of a chat, or read one message or result of it.

    Exits with 1 when nothing is found.
    """
    if bool(words.strip()) == bool(query["ref"]):
        raise click.UsageError("Pass either words to look for, or --ref.")
    answer = ask("GET", "chats", chat, "find", query=query | {"query": words or None})
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
@click.option("--rules", type=_TEXT, help="A file with all rules, one on each line.")
@click.option("--quotations", type=_TEXT, help="A file with all quotations, one on each line.")
@click.option(
    "--forget",
    multiple=True,
    help="Number of a sentence under `what was said` to leave out; may be repeated.",
)
def correct(chat: str, checkpoint: int, forget: tuple[str, ...], **files: TextIO | None) -> None:
    """Store a corrected version of a checkpoint, which serves in its place."""
    body: dict[str, object] = {"forget": forget}
    for name, file in files.items():
        if file:
            text = _read_file(file, name)
            body[name] = text if name == "state" else list(filter(str.strip, text.splitlines()))
    answer = ask("PATCH", "chats", chat, "checkpoints", checkpoint, body=body)
    number = answer["checkpoint"]["id"]
    say(f"Checkpoint {number} serves. Deeper ones, if there are any, are written again.")


def _read_file(file: TextIO, part: str) -> str:
    """Reads a new part of a summary."""
    try:
        text = file.read()
    except ValueError as error:  # no UTF-8
        raise click.BadParameter(str(error)) from None
    # A pipe or an editor that failed leaves an empty file; it would be served at once.
    if not text:
        raise click.BadParameter(
            f"The file of --{part} is empty; nothing was changed. To remove all rules or all"
            " quotations, pass a file with one blank line."
        )
    return text


@chats.command()
@_CHAT
@click.option("--keep", type=int, help="Keep this one, which serves, and those that it grew from.")
@click.confirmation_option(
    prompt="Delete the checkpoints of this chat and their corrections, except what --keep names?"
)
def reset(chat: str, keep: int | None) -> None:
    """Delete a chat's checkpoints, and have a worker summarise the chat again."""
    answer = ask("POST", "chats", chat, "reset", body={"keep": keep})
    say(f"{answer['dropped']} checkpoints deleted. Work is due.")


@chats.command()
@_CHAT
@click.option("--for-good", is_flag=True, help="Store nothing of it for a day, if it goes on.")
@click.confirmation_option(prompt="Delete everything that Precis stores for this chat?")
def delete(chat: str, for_good: bool) -> None:
    """Delete a chat with everything that is stored for it."""
    ask("DELETE", "chats", chat, query={"for_good": "true" if for_good else None})
    say("Deleted.")
