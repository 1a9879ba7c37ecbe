"""`precis chats`: what operators look at and change of chats and their summaries."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from rich.markup import escape
from rich.table import Table

from service import policy
from service.cli import shell
from service.cli.output import add_row, print_json, print_rows, print_table
from service.cli.output import shown as visible
from service.errors import NotFound
from service.names import FIRST_TENANT, ChatState, Has, Order

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from service.settings import Settings
    from service.storage.chats import Overview
    from service.storage.checkpoints import Made
    from service.storage.messages import Branch
    from service.storage.runs import Run
    from service.summarising.correction import GivenPin
    from service.summarising.memory import Pin
    from service.usecases.inspect import Detail, Said, Shown
    from service.usecases.operate import Operator, ServedCheckpoint
    from service.usecases.recall import Recalled

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Chats and their summaries.")

ChatId = Annotated[str, typer.Argument(callback=shell.text, help="Open WebUI's chat id.")]
CheckpointId = Annotated[
    int,
    typer.Argument(
        min=1, max=shell.LAST_ID, help="A checkpoint, as `precis chats show` numbers them."
    ),
]
Tenant = Annotated[str, typer.Option(callback=shell.text, help="Tenant: one Open WebUI.")]
Result = TypeVar("Result")

CLI = "cli"
"""Who acts, in the audit log, when a command does."""
_REQUEST_ID = 12  # characters of a request id in a table: enough to search a log by
_WAITS = (
    "Texts that new summaries need were deleted (see PRECIS_KEEP_BODIES): the work waits for the"
    " chat's next turn."
)


def with_tenant(
    tenant: str,
    use: Callable[[AsyncEngine, Operator], Awaitable[Result]],
    settings: Settings | None = None,
) -> Result:
    """Runs a use case of operators in a tenant; the settings in force are the default."""

    async def work() -> Result:
        async with shell.database(settings or shell.settings()) as database:
            operator = await operator_of(database.engine, tenant)
            return await use(database.engine, operator)

    return shell.run(work())


async def operator_of(engine: AsyncEngine, tenant: str) -> Operator:
    """Who runs this command, as far as its tenant.

    Raises:
        NotFound: there is no tenant of this name.
    """
    from service.storage import keys
    from service.usecases.operate import Operator

    async with engine.connect() as connection:
        identity = await keys.tenant(connection, tenant)
    if identity is None:
        raise NotFound(f"there is no tenant {tenant!r}; see `precis keys list`")
    return Operator(identity, CLI)


@app.command("list")
def list_chats(
    user: Annotated[
        str | None, typer.Option(callback=shell.text, help="Only chats of this user's id.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(callback=shell.text, help="Only chats for this model.")
    ] = None,
    state: Annotated[
        ChatState | None, typer.Option(help="Only chats whose work is so; `idle` has none.")
    ] = None,
    begins: Annotated[
        str | None, typer.Option(callback=shell.text, help="Only chats whose id begins so.")
    ] = None,
    has: Annotated[
        Has | None,
        typer.Option(help="Only chats with a summary, a degraded one, or an expiry."),
    ] = None,
    order: Annotated[
        Order, typer.Option(help="The most recently updated first, or the longest.")
    ] = "updated",
    tenant: Tenant = FIRST_TENANT,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: shell.Json = False,
) -> None:
    """Lists chats, the newest first."""
    from service.storage.chats import Filters
    from service.usecases import inspect

    which = Filters(user, model, state, begins, has, order)
    found = with_tenant(
        tenant, lambda engine, by: inspect.list_chats(engine, by.tenant, limit, which=which)
    )
    if as_json:
        print_json(found)
        return
    rows = [
        (
            chat.chat_id,
            chat.user_id,
            chat.model,
            str(chat.messages),
            f"{chat.path_tokens:,}",
            str(chat.checkpoints),
            _work(chat),
            f"{chat.updated_at:%Y-%m-%d %H:%M}",
        )
        for chat in found
    ]
    columns = ("chat", "user", "model", "messages", "tokens", "checkpoints", "work", "updated")
    print_rows(shell.console, columns, rows, least=("user", "updated", "messages", "model"))


def _work(chat: Overview) -> str:
    if chat.working or chat.due_at:
        return "working" if chat.working else "due"
    if chat.wants_bodies:
        return "waits for the next turn"
    return chat.last_error or _by_others(chat)


@app.command()
def show(
    chat: ChatId,
    checkpoint: Annotated[
        int | None,
        typer.Option(min=1, max=shell.LAST_ID, help="Show the summary of this checkpoint."),
    ] = None,
    only: Annotated[
        Literal["summary", "narrative", "pins"] | None,
        typer.Option(
            help="Print only this part: the summary exactly as the model gets it, or a part as"
            " `precis chats correct` reads it."
        ),
    ] = None,
    as_json: shell.Json = False,
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Shows a chat with its branches, checkpoints and latest work, or one of its summaries."""
    from service.usecases import inspect

    if only and as_json:
        raise typer.BadParameter("--only shows a part, and --json all of it")
    if checkpoint is None:
        if only:
            raise typer.BadParameter("--only needs --checkpoint")
        detail = with_tenant(tenant, lambda engine, by: inspect.show_chat(engine, by.tenant, chat))
        if as_json:
            print_json(detail)
        else:
            _print_chat(detail)
        return
    shown = with_tenant(
        tenant,
        lambda engine, by: inspect.show_summary(engine, by.tenant, by.actor, chat, checkpoint),
    )
    if as_json:
        print_json(shown)
    elif only:
        typer.echo(visible(_part(shown, only)))
    else:
        _print_summary(shown)


