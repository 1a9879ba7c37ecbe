"""How much of what a question needs is found in a chat: `python -m benchmarks.recall FOLDER`.

FOLDER has chats of BEAM, which is no part of this project: `NN.json` as `benchmarks.talk` reads them, and
`NN.questions.json`, which says what messages each question needs.
"""

import argparse
import json
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.recall import parts, ranking
from service.text import languages
from service.transcript import Stored, parse

_RESULTS = 10
_OPENING = 60  # messages that tell the language


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the messages that answer it, by their places in the chat."""

    question: str
    evidence: frozenset[int]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="What ten results of a recall show.")
    parser.add_argument("folder", type=Path, help="folder with chats of BEAM")
    folder = parser.parse_args().folder
    shares: list[float] = []
    for file in sorted(folder.glob("[0-9][0-9].json")):
        messages = json.loads(file.read_text(encoding="utf-8"))["messages"]
        questions = json.loads(file.with_suffix(".questions.json").read_text(encoding="utf-8"))
        asked = _asked(messages, [one for kind in questions.values() for one in kind])
        shares += found(messages, asked)
    print(f"questions {len(shares)}")
    print(f"of their evidence, ten results and what stands beside them show {statistics.mean(shares):.1%}")
    print(f"they show some of it for {statistics.mean(map(bool, shares)):.1%}")


def _asked(messages: Sequence[Stored], questions: Sequence[dict[str, Any]]) -> Iterator[Asked]:
    places = {int(str(message["id"])[1:]): place for place, message in enumerate(messages)}
    for one in questions:
        # Numbers in a list, or in several by what they are evidence of.
        numbers = map(int, re.findall(r"\d+", json.dumps(one.get("source_chat_ids"))))
        evidence = frozenset(places[number] for number in numbers if number in places)
        if evidence:
            yield Asked(str(one["question"]), evidence)


def found(messages: Sequence[Stored], asked: Iterator[Asked]) -> Iterator[float]:
    """The share of each question's evidence among the results and what stands beside them."""
    path = [parts.parts(parse(stored)) for stored in messages]
    language = languages.detect("\n".join(str(stored.get("content") or "") for stored in messages[:_OPENING]))
    for one in asked:
        shown: set[int] = set()
        for hit in ranking.ranked(path, one.question, language, _RESULTS):
            shown.update((hit.message, *hit.beside))
        yield len(one.evidence & shown) / len(one.evidence)


if __name__ == "__main__":
    main()
