"""`precis demo`: plays the recorded conversation, and shows its figures at the end."""

from service.app import BackgroundService
from service.cli.output import say
from service.demo.play import Turn, set_stage

_SUMMARY_LINES = 9


async def play_demo(worker: BackgroundService) -> list[Turn]:
    """Plays the conversation; `worker` starts the background work beside the service."""
    say("Starting PostgreSQL, Valkey, the service and a worker …")
    turns: list[Turn] = []
    async with set_stage(worker) as set_up:
        window, tokens = set_up.runtime.settings.window, set_up.conversation.tokens
        summariser = set_up.runtime.worker_context.summariser
        by = summariser.name if summariser else "code; in Open WebUI, each chat's own model writes"
        say(
            f"A conversation of {tokens:,} tokens, recorded in Open WebUI 0.12.4.\n"
            f"Summaries by {by}.\n"
        )
        async for turn in set_up.play():
            done = turn.status or f"{turn.sent:,} tokens, as they are"
            say(f"turn {turn.number:>2}  {turn.hold_ms:>3.0f} ms  {done}")
            turns.append(turn)
    say("\nThe summary in the last request begins:")
    for line in turns[-1].summary.splitlines()[:_SUMMARY_LINES]:
        say(f"  {line[:76]}")
    messages = max(turn.messages for turn in turns)
    without = max(turn.would_send for turn in turns)
    with_precis = max(turn.sent for turn in turns)
    delay = max(turn.hold_ms for turn in turns)
    say(
        "\nFigures, with calls and results of tools counted as messages:\n"
        f"conversation                   {tokens:,} tokens, {messages} messages,"
        f" {len(turns)} turns\n"
        f"largest request without Precis {without:,} tokens, for a window of {window:,}\n"
        f"largest request with Precis    {with_precis:,} tokens\n"
        f"longest delay by the filter    {delay:.0f} ms\n"
        "\nNext: `precis serve`; README.md says how Open WebUI gets the filter."
    )
    return turns
