"""`precis demo`: shows the play of the recorded conversation live, and its figures at the end."""

from service.app import BackgroundService
from service.cli.output import say
from service.demo.play import Turn, stage

_SHOWN_LINES = 9  # of the summary


async def demonstrate(worker: BackgroundService) -> list[Turn]:
    """Plays, and says what happens; `worker` starts the background work beside the service."""
    say("Starting PostgreSQL, Valkey, the service and a worker …")
    turns: list[Turn] = []
    async with stage(worker) as set_up:
        window = set_up.runtime.settings.window
        summariser = set_up.runtime.worker_context.summariser
        by = summariser.name if summariser else "code; in Open WebUI, each chat's own model writes"
        say(
            f"A conversation of {set_up.told.tokens:,} tokens, recorded in Open WebUI 0.12.4.\n"
            f"Summaries by {by}.\n"
        )
        async for turn in set_up.play():
            done = turn.status or f"{turn.sent:,} tokens, as they are"
            say(f"turn {turn.number:>2}  {turn.hold_ms:>3.0f} ms  {done}")
            turns.append(turn)
        conversation = f"{set_up.told.tokens:,} tokens in {len(turns)} turns"
    lines = turns[-1].summary.splitlines()
    say("\nThe summary in the last request begins:")
    for line in lines[:_SHOWN_LINES]:
        say(f"  {line[:76]}")
    say("\nWhat it came to:")
    for name, value in _rows(turns, conversation, window):
        say(f"{name:40}{value}")
    say("\nNext: `precis serve`; README.md says how Open WebUI gets the filter.")
    return turns


def _rows(turns: list[Turn], conversation: str, window: int) -> list[tuple[str, str]]:
    """The rows of the README's first table."""
    without = max(turn.would_send for turn in turns)
    return [
        ("conversation", conversation),
        ("largest request without Precis", f"{without:,} tokens, for a window of {window:,}"),
        ("largest request with Precis", f"{max(turn.sent for turn in turns):,} tokens"),
        (
            "longest delay of a turn by the filter",
            f"{max(turn.hold_ms for turn in turns):.0f} ms",
        ),
    ]
