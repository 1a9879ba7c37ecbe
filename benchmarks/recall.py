"""How much of what a question needs is found in a chat, and how long that takes.

    python -m benchmarks.recall [FOLDER] --json FILE    # FOLDER has chats with questions, which are not ours

- LoCoMo (Maharana et al., 2024), `locomo10.json`, has ten long conversations of two people with questions, and for each
  the turns that answer it. Its adversarial questions, which have no answer, are left out.
- BEAM (2026), `NN.json` and `NN.questions.json`, has long chats with an assistant, each message a part by itself.

`r10` is the share of the messages that answer a question among ten results, each with the messages beside it, in the
mean of questions; `r10_alone` among the messages that were found, without those beside them; `any10` the share of
questions for which at least one of the ten results is in the right part of the conversation.

Time is that of the whole use case on a real PostgreSQL, with texts of 130 tokens, on chats of several lengths. Without
the folder it alone is measured.
"""

import argparse
import asyncio
import gc
import hashlib
import json
import random
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import stage
from benchmarks.conversation import grown, turns
from benchmarks.report import console
from service.processes import Texts
from service.recall import parts, ranking
from service.storage.database import Database, connect
from service.storage.keys import Operator
from service.text import languages
from service.transcript import Stored, parse
from service.usecases import recall
from service.usecases.recall import RecallQuestion

