"""The whole way with a real small LLM: hand-over by HTTP, worker, prompt, gate, checkpoint, context; what became of it.

    python -m benchmarks.fidelity.real_llm [--model 0.5b|1.5b] [--json docs/real-llm.json]

A generated chat of some 20,000 tokens is handed over at once, as a first import is. Figures and summary are written as
they are.
"""

import argparse
import asyncio
import json
import os
import platform
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from benchmarks import stage
from benchmarks.fidelity.generator import Chat, build
from benchmarks.fidelity.local_llm import SERVER, WEIGHTS, Weights, serving
from benchmarks.fidelity.scoring import Source, score
from service.cli import shell
from service.names import FIRST_TENANT
from service.runtime import Urls
from service.storage import keys
from service.storage.database import connect
from service.text import tokens
from service.transcript import native_tokens
from tests.service.talk import Talk

Json = dict[str, Any]
_SEED = 1
_TOKENS = 20_000
_WINDOW, _SUMMARISER = 16_384, 8_192
_PATIENCE = 5_400  # seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """The chat as operators see it in the end, what a request would carry, and how long the work took."""

    detail: Json
    context: Json
    seconds: float


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Summarises a generated chat with a real small LLM on this machine.")
    parser.add_argument("--model", choices=WEIGHTS, default="0.5b")
    parser.add_argument("--json", type=Path, default=Path("docs/real-llm.json"))
    given = parser.parse_args()
    found = shell.run(measure(WEIGHTS[given.model]))
    given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(found["about"], json.dumps(found["figures"], indent=1, ensure_ascii=False), found["summary"], sep="\n\n")


async def measure(weights: Weights) -> Json:
    """Runs it once."""
    chat = _shortened(build(_SEED))
    threads = os.cpu_count() or 1
    async with serving(weights, _SUMMARISER, threads) as llm, stage.servers() as urls, stage.database(urls) as own:
        settings = {
            "PRECIS_SUMMARISER": "openai",
            "PRECIS_SUMMARISER_URL": llm,
            "PRECIS_SUMMARISER_MODEL": weights.file,
            "PRECIS_SUMMARISER_WINDOW": str(_SUMMARISER),
            "PRECIS_SUMMARISER_TIMEOUT": "1800",
            "PRECIS_DEBOUNCE": "0",
        }
        code = f"import os; os.environ.update({settings!r}); from service.cli import app; app()"
        async with stage.process("-c", code, "serve", urls=own) as port:
            outcome = await _handed_over(chat, f"http://127.0.0.1:{port}", own)
    return _told(chat, weights, threads, outcome)


def _shortened(chat: Chat) -> Chat:
    """Its first turns, of some 20,000 tokens together."""
    size, kept = 0, []
    for message in chat.messages:
        size += native_tokens(message)
        if size > _TOKENS:
            break
        kept.append(message)
    return replace(chat, messages=kept[: len(kept) // 2 * 2])


async def _handed_over(chat: Chat, url: str, urls: Urls) -> Outcome:
    async with connect(urls.database) as database, database.engine.begin() as connection:
        ours = await keys.create(connection, FIRST_TENANT, "filter", "benchmark")
        operators = await keys.create(connection, FIRST_TENANT, "operator", "benchmark")
    async with _client(url, ours) as client, _client(url, operators) as operator:
        talk, above = Talk(client, window=_WINDOW), None
        for message in chat.messages:
            talk.rows[message["id"]] = message | {"parentId": above}
            above = message["id"]
        assert above
        began = time.monotonic()
        await talk.ingest(above)
        detail = await _done(operator, talk.chat)
        return Outcome(detail, await talk.ask(above), time.monotonic() - began)


def _client(url: str, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


async def _done(operator: httpx.AsyncClient, chat: str) -> Json:
    """The chat's details when no round of work is left, or only one to make a degraded summary anew later."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            detail: Json = (await operator.get(f"/v1/chats/{chat}")).raise_for_status().json()
            seen, due = detail["chat"], detail["chat"]["due_at"]
            later = due and datetime.fromisoformat(due) > datetime.now(UTC) + timedelta(seconds=60)
            if detail["checkpoints"] and not seen["working"] and (later or not due):
                return detail
            await asyncio.sleep(2)


def _told(chat: Chat, weights: Weights, threads: int, outcome: Outcome) -> Json:
    made = outcome.detail["checkpoints"]
    last = max(made, key=lambda one: (one["covered_messages"], one["id"]))
    summary = outcome.context["summary"] or ""
    covered = {message["id"] for message in chat.messages[: last["covered_messages"]]}
    found = score(Source.of(chat, covered), summary)
    kept = ", ".join(f"{type_} {some} of {every}" for type_, (some, every) in found.survival.items())
    spent = outcome.detail["spent"]
    figures = {
        "conversation": f"{len(chat.messages)} messages, {sum(map(native_tokens, chat.messages)):,} tokens",
        "window of the model that is served": f"{_WINDOW:,} tokens",
        "window of the summariser": f"{_SUMMARISER:,} tokens",
        "covered": f"{last['covered_messages']} messages, {last['covered_tokens']:,} tokens",
        "summary message": f"{tokens.count(summary):,} tokens",
        "checkpoints": f"{len(made)}: {', '.join(str(one['verdict'].get('outcome')) for one in made)}",
        "why replies were rejected": "; ".join(_reasons(made)) or "none was",
        "lines that the gate dropped": sum(len(one["verdict"].get("dropped", ())) for one in made),
        "calls": spent["calls"],
        "tokens that the LLM read": f"{spent['tokens_read']:,}",
        "tokens that it wrote": f"{spent['tokens_written']:,}",
        "time": f"{outcome.seconds:.0f} s",
        "kept": kept,
        "values right": f"{found.values - len(found.wrong)} of {found.values}",
        "superseded values that stand unmarked": f"{len(found.stale)} of {found.superseded}",
    }
    about = (
        f"{weights.name}, by {SERVER.replace('==', ' ')} (llama.cpp) on {threads} threads of a {platform.machine()}"
        f" CPU, {time.strftime('%Y-%m-%d')}; embedded PostgreSQL and Valkey. Run once, by `./scripts/real-llm`."
    )
    return {"about": about, "figures": figures, "verdicts": [one["verdict"] for one in made], "summary": summary}


def _reasons(made: list[Json]) -> list[str]:
    return list(dict.fromkeys(reason[:160] for one in made for reason in one["verdict"].get("reasons", ())))


if __name__ == "__main__":
    main()
