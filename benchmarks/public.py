"""`python -m benchmarks.public FOLDER --out DIR [--json FILE]`: public yardsticks, built-in summariser, no model.

FOLDER holds material of others, which is no part of this project:

- `beam/NN.json`, long chats as `benchmarks.talk` reads them, with `beam/NN.questions.json`, what questions need;
- `beam_score.py`, its scorer: whether what a question needs stands in a text, and floors of the same size.

Side constraints (COMPINT) come from the package `conpact`, unpacked into CONPACT (`--conpact`).

DIR gets what the model is sent last, for each chat and window, and a table; FILE the shares of 1 by name.
"""

import argparse
import asyncio
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path as File
from types import ModuleType
from typing import Any

from benchmarks import talk
from benchmarks.played import Path
from service.settings import Settings, load

Json = dict[str, Any]
WINDOWS = {"beam_16k": 16_384, "beam_32k": 32_768}
CONSTRAINED = ("01", "06")  # chats that side constraints are put into
POSITIONS = {"top": 0.0, "middle": 0.5, "bottom": 1.0}
_LONGEST = 430_000  # characters: some 100,000 tokens of a chat are played with side constraints
_CHARACTERS = 4.2  # of a token, for floors of a text's size
_NEAR = 0.8  # of a constraint's words on one line


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description="Public yardsticks: what a model is sent last, and floors of that size."
    )
    parser.add_argument("folder", type=File, help="material of others; see the module")
    parser.add_argument("--out", type=File, default=File("public"), help="folder for texts and table")
    parser.add_argument("--json", type=File, help="file for the shares, by name")
    parser.add_argument("--conpact", type=File, required=True, help="folder with the unpacked package conpact")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    settings = load(summariser="extractive")
    scorer = _module(given.folder / "beam_score.py")
    shares = {
        name: _beam(given.folder / "beam", scorer, window, settings, given.out / name)
        for name, window in WINDOWS.items()
    }
    constraints = _module(given.conpact / "conpact" / "constraints.py")
    chats = [given.folder / "beam" / f"{name}.json" for name in CONSTRAINED]
    shares["compint"] = {"Precis": _compint(chats, constraints, scorer, settings)}
    table = _table(shares)
    print(table)
    (given.out / "public.md").write_text(table + "\n", encoding="utf-8")
    if given.json:
        given.json.write_text(json.dumps({name: rows["Precis"] for name, rows in shares.items()}, indent=1) + "\n")


def _module(file: File) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise SystemExit(f"{file} is not there; see `python -m benchmarks.public --help` for what the folder holds")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _beam(chats: File, scorer: ModuleType, window: int, settings: Settings, out: File) -> dict[str, float]:
    """The share of what questions need that stands in what is sent, and in texts of the same size."""
    out.mkdir(exist_ok=True)
    kept: Counter[str] = Counter()
    asked = 0
    for file in sorted(chats.glob("[0-9][0-9].json")):
        messages = json.loads(file.read_text(encoding="utf-8"))["messages"]
        questions = json.loads(file.with_suffix(".questions.json").read_text(encoding="utf-8"))
        text, _ = asyncio.run(talk.windowed(Path.of(messages), window, settings))
        (out / f"{file.stem}.txt").write_text(text, encoding="utf-8")
        for name, shown in _texts(text, messages, scorer):
            judged = scorer.judged(shown, questions)
            kept[name] += sum(stands for _, stands, _ in judged)
        asked += len(judged)
    return {name: count / asked for name, count in kept.items()}


def _texts(text: str, messages: Sequence[Json], scorer: ModuleType) -> Iterator[tuple[str, str]]:
    """What is sent, the whole chat, and three floors of the same size."""
    whole = "\n".join(message["content"] for message in messages)
    size = len(text) / _CHARACTERS
    yield "Precis", text
    yield "the whole chat", whole
    yield "its newest text", whole[-len(text) :]
    yield "the user's sentences, newest first", scorer.users_newest(messages[:-2], size)
    yield "sentences at random", scorer.rand(messages[:-2], size, len(messages))


def _compint(chats: Sequence[File], constraints: ModuleType, scorer: ModuleType, settings: Settings) -> float:
    """The share of side constraints that stand in what is sent, each put before a message of a user."""
    stand: list[bool] = []
    for file in chats:
        messages = list(_first(json.loads(file.read_text(encoding="utf-8"))["messages"]))
        users = [place for place, message in enumerate(messages) if message["role"] == "user"]
        for share in POSITIONS.values():
            place = users[round(share * (len(users) - 1))]
            for constraint in constraints.SCS:
                asked = constraints.render_sc(constraint["sc"], False, True)
                told = {**messages[place], "content": f"{asked}\n{messages[place]['content']}"}
                played = [*messages[:place], told, *messages[place + 1 :]]
                text, _ = asyncio.run(talk.windowed(Path.of(played), WINDOWS["beam_16k"], settings))
                stand.append(_stands(constraint["sc"], text, scorer))
    return sum(stand) / len(stand)


def _first(messages: Sequence[Json]) -> Iterator[Json]:
    """As many of the messages as a chat of that length has."""
    size = 0
    for message in messages:
        size += len(message["content"])
        if size > _LONGEST:
            return
        yield message


def _stands(constraint: str, text: str, scorer: ModuleType) -> bool:
    if _plain(constraint) in _plain(text):
        return True
    return bool(scorer.kept_sentence(constraint, scorer.sentences(text), _NEAR))


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("’", "'")).strip().lower()


def _table(shares: dict[str, dict[str, float]]) -> str:
    rows = list(next(iter(shares.values())))
    lines = ["| stands in what is sent | " + " | ".join(shares) + " |", "|---" * (len(shares) + 1) + "|"]
    for row in rows:
        cells = [f"{100 * found[row]:.0f} %" if row in found else "" for found in shares.values()]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
