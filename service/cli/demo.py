"""`precis demo`: shows the play of the recorded conversation live, and its figures at the end."""

import asyncio
import json
import os
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from service.api.app import Beside
from service.demo.play import Stage, Turn, stage
from service.runtime import Runtime
from service.settings import PREFIX

FLEET = 2  # workers
_BAR = 24  # characters for the largest request


@dataclass(frozen=True)
class Figures:
    """What `--json` writes. Times in milliseconds, but for `seconds`."""

    summariser: str
    conversation_tokens: int
    turns: int
    max_would_send_tokens: int
    max_sent_tokens: int
    first_checkpoint_turn: int | None
    max_sent_tokens_from_first_checkpoint: int
    checkpoints: int
    prefix_changes: int
    llm_calls_on_request_path: int
    summariser_calls: int
    summariser_tokens_read: int
    summariser_tokens_written: int
    summariser_tokens_per_chat_token: float
    longest_hold_ms: float
    median_hold_ms: float
    seconds: float


async def demonstrate(
    worker: Beside, console: Console, json_path: Path | None, *, fleet: bool
) -> None:
    """Plays, shows, and writes the figures to `json_path`.

    A `fleet` has its workers in processes of their own.
    """
    began = time.monotonic()
    workers = f"{FLEET} worker processes" if fleet else "a worker"
    console.print(f"Starting PostgreSQL, Valkey, the service and {workers} …")
    async with stage(worker_processes if fleet else worker, fleet=fleet) as set_up:
        turns = await _show(set_up, console, began)
        figures = _figures(set_up, turns, time.monotonic() - began)
        _conclude(console, turns, figures)
    if json_path:
        await asyncio.to_thread(json_path.write_text, json.dumps(asdict(figures), indent=2) + "\n")


@asynccontextmanager
async def worker_processes(runtime: Runtime) -> AsyncIterator[None]:
    """`precis worker`, as often as the fleet of the demonstration has it."""
    outside = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(f"{PREFIX}DATA_DIR")
    }
    urls = {
        f"{PREFIX}DATABASE_URL": runtime.urls.database,
        f"{PREFIX}REDIS_URL": runtime.urls.redis,
    }
    command = (sys.executable, "-c", "from service.cli import app; app()", "worker")
    started = [
        await asyncio.create_subprocess_exec(
            *command,
            env=outside | urls | {f"{PREFIX}DEBOUNCE": str(runtime.settings.debounce)},
            stdout=DEVNULL,
        )
        for _ in range(FLEET)
    ]
    try:
        yield
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*(process.wait() for process in started))


async def _show(set_up: Stage, console: Console, began: float) -> list[Turn]:
    told, by = set_up.told, set_up.runtime.worker_context.by
    built_in = " (built in; set PRECIS_SUMMARISER for an LLM)" if by == "extractive" else ""
    console.print(
        f"A conversation of [bold]{told.tokens:,}[/] tokens, recorded in Open WebUI 0.12.4,"
        " for a model with a window"
        f" of {set_up.runtime.settings.window:,}.\nSummaries by [bold]{by}[/]{built_in}."
        f" Everything is up after {time.monotonic() - began:.1f} s.\n"
    )
    console.print(
        f"[dim]{'turn':>4}  {'would send':>10}  {'sent':>8}"
        f"  {'':{_BAR}}  {'held':>7}  background[/]"
    )
    largest = told.tokens
    turns: list[Turn] = []
    async for turn in set_up.play():
        console.print(
            _line(turn, turns[-1] if turns else None, largest), highlight=False, soft_wrap=True
        )
        turns.append(turn)
    return turns


def _line(turn: Turn, last: Turn | None, largest: int) -> str:
    """One turn: sizes, what was sent of what would have been as a bar, and the work after it."""
    would, sent = (round(_BAR * size / largest) for size in (turn.would_send, turn.sent))
    bar = f"[green]{'█' * sent}[/][red]{'░' * (would - sent)}[/]{' ' * (_BAR - max(would, sent))}"
    covered = f"{turn.covered_messages} messages covered" if turn.covered_messages else ""
    calls = turn.work.calls - (last.work.calls if last else 0)
    made = turn.work.checkpoints - (last.work.checkpoints if last else 0)
    after = f"[cyan]{calls} calls → {made} checkpoints[/]" if calls else ""
    notes = "  ".join(note for note in (covered, after) if note)
    sizes = f"{turn.number:>4}  {turn.would_send:>10,}  {turn.sent:>8,}"
    return f"{sizes}  {bar}  {turn.hold_ms:>4.0f} ms  {notes}"


def _figures(set_up: Stage, turns: Sequence[Turn], seconds: float) -> Figures:
    work, tokens = turns[-1].work, set_up.told.tokens
    first = next((turn.number for turn in turns if turn.work.checkpoints), None)
    holds = [turn.hold_ms for turn in turns]
    return Figures(
        summariser=set_up.runtime.worker_context.by,
        conversation_tokens=tokens,
        turns=len(turns),
        max_would_send_tokens=max(turn.would_send for turn in turns),
        max_sent_tokens=max(turn.sent for turn in turns),
        first_checkpoint_turn=first,
        max_sent_tokens_from_first_checkpoint=max(
            turn.sent for turn in turns if first and turn.number >= first
        ),
        checkpoints=work.checkpoints,
        prefix_changes=sum(one.summary != two.summary for one, two in pairwise(turns)),
        llm_calls_on_request_path=sum(turn.calls_while_held for turn in turns),
        summariser_calls=work.calls,
        summariser_tokens_read=work.tokens_read,
        summariser_tokens_written=work.tokens_written,
        summariser_tokens_per_chat_token=round(work.tokens_read / tokens, 4),
        longest_hold_ms=round(max(holds), 2),
        median_hold_ms=round(statistics.median(holds), 2),
        seconds=round(seconds, 1),
    )


def _conclude(console: Console, turns: Sequence[Turn], figures: Figures) -> None:
    console.print()
    console.print(
        Panel(
            Text(turns[-1].summary),
            title="the summary message of the last turn, as the model gets it",
        )
    )
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, value in asdict(figures).items():
        table.add_row(
            name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value)
        )
    console.print(table)