def _part(shown: Shown, only: Literal["summary", "narrative", "pins"]) -> str:
    """One part of a summary, as `correct` reads it."""
    from service.summarising.kept.pins import shown as holding

    match only:
        case "summary":
            return shown.summary
        case "narrative":
            return shown.narrative
        case "pins":
            pins = [
                {"number": pin.number, "kind": pin.kind, "text": pin.text}
                for pin in holding(shown.pins)
            ]
            return json.dumps(pins, indent=2, ensure_ascii=False)


@app.command()
def diff(
    chat: ChatId,
    checkpoint: CheckpointId,
    against: Annotated[
        int,
        typer.Argument(min=1, max=shell.LAST_ID, help="The checkpoint to compare it with."),
    ],
    tenant: Tenant = FIRST_TENANT,
    as_json: shell.Json = False,
) -> None:
    """Shows how a summary differs from another one of its chat."""
    from service.usecases import inspect

    found = with_tenant(
        tenant,
        lambda engine, by: inspect.compare(engine, by.tenant, by.actor, chat, checkpoint, against),
    )
    if as_json:
        print_json(found)
        return
    typer.echo(visible("\n".join(found.lines) or "The two summaries are equal."))


@app.command()
def find(
    chat: ChatId,
    words: Annotated[
        str, typer.Argument(callback=shell.text, help="Words to look for, in any script.")
    ] = "",
    ref: Annotated[
        str,
        typer.Option(
            help="Read one message or result as it is stored: M34, T12, 12.3, marker:…, or the id"
            " of a call."
        ),
    ] = "",
    grep: Annotated[
        str, typer.Option(help="With --ref: only lines with these words, and two lines around.")
    ] = "",
    line: Annotated[int, typer.Option(min=1, help="With --ref: begin with this line.")] = 1,
    tokens: Annotated[int, typer.Option(min=200, max=8000, help="Most tokens to show.")] = 4000,
    tenant: Tenant = FIRST_TENANT,
    as_json: shell.Json = False,
) -> None:
    """Finds words in the newest branch of a chat, or reads one message or result of it."""
    from service.processes import Texts
    from service.usecases import recall

    if bool(words.strip()) == bool(ref.strip()):
        raise typer.BadParameter("give either words to look for, or --ref with what to read")
    question = recall.Question(words, ref, line, grep, tokens)
    settings = shell.settings()

    async def look_up(engine: AsyncEngine, by: Operator) -> Recalled:
        memory = settings.text_memory << 20
        with closing(Texts(1, settings.text_seconds, memory)) as texts:
            texts.warm_up()
            return await recall.of_chat(
                engine, texts, by.tenant, by.actor, chat, question, settings.mask_secrets
            )

    found = with_tenant(tenant, look_up, settings)
    if as_json:
        print_json(found)
        raise typer.Exit(0 if found.status == "found" else 1)
    typer.echo(visible(found.answer.text))
    if found.not_kept:
        typer.echo(f"The texts of {found.not_kept} messages are not kept any more.", err=True)
    if found.status != "found":
        raise typer.Exit(1)


