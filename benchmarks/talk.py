"""`python -m benchmarks.talk CHATS --out DIR [--budget 20 | --window 16384] [--summariser NAME]`: real chats, played.

CHATS holds NAME.json: `{"messages": [stored messages, root to leaf]}`. For each chat DIR gets

- NAME.txt: the last summary message; with `--window` all that the model is sent in the last request;
- NAME.json: `covered_tokens`, `summary_tokens`, `summariser_tokens` (what an LLM read and wrote); with an LLM also
  `outcomes` of all rounds, and `rejections`: why replies were rejected.

`--budget`: five rounds at turn ends; the last two messages stay as tail, and a summary as rendered has at most that
share of what the last one covers. `--window`: the service's own planner and budgets, after each turn, as a worker
would.
An LLM is configured as for the service (`PRECIS_SUMMARISER_URL`, `PRECIS_SUMMARISER_MODEL`, …).
"""

import argparse
import asyncio
import json
from math import ceil
from pathlib import Path as File
from typing import Any

import httpx

from benchmarks.played import Path, Played, every_round
from service.clients import summarisers
from service.planning import policy
from service.planning.policy import Policy
from service.request.fit import Piece, fit_messages, is_question, make_note
from service.request.record import make_record_messages
from service.settings import Settings, load
from service.summarising.reading import Summariser
from service.text import tokens
from service.transcript import Native, count_sent_tokens, read_text, unfold_messages

ROUNDS, TAIL = 5, 2
_COMMAND = "What Precis makes of real chats: for each chat NAME.txt and NAME.json in DIR."


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=_COMMAND)
    parser.add_argument("chats", type=File, help="folder of NAME.json")
    parser.add_argument("--out", type=File, required=True, help="folder for NAME.txt and NAME.json")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--budget", type=float, help="per cent of what is covered (default: 20)")
    how.add_argument("--window", type=int, help="tokens of the model's window")
    parser.add_argument("--summariser", choices=("extractive", "openai", "ollama"), default="extractive")
    given = parser.parse_args()
    asyncio.run(_all(given))


async def _all(given: argparse.Namespace) -> None:
    settings = load(summariser=given.summariser)
    given.out.mkdir(parents=True, exist_ok=True)
    async with httpx.AsyncClient() as http:
        asked = summarisers.make_summariser(settings, http) if given.summariser != "extractive" else None
        for file in sorted(given.chats.glob("*.json")):
            path = Path.of(json.loads(file.read_text(encoding="utf-8"))["messages"])
            if given.window:
                text, figures = await windowed(path, given.window, settings, asked)
            else:
                share = (given.budget if given.budget is not None else 20) / 100
                text, figures = await bounded(path, share, settings, asked)
            (given.out / f"{file.stem}.txt").write_text(text, encoding="utf-8")
            (given.out / f"{file.stem}.json").write_text(json.dumps(figures, indent=1) + "\n")
            print(file.stem, *(f"{name} {value}" for name, value in figures.items()))


async def bounded(
    path: Path, share: float, settings: Settings, asked: Summariser | None = None
) -> tuple[str, dict[str, Any]]:
    """The last of five summaries of so large a share of what they cover, and its figures."""
    policy = every_round(Policy.sized(summariser_window=settings.summariser_window), TAIL)
    played = Played(path, asked)
    ends = path.rounds(ROUNDS, TAIL)
    # One room for all rounds, as a window gives it: a share of what is covered in the end.
    room = ceil(path.tokens(ends[-1]) * share) if ends else 0
    for end in ends:
        # Planning leaves the turn that begins at `end`, of which two messages are enough.
        await played.round(end + TAIL, policy, room)
    return played.shown.text, figures_of(played)


async def windowed(
    path: Path, window: int, settings: Settings, asked: Summariser | None = None
) -> tuple[str, dict[str, Any]]:
    """What the model is sent for the last user message of a chat, and the figures of its last summary."""
    policy = Policy.sized(window, settings.summariser_window)
    asking = [place for place, node in enumerate(path.nodes) if node.role == "user"]
    last = asking[-1] if asking else len(path.nodes) - 1
    played = Played(path, asked)
    for end in path.turns:
        if end <= last:
            await played.round(end, policy)
    return _shown(_sent(played, last + 1, window)), figures_of(played)


def figures_of(played: Played) -> dict[str, Any]:
    """As they are written beside a text."""
    made = played.shown.made
    figures: dict[str, Any] = {
        "covered_tokens": made.covered_tokens if made else 0,
        "summary_tokens": made.tokens if made else 0,
        "summariser_tokens": played.spent,
    }
    if played.summariser:
        figures |= {"outcomes": played.outcomes, "rejections": played.reasons}
    return figures


def _sent(played: Played, messages: int, window: int) -> list[Native]:
    """The request as the service makes it: above the bound, the summary stands for what it covers; the rest is cut."""
    path, made = played.path, played.shown.made
    start = 0
    head: list[Native] = []
    if made and path.tokens(messages) > policy.apply_at(window):
        start, head = made.messages, make_record_messages(played.shown.text, recall=False)
    native = [*head, *unfold_messages(list(path.messages[start:messages]))]
    fitted = fit_messages(
        [Piece(one, count_sent_tokens([one]), None) for one in native],
        room=policy.find_request_room(window, 0, 0),
        opening=len(head),
        newest=max((place for place, one in enumerate(native) if is_question(one)), default=len(native)),
        step=window // 8,
        note=make_note(recall=False),
        count=tokens.count,
    )
    return [piece.message for piece in fitted.pieces]


def _shown(messages: list[Native]) -> str:
    """A request as text, for readers and scorers."""
    blocks = []
    for message in messages:
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        called = [f"{call['name']}({call['arguments']})" for call in calls]
        blocks.append("\n".join([f"[{message['role']}]", read_text(message), *called]))
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    main()
