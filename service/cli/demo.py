"""`precis demo`: shows the play of the recorded conversation live, and its figures at the end."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.text import Text

from service.app import Beside
from service.demo.play import Stage, Turn, stage

_BAR = 20  # characters for the largest request
_SHOWN_LINES = 10  # of the summary
_BUILT_IN = "extractive"


@dataclass(frozen=True)
class DemoFigures:
    """What `--json` writes."""

    summariser: str
    window_tokens: int
    conversation_tokens: int
    turns: int
    max_would_send_tokens: int
    max_sent_tokens: int
    checkpoints: int
    llm_calls_on_request_path: int
    summariser_tokens_read: int
    longest_hold_ms: float
    summary: str
    """The summary message of the last turn, as the model gets it."""


async def demonstrate(worker: Beside, console: Console, json_path: Path | None) -> None:
    """Plays, shows, and writes the figures to `json_path`."""
    began = time.monotonic()
    console.print("Starting PostgreSQL, Valkey, the service and a worker …")
    with console.status("starting") as moving:
        async with stage(worker) as set_up:
            turns = await _show(set_up, console, moving, began)
            figures = _figures(set_up, turns)
            moving.update("stopping the servers")
    _conclude(console, figures)
    if json_path:
        await asyncio.to_thread(json_path.write_text, json.dumps(asdict(figures), indent=2) + "\n")


async def _show(set_up: Stage, console: Console, moving: Status, began: float) -> list[Turn]:
    told, by = set_up.told, set_up.runtime.worker_context.by
    built_in = " (built in; set PRECIS_SUMMARISER for an LLM)" if by == _BUILT_IN else ""
    console.print(
        f"Everything is up after {time.monotonic() - began:.1f} s. A conversation of"
        f" {told.tokens:,} tokens, recorded in\nOpen WebUI 0.12.4, for a model with a window of"
        f" {set_up.runtime.settings.window:,}.\nSummaries by {by}{built_in}.\n",
        highlight=False,
    )
    console.print(
        f"[dim]turn  {'without':>7}  {'with':>7}  {'tokens of the request':{_BAR}} {'delay':>6}"
        "  summaries[/]"
    )
    turns: list[Turn] = []
    moving.update("turn 1: request, answer, work in the background")
    async for turn in set_up.play():
        last = turns[-1] if turns else None
        console.print(_line(turn, last, told.tokens), highlight=False, soft_wrap=True)
        turns.append(turn)
        moving.update(f"turn {turn.number + 1}: request, answer, work in the background")
    return turns


def _line(turn: Turn, last: Turn | None, largest: int) -> str:
    """One turn: sizes, what was sent of what would have been as a bar, and the summaries."""
    would, sent = (round(_BAR * size / largest) for size in (turn.would_send, turn.sent))
    bar = f"[green]{'█' * sent}[/][red]{'░' * (would - sent)}[/]{' ' * (_BAR - max(would, sent))}"
    sizes = f"{turn.number:>4}  {turn.would_send:>7,}  {turn.sent:>7,}"
    return f"{sizes}  {bar}  {turn.hold_ms:>4.0f} ms  {_noted(turn, last)}".rstrip()


def _noted(turn: Turn, last: Turn | None) -> str:
    """What a summary covered of this request, and what was written after it."""
    written = turn.work.checkpoints - (last.work.checkpoints if last else 0)
    notes = [f"{turn.covered_messages} covered"] if turn.covered_messages else []
    if written:
        notes.append(f"[cyan]{written} written[/]")
    return ", ".join(notes)


def _figures(set_up: Stage, turns: Sequence[Turn]) -> DemoFigures:
    return DemoFigures(
        summariser=set_up.runtime.worker_context.by,
        window_tokens=set_up.runtime.settings.window,
        conversation_tokens=set_up.told.tokens,
        turns=len(turns),
        max_would_send_tokens=max(turn.would_send for turn in turns),
        max_sent_tokens=max(turn.sent for turn in turns),
        checkpoints=turns[-1].work.checkpoints,
        llm_calls_on_request_path=sum(turn.calls_while_held for turn in turns),
        summariser_tokens_read=turns[-1].work.tokens_read,
        longest_hold_ms=round(max(turn.hold_ms for turn in turns), 2),
        summary=turns[-1].summary,
    )


def _conclude(console: Console, figures: DemoFigures) -> None:
    """Ten lines of the summary, the figures of the README, and where to go from here."""
    lines = figures.summary.splitlines()
    console.print("\n[bold]The summary message of the last turn, shortened[/]")
    for line in [*lines[: _SHOWN_LINES - 2], "…", *lines[-1:]]:
        console.print(Text(line, style="dim"), no_wrap=True, overflow="ellipsis")
    console.print("\n[bold]What it came to[/]")
    for name, value in _rows(figures):
        console.print(f"{name:40}{value}", soft_wrap=True)
    precis = _command()
    console.print("\n[bold]What to do next[/]")
    for command, what in (
        (f"{precis} serve", "http://127.0.0.1:8377"),
        (f"{precis} install-filter --url URL --email ADMIN", "into your Open WebUI"),
        (f"{precis} chats list", "chats and summaries"),
        ("docs/howto/install.md, docs/howto/openwebui.md", "all the rest"),
    ):
        console.print(f"  {command:57}{what}", highlight=False, soft_wrap=True)


def _rows(figures: DemoFigures) -> list[tuple[str, str]]:
    """The rows of the README's first table."""
    read = f"{figures.summariser_tokens_read:,}"
    if figures.summariser == _BUILT_IN:
        read = "0: the built-in summariser asks none"
    window = f"for a window of {figures.window_tokens:,}"
    return [
        ("conversation", f"{figures.conversation_tokens:,} tokens in {figures.turns} turns"),
        ("largest request without Precis", f"{figures.max_would_send_tokens:,} tokens, {window}"),
        ("largest request with Precis", f"{figures.max_sent_tokens:,} tokens"),
        ("LLM calls while a user waits", f"{figures.llm_calls_on_request_path}"),
        ("tokens that a model read for summaries", read),
        ("longest delay of a turn by the filter", f"{figures.longest_hold_ms:.0f} ms"),
    ]


def _command() -> str:
    """How this command is called from here; `precis` when it lies elsewhere."""
    path = os.path.relpath(sys.argv[0])
    here = os.path.basename(path) == "precis" and not path.startswith(os.pardir)
    return path if here else "precis"