@app.command()
def serve(chat: ChatId, checkpoint: CheckpointId, tenant: Tenant = FIRST_TENANT) -> None:
    """Uses this version or older checkpoint from now on; later turns are summarised again."""
    from service.usecases import operate

    _print_served(
        with_tenant(tenant, lambda engine, by: operate.serve(engine, by, chat, checkpoint))
    )


@app.command()
def correct(
    chat: ChatId,
    checkpoint: CheckpointId,
    narrative: Annotated[
        Path | None, typer.Option(help="A file with the new narrative; - reads stdin.")
    ] = None,
    pins: Annotated[
        Path | None, typer.Option(help="A JSON file with the new list of pins; - reads stdin.")
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(help="Number of a sentence of the talk to leave out; may be repeated."),
    ] = None,
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Stores a corrected version of a checkpoint, and uses it. The old version is kept."""
    from service.usecases import operate

    text = _read(narrative)
    # An empty file is a slip of a pipe or an editor; it would be served at once.
    if text is not None and not text.strip():
        raise typer.BadParameter(f"{narrative}: the new narrative is empty; nothing was changed")
    given = _pins(pins)
    what = chat, checkpoint, text, given, forget or []
    settings = shell.settings()
    _print_served(
        with_tenant(
            tenant, lambda engine, by: operate.correct(engine, settings, by, *what), settings
        )
    )


@app.command()
def reset(
    chat: ChatId,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1, max=shell.LAST_ID, help="A checkpoint to keep, with those that it is based on."
        ),
    ] = None,
    tenant: Tenant = FIRST_TENANT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Deletes a chat's checkpoints; new ones are made after its next turn."""
    from service.usecases import operate

    if not yes:
        which = f"but {keep} and those it is based on" if keep else "with their corrections"
        typer.confirm(f"Delete all checkpoints of chat {chat}, {which}?", abort=True)
    dropped = with_tenant(tenant, lambda engine, by: operate.reset(engine, by, chat, keep))
    shell.console.print(
        f"{dropped.checkpoints} checkpoints deleted.", *([_WAITS] if dropped.waits else [])
    )


@app.command()
def recompute(chat: ChatId, tenant: Tenant = FIRST_TENANT) -> None:
    """Deletes a chat's checkpoints, and has a worker summarise the chat again."""
    from service.usecases import operate

    dropped = with_tenant(tenant, lambda engine, by: operate.recompute(engine, by, chat))
    shell.console.print(_WAITS if dropped.waits else "Work is due.")


@app.command()
def resume(chat: ChatId, tenant: Tenant = FIRST_TENANT) -> None:
    """Summarises a chat again that its user wanted left alone."""
    from service.usecases import wishes

    with_tenant(tenant, lambda engine, by: wishes.resume(engine, wishes.Asker(by), chat))
    shell.console.print("It is summarised again; work is due.")


@app.command()
def focus(chat: ChatId, tenant: Tenant = FIRST_TENANT, as_json: shell.Json = False) -> None:
    """Shows the sentences that a user wants in a chat's summaries, as `withdraw` numbers them."""
    from service.usecases import wishes

    wanted = with_tenant(tenant, lambda engine, by: wishes.read(engine, by, chat))
    if as_json:
        print_json(wanted.wishes)
        return
    for place, sentence in enumerate(wanted.wishes, 1):
        shell.console.print(f"[dim]focus {place}:[/] {escape(visible(sentence))}", highlight=False)


@app.command()
def withdraw(
    chat: ChatId,
    place: Annotated[
        int, typer.Argument(min=1, max=1000, help="As `precis chats focus` numbers them.")
    ],
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Withdraws a sentence that a user wanted in a chat's summaries."""
    from service.usecases import wishes

    changed = with_tenant(
        tenant, lambda engine, by: wishes.withdraw(engine, wishes.Asker(by), chat, place)
    )
    shell.console.print(f"Withdrawn; {len(changed.wishes)} are left.")


@app.command()
def delete(
    chat: ChatId,
    tenant: Tenant = FIRST_TENANT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    for_good: Annotated[
        bool,
        typer.Option("--for-good", help="Store nothing of this chat for a day, if it goes on."),
    ] = False,
) -> None:
    """Deletes a chat with everything that is stored for it."""
    from service.usecases.delete import delete_chat

    if not yes:
        typer.confirm(f"Delete everything that Precis stores for chat {chat}?", abort=True)
    with_tenant(tenant, lambda engine, by: delete_chat(engine, by, chat, for_good=for_good))
    shell.console.print("Deleted.")


def _read(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return (
            sys.stdin.buffer.read().decode()
            if str(path) == "-"
            else path.read_text(encoding="utf-8")
        )
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: {error}") from None


def _pins(path: Path | None) -> list[GivenPin] | None:
    from pydantic import TypeAdapter, ValidationError

    from service.api.chats import PinRequest

    text = _read(path)
    try:
        return (
            None
            if text is None
            else [one.given() for one in TypeAdapter(list[PinRequest]).validate_json(text)]
        )
    except ValidationError as error:
        wrong = error.errors()[0]
        where = "/".join(map(str, wrong["loc"]))
        raise typer.BadParameter(
            f"{path}: {where}: {wrong['msg']}" if where else f"{path}: {wrong['msg']}"
        ) from None


def _print_served(served: ServedCheckpoint) -> None:
    made = served.checkpoint
    follows = _WAITS if served.waits else "Later turns are summarised again."
    shell.console.print(f"Checkpoint {made.id}, version {made.version}, serves now. {follows}")


def _by_others(chat: Overview) -> str:
    if chat.left_alone_at:
        return "left alone, as its user wants"
    return f"compressed by {chat.compactor}" if chat.compactor else ""


def _print_chat(detail: Detail) -> None:
    chat = detail.chat
    shell.console.print(
        f"[bold]{escape(chat.chat_id)}[/]  {escape(chat.model)}, window {chat.window_tokens:,}"
        f"{' (assumed!)' if chat.window_assumed else ''},"
        f" overhead {chat.overhead_tokens:,}"
    )
    for line in _remarks(chat):
        shell.console.print(line, highlight=False)
    if detail.wish_count:
        sentences = "1 sentence" if detail.wish_count == 1 else f"{detail.wish_count} sentences"
        shell.console.print(f"{sentences} of focus; see `precis chats focus`.", highlight=False)
    print_table(shell.console, _branch_table(detail.branches))
    print_table(shell.console, _checkpoint_table(detail.checkpoints))
    print_table(shell.console, _run_table(detail.runs))


def _remarks(chat: Overview) -> Iterator[str]:
    """What is unusual about a chat, as lines of markup."""
    if policy.is_crowded(chat.window_tokens, chat.overhead_tokens):
        crowding = policy.crowding(chat.window_tokens, chat.overhead_tokens)
        yield f"[yellow]{crowding.capitalize()}.[/]"
    if chat.left_alone_at:
        since = f"{chat.left_alone_at:%Y-%m-%d %H:%M} UTC"
        yield f"[yellow]Left alone since {since}, as its user wants; see `precis chats resume`.[/]"
    elif chat.compactor:
        yield escape(f"{_by_others(chat).capitalize()}.")
    if chat.masked:
        yield f"{chat.masked} secrets are masked in its stored texts."
    if chat.expires_at:
        yield f"Is deleted after {chat.expires_at:%Y-%m-%d %H:%M} UTC, unless it is continued."
    if chat.wants_bodies:
        yield _WAITS
    elif chat.last_error:
        yield f"[red]last error[/] (attempt {chat.attempts}): {escape(chat.last_error)}"


def _branch_table(branches: Sequence[Branch]) -> Table:
    table = Table("leaf", "messages", "tokens", "checkpoint", title="branches")
    for leaf in branches:
        made = str(leaf.checkpoint_id or "")
        add_row(table, leaf.leaf_id, str(leaf.messages), f"{leaf.path_tokens:,}", made)
    return table


def _checkpoint_table(checkpoints: Sequence[Made]) -> Table:
    columns = ("id", "version", "serves", "based on", "covers", "tokens", "summary")
    table = Table(*columns, "kind", "by", "made", title="checkpoints")
    for one in checkpoints:
        serves = "yes" if one.serving else ""
        covers = (f"{one.covered_messages} messages", f"{one.covered_tokens:,}", f"{one.tokens:,}")
        made = f"{one.created_at:%Y-%m-%d %H:%M:%S}"
        place = (str(one.id), str(one.version), serves, str(one.parent_id or ""))
        add_row(table, *place, *covers, one.kind, one.summariser, made)
    return table


def _run_table(runs: Sequence[Run]) -> Table:
    counted = ("calls", "read", "written", "published")
    table = Table("run", "outcome", *counted, "started", "request", "reason", title="latest work")
    for run in runs:
        counts = (str(run.calls), f"{run.tokens_read:,}", f"{run.tokens_written:,}")
        started = f"{run.started_at:%Y-%m-%d %H:%M:%S}"
        request = (run.request_id or "")[:_REQUEST_ID]
        told = (str(run.published), started, request, run.reason)
        add_row(table, str(run.id), run.outcome, *counts, *told)
    return table


def _print_summary(shown: Shown) -> None:
    from rich.markdown import Markdown

    made = shown.checkpoint
    # A line stays a line, as the model reads it: the talk has one for each step.
    lines = shown.summary.replace("\n", "  \n")
    # A link is told, not made: what it shows may name another place than where it leads.
    shell.console.print(Markdown(lines, hyperlinks=False))
    state = "" if shown.current else "  [red]Stale: covered messages were edited or deleted.[/]"
    shell.console.print(
        f"[dim]checkpoint {made.id} covers {made.covered_messages} messages,"
        f" {made.covered_tokens:,} tokens,"
        f" up to {escape(made.covered_until)}[/]{state}"
    )
    serves = "serves" if made.serving else "does not serve"
    shell.console.print(
        f"[dim]version {made.version}, {made.kind} by {escape(made.summariser)}, {serves}[/]"
    )
    for name, found in made.verdict.items():
        shell.console.print(f"[dim]{escape(name)}: {escape(_told(found))}[/]", highlight=False)
    if shown.pins:
        print_table(shell.console, _pin_table(shown.pins))
    if shown.talk:
        print_table(shell.console, _talk_table(shown.talk))
    for message in shown.covers:
        line = f"{escape(message.id)}  {message.role:9} {message.tokens:,}"
        shell.console.print(f"[dim]{line}[/]", highlight=False)


def _told(found: Any) -> str:  # noqa: ANN401 - JSON
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _pin_table(pins: Sequence[Pin]) -> Table:
    table = Table("pin", "kind", "text", "said by", "from", "replaced by", title="pins")
    for pin in pins:
        by = f"P{pin.replaced_by}" if pin.replaced_by else ""
        add_row(table, f"P{pin.number}", pin.kind, pin.text, pin.speaker, pin.source, by)
    return table


def _talk_table(talk: Sequence[Said]) -> Table:
    table = Table("sentence", "said by", "text", title="talk")
    for one in talk:
        add_row(table, one.number, one.speaker, one.text)
    return table