LOCOMO = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
"""SHA-256 of the published locomo10.json; another file is measured all the same, and said to be another."""
_ADVERSARIAL = 5
_TURN = re.compile(r"D(\d+):0*(\d+)")
_AMONG = (5, 10, 20)
_LENGTHS = (200, 1000, 2000, 10_000)
_SIZE = 130  # tokens of a message
_QUERIES, _QUICK = 100, 20


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the messages that answer it, by their places in the chat."""

    question: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation. `part_of` says in which part each message is."""

    messages: Sequence[Stored]
    part_of: Sequence[int]
    asked: Sequence[Asked]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="What a recall finds, and how long it takes.")
    parser.add_argument("folder", type=Path, nargs="?", help="folder with chats of LoCoMo or BEAM")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--quick", action="store_true", help="fewer questions of the clock")
    given = parser.parse_args()
    found = quality(list(_chats(given.folder))) if given.folder else {}
    found |= asyncio.run(_timed(_QUICK if given.quick else _QUERIES))
    for name, value in found.items():
        console.print(f"{name:20} {value}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def quality(chats: Sequence[Chat]) -> dict[str, float]:
    """Shares of evidence among so many results, in the mean of all questions."""
    scores: dict[str, list[float]] = {}
    for chat in chats:
        parsed = [parse(stored) for stored in chat.messages]
        path = [parts.make_parts(message) for message in parsed]
        said = "\n".join(str(stored.get("content") or "") for stored in chat.messages[:60])
        language = languages.detect(said)
        for one in chat.asked:
            hits = ranking.rank_passages(path, one.question, language, max(_AMONG))
            places = [hit.message for hit in hits]
            for most in _AMONG:
                alone = set(places[:most])
                beside = alone.union(*(hit.neighbours for hit in hits[:most]))
                wanted = one.evidence
                scores.setdefault(f"r{most}", []).append(len(wanted & beside) / len(wanted))
                scores.setdefault(f"r{most}_alone", []).append(len(wanted & alone) / len(wanted))
            ten = {place for hit in hits[:10] for place in (hit.message, *hit.neighbours)}
            parts_found = {chat.part_of[place] for place in ten}
            parts_wanted = {chat.part_of[place] for place in one.evidence}
            scores.setdefault("any10", []).append(float(bool(parts_found & parts_wanted)))
    means = {name: round(100 * statistics.mean(values), 1) for name, values in sorted(scores.items())}
    return {"questions": float(len(scores["any10"]))} | means


def _chats(folder: Path) -> Iterator[Chat]:
    if (folder / "locomo10.json").is_file():
        yield from _locomo(folder / "locomo10.json")
    for file in sorted(folder.glob("[0-9][0-9].json")):
        messages = json.loads(file.read_text(encoding="utf-8"))["messages"]
        questions = json.loads(file.with_suffix(".questions.json").read_text(encoding="utf-8"))
        yield _beam(messages, [one for kind in questions.values() for one in kind])


def _beam(messages: Sequence[Stored], questions: Sequence[dict[str, Any]]) -> Chat:
    places = {int(str(message["id"])[1:]): place for place, message in enumerate(messages)}
    asked: list[Asked] = []
    for one in questions:
        # Numbers in a list, or in several by what they are evidence of.
        numbers = map(int, re.findall(r"\d+", json.dumps(one.get("source_chat_ids"))))
        evidence = frozenset(places[number] for number in numbers if number in places)
        if evidence:
            asked.append(Asked(str(one["question"]), evidence))
    return Chat(messages, range(len(messages)), asked)


def _locomo(file: Path) -> Iterator[Chat]:
    raw = file.read_bytes()
    if hashlib.sha256(raw).hexdigest() != LOCOMO:
        console.print(f"{file} is not the file that is known as LoCoMo's; it is measured all the same.")
    for sample in json.loads(raw):
        yield _conversation(sample["conversation"], sample["qa"])


def _conversation(said: dict[str, Any], questions: Sequence[dict[str, Any]]) -> Chat:
    """One conversation: the first speaker as the user, the other as the assistant."""
    messages: list[Stored] = []
    part_of: list[int] = []
    places: dict[tuple[int, int], int] = {}
    numbers = sorted(int(name[8:]) for name in said if re.fullmatch(r"session_\d+", name))
    for number in numbers:
        for turn in said[f"session_{number}"]:
            found = _TURN.search(turn["dia_id"])
            if found:
                places[int(found[1]), int(found[2])] = len(messages)
            shown = f" [shares an image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"{turn['speaker']}: {turn['text']}{shown}"
            role = "user" if turn["speaker"] == said["speaker_a"] else "assistant"
            messages.append({"id": turn["dia_id"], "role": role, "content": text})
            part_of.append(number)
    return Chat(messages, part_of, list(_questions(questions, places)))


def _questions(questions: Sequence[dict[str, Any]], places: dict[tuple[int, int], int]) -> Iterator[Asked]:
    for one in questions:
        named = _TURN.findall(" ".join(map(str, one.get("evidence") or ())))
        evidence = {places.get((int(part), int(turn))) for part, turn in named} - {None}
        if one.get("category") != _ADVERSARIAL and evidence:
            yield Asked(str(one["question"]), frozenset(place for place in evidence if place is not None))


async def _timed(queries: int) -> dict[str, float]:
    """Milliseconds of a query on chats of several lengths."""
    found: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        urls = await stack.enter_async_context(stage.database(servers))
        _, tenant = await stage.filter_key(urls.database)
        database = await stack.enter_async_context(connect(urls.database))
        texts = await stack.enter_async_context(aclosing(Texts(1, 60, 1 << 30)))
        gc.freeze()  # as `precis serve` does
        for length in _LENGTHS:
            words = await _filled(database, texts, tenant, length)
            await stage.execute(urls.database, "analyze")  # as PostgreSQL does by itself within a minute
            times = await _times(database, texts, tenant, length, words, queries)
            found[f"p95_ms_{length}"] = round(times[int(len(times) * 0.95) - 1], 1)
            found[f"p50_ms_{length}"] = round(statistics.median(times), 1)
        found["ratio_2000_over_1000"] = round(found["p50_ms_2000"] / found["p50_ms_1000"], 2)
    return found


async def _filled(database: Database, texts: Texts, tenant: int, length: int) -> list[str]:
    """Stores a chat of so many messages; returns words that stand in it."""
    messages = list(grown(random.Random(length), sizes=turns(length // 2, _SIZE, _SIZE)))
    await stage.ingest_into(database, texts, tenant, f"chat-{length}", messages, 131_072)
    return [word for one in messages for word in one.text.split() if len(word) > 4]


async def _times(
    database: Database, texts: Texts, tenant: int, length: int, words: Sequence[str], queries: int
) -> list[float]:
    """Sorted milliseconds of so many queries of six words each, after one that is not counted."""
    rng, by = random.Random(1), Operator(tenant, "benchmark")
    times: list[float] = []
    for _ in range(queries + 1):
        question = RecallQuestion(query=" ".join(rng.sample(words, 6)))
        begun = time.perf_counter()
        found = await recall.recall_for_operator(database.engine, texts, by, f"chat-{length}", question, True)
        times.append(1000 * (time.perf_counter() - begun))
        assert found.status == "found"
    return sorted(times[1:])


if __name__ == "__main__":
    main()
