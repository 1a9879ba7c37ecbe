"""Whether one look-up shows the exact row or sentence that is asked for, by words of it and not by its id.

    python -m benchmarks.recall_details [CHATS] --json FILE    # CHATS has stored chats, which are not ours

- `rows`: made conversations in which tools returned tables as CSV, Markdown, JSON, YAML or columns; a question is some
  cells of a row, half of the time with words of the call. People talk about the same names, places and states.
- `tables`: the rows of the recorded conversation's results, asked for in the same way.
- `said`: sentences that somebody said once in a long message, while others use the same words one by one; a question
  has some of its words, some in another form or by another word.

Each has two halves of other words, languages, subjects and tables: weights were chosen on `chosen`, and `held_out` is
what is reported. `1` counts what the first answer of the tool shows, `2` what it shows with the next page.
"""

import argparse
import csv
import json
import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import console
from service.demo.play import load_recording
from service.processes import recalls
from service.recall import parts
from service.storage import codec
from service.summarising.markup import make_harmless
from service.transcript import Stored, parse, split_steps

HALVES = ("chosen", "held_out")
_ROOM = 2000  # tokens of an answer
_CHATS, _TURNS, _TABLES, _ROWS, _SAID = 2, 150, 8, 40, 20  # of a made conversation
_ASKED = 4  # rows of a table that are asked for
_NEAR = 6  # messages of users that have the words of a sentence one by one
_UNSTORED = 20  # messages of a chat whose words are made when somebody asks
_LONGEST_ROW = 400  # characters: of a longer row no search shows all
_HASH = re.compile(r"[0-9a-f]{10,}|.*[0-9a-f]{12}.*|[\d.]+|", re.IGNORECASE)
_MARKDOWN_RULE = re.compile(r"\|[ :|-]+\|")
_WORDS = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class World:
    """Of what a conversation is made; see `recall_details.toml`."""

    words: Mapping[str, Sequence[str]]
    tables: Sequence[tuple[str, Sequence[str], Sequence[str]]]
    chatter: Sequence[str]
    about: Sequence[str]
    details: Sequence[tuple[str, str]]
    blank: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question and the exact text that answers it."""

    question: str
    detail: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: as it stands there, and its cells."""

    text: str
    cells: tuple[str, ...]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("chats", type=Path, nargs="?", help="folder with stored chats, NAME.json")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--lost", action="store_true", help="print what is not found")
    given = parser.parse_args()
    figures: dict[str, str] = {}
    for name, cases in _cases(given.chats):
        found = [_found(path, one, lost=given.lost) for path, wanted in cases for one in wanted]
        for calls in (1, 2):
            count = sum(1 for call in found if call and call <= calls)
            share = 100 * count / max(len(found), 1)
            figures[f"{name} {calls}"] = f"{count} of {len(found)} = {share:.0f} %"
    for name, figure in figures.items():
        console.print(f"{name:24} {figure}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _cases(chats: Path | None) -> Iterator[tuple[str, list[tuple["Searched", list[Wanted]]]]]:
    for half, name in enumerate(HALVES):
        rows, said = [], []
        for number, world in enumerate(_worlds()[half::2]):
            for seed in range(_CHATS):
                path, of_rows, of_said = _made(world, random.Random(f"{name} {number} {seed}"))
                rows.append((path, of_rows))
                said.append((path, of_said))
        yield f"rows {name}", rows
        yield f"said {name}", said
    recorded = list(_branch(load_recording().rows, load_recording().leaf))
    for half, name in enumerate(HALVES):
        yield f"tables {name}", [(Searched.of(recorded), _of_tables(recorded, half))]
    for file in sorted(chats.glob("*.json")) if chats else ():
        messages = json.loads(file.read_text(encoding="utf-8"))["messages"]
        wanted = [*_of_tables(messages, 0), *_of_tables(messages, 1)]
        if wanted:
            yield f"{file.stem}", [(Searched.of(messages), wanted)]


def _worlds() -> list[World]:
    worlds: list[World] = []
    for one in tomllib.loads(_WORDS.read_text(encoding="utf-8"))["worlds"]:
        words = {kind: some.split() for kind, some in one["words"].items()}
        tables = [(tool, heads.split(), columns.split()) for tool, heads, columns in one["tables"]]
        worlds.append(World(words, tables, one["chatter"], one["about"], one["details"], one["blank"]))
    return worlds


@dataclass(frozen=True, slots=True)
class Searched:
    """A chat as a look-up reads it."""

    bodies: Mapping[int, bytes]
    calls_above: Sequence[int]

    @classmethod
    def of(cls, messages: Sequence[Stored]) -> "Searched":
        """A chat that is stored."""
        bodies: dict[int, bytes] = {}
        calls_above: list[int] = []
        calls = 0
        for place, stored in enumerate(messages):
            message = parse(stored)
            words = parts.make_parts(message) if place >= _UNSTORED else None
            bodies[place] = codec.pack(stored, words)
            calls_above.append(calls)
            calls += sum(len(step.calls) for step in split_steps(message))
        return cls(bodies, calls_above)


def _found(path: Searched, wanted: Wanted, *, lost: bool) -> int:
    """With which call of the tool the detail is shown, 1 or 2; 0 if with neither."""
    line: int | None = 1
    detail = _flat(make_harmless(wanted.detail))
    for call in (1, 2):
        if line is None:
            break
        finding = recalls.search(path.bodies, path.calls_above, wanted.question, line, _ROOM, True)
        if detail in _flat(finding.text):
            return call
        if lost and call == 1:
            console.print(f"? {wanted.question}\n= {detail}\n{finding.text}\n", markup=False, highlight=False)
        line = finding.line
    return 0


def _flat(text: str) -> str:
    return " ".join(text.split())


# ---- conversations that are made


def _made(world: World, dice: random.Random) -> tuple[Searched, list[Wanted], list[Wanted]]:
    """A chat, and what is asked about its rows and about what was said."""
    tables = [_table(world, dice) for _ in range(_TABLES)]
    every = [row for _, rows, _ in tables for row in rows]
    said = _said(world, dice)
    spoken = [text for text, _ in said]
    near = [text for _, texts in said for text in texts]
    dice.shuffle(near)
    near = near[: _TURNS * 3 // 4]
    messages: list[Stored] = []
    for turn in range(_TURNS):
        for role in ("user", "assistant"):
            told = [_chat(world, dice) for _ in range(dice.randint(2, 16))]
            if spoken and (role == "assistant" or not near) and dice.random() < 0.5:
                told.insert(dice.randrange(len(told) + 1), spoken.pop().detail)
            text = world.blank.join(told)
            if near and role == "user":
                text = near.pop()
            messages.append({"id": f"{role[0]}{turn}", "role": role, "content": text})
        if turn < _TABLES:
            called, _, text = tables[turn]
            messages[-1] |= {"output": _output(f"c{turn}", called, text, str(messages[-1]["content"]))}
    asked: list[Wanted] = []
    for called, rows, _ in tables:
        asked += _asked(called, rows, every, dice)
    return Searched.of(messages), asked, [one for one, _ in said if one not in spoken]


def _chat(world: World, dice: random.Random) -> str:
    return dice.choice(world.chatter).format(**_words(world, dice))


def _words(world: World, dice: random.Random) -> dict[str, str]:
    """A word of each kind, and two numbers."""
    chosen = {name: dice.choice(words) for name, words in world.words.items()}
    return chosen | {"n": str(dice.randint(12, 98)), "v": str(dice.randint(1100, 9999))}


def _said(world: World, dice: random.Random) -> list[tuple[Wanted, list[str]]]:
    """Sentences that are asked for, each with chatter that has their words too."""
    said: dict[str, tuple[Wanted, list[str]]] = {}
    while len(said) < _SAID:
        sentence, question = dice.choice(world.details)
        words = _words(world, dice)
        wanted = Wanted(question.format(**words), sentence.format(**words))
        asked = wanted.question.split()
        near: list[str] = []
        for _ in range(_NEAR):
            some = dice.sample(asked, len(asked) - dice.randint(0, 1))
            near.append(world.blank.join(dice.choice(world.about).format(word=word) for word in some))
        said.setdefault(wanted.question, (wanted, near))
    return list(said.values())


def _table(world: World, dice: random.Random) -> tuple[str, list[Row], str]:
    """The name of a tool's call, the rows of its result, and the result."""
    called, heads, columns = dice.choice(world.tables)
    records: list[dict[str, str]] = []
    for number in range(_ROWS):
        row = {heads[0]: f"{called[:2].upper()}-{dice.randint(1000, 9999)}{number}"}
        for head, column in zip(heads[1:], columns, strict=True):
            row[head] = _cell(column, world, dice)
        records.append(row)
    form = dice.choice((_as_csv, _as_markdown, _as_lines, _as_json, _as_pretty_json, _as_yaml))
    texts, result = form(records)
    rows = [Row(text, tuple(record.values())) for text, record in zip(texts, records, strict=True)]
    return called, rows, result


def _cell(column: str, world: World, dice: random.Random) -> str:
    match column:
        case "amount":
            return f"{dice.randint(1, 19)},{dice.randint(100, 999)}.{dice.randint(10, 99)}"
        case "day":
            return f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
        case _:
            return dice.choice(world.words[column])


Records = Sequence[Mapping[str, str]]
Written = tuple[list[str], str]


def _as_csv(records: Records) -> Written:
    texts = [",".join(f'"{cell}"' if "," in cell else cell for cell in one.values()) for one in records]
    return texts, "\n".join([",".join(records[0]), *texts])


def _as_markdown(records: Records) -> Written:
    texts = [f"| {' | '.join(one.values())} |" for one in records]
    rule = f"|{' --- |' * len(records[0])}"
    return texts, "\n".join([f"| {' | '.join(records[0])} |", rule, *texts])


def _as_lines(records: Records) -> Written:
    texts = ["  ".join(f"{cell:14}" for cell in one.values()).strip() for one in records]
    return texts, "\n".join(["  ".join(f"{head:14}" for head in records[0]), *texts])


def _as_json(records: Records) -> Written:
    texts = [json.dumps(one, ensure_ascii=False) for one in records]
    return [text[1:-1] for text in texts], f"[{', '.join(texts)}]"


def _as_pretty_json(records: Records) -> Written:
    texts = [json.dumps(one, ensure_ascii=False, indent=2)[1:-1].strip() for one in records]
    return texts, json.dumps(records, ensure_ascii=False, indent=2)


def _as_yaml(records: Records) -> Written:
    texts = ["\n  ".join(f"{head}: {cell}" for head, cell in one.items()) for one in records]
    return texts, "\n".join(f"- {text}" for text in texts)


def _output(identity: str, name: str, result: str, text: str) -> list[dict[str, object]]:
    """An answer's call of a tool, the result, and what was said then, as Open WebUI stores them."""
    returned = [{"type": "input_text", "text": result}]
    said = [{"type": "output_text", "text": text}]
    return [
        {"type": "function_call", "call_id": identity, "name": name, "status": "completed", "arguments": "{}"},
        {"type": "function_call_output", "call_id": identity, "output": returned},
        {"type": "message", "role": "assistant", "content": said},
    ]


# ---- questions about tables


def _asked(called: str, rows: Sequence[Row], every: Sequence[Row], dice: random.Random) -> Iterator[Wanted]:
    """Questions for some rows by the cells behind the first, of which no other row has the same."""
    for row in dice.sample(rows, min(_ASKED, len(rows))):
        cells = [cell for cell in row.cells[1:] if 2 < len(cell) < 40 and not _HASH.fullmatch(cell)]
        cells += [cell for cell in row.cells[1:] if 1 < len(cell) <= 2 and not cell.isascii()]
        dice.shuffle(cells)
        for count in (2, 3, 4):
            chosen = list(dict.fromkeys(cells))[:count]
            same = sum(1 for one in every if set(chosen) <= set(one.cells))
            if same == 1 and len(chosen) == count:
                words = [cell.replace(",", "") if dice.random() < 0.3 else cell for cell in chosen]
                about = [re.sub(r"[_-]", " ", called)] if dice.random() < 0.5 else []
                yield Wanted(" ".join([*about, *words]), row.text)
                break


def _branch(rows: Mapping[str, Stored], leaf: str | None) -> Iterator[Stored]:
    path: list[Stored] = []
    while leaf:
        path.append(rows[leaf])
        leaf = rows[leaf].get("parentId")
    return reversed(path)


def _of_tables(messages: Sequence[Stored], half: int) -> list[Wanted]:
    """Questions about every second table of a chat."""
    tables: list[tuple[str, list[Row]]] = []
    for stored in messages:
        for step in split_steps(parse(stored)):
            for call in step.calls:
                rows = [row for row in _rows(call.result.text) if len(row.text) <= _LONGEST_ROW]
                if len(rows) >= 4:
                    tables.append((call.call.name, rows))
    every = [row for _, rows in tables for row in rows]
    wanted: list[Wanted] = []
    for number, (called, rows) in enumerate(tables):
        if number % 2 == half:
            wanted += _asked(called, rows, every, random.Random(number))
    return wanted


def _rows(text: str) -> list[Row]:
    """The rows of a result, if it is a table."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if value is not None:
        return list(_json_rows(value, text))
    lines = text.splitlines()
    if lines and lines[0].startswith("|"):
        rows = [line for line in lines[1:] if line.startswith("|") and not _MARKDOWN_RULE.fullmatch(line)]
        return [Row(row, tuple(cell.strip() for cell in row.strip("|").split("|"))) for row in rows]
    cells = list(csv.reader(lines))
    if len(cells) > 3 and len(cells[0]) > 2 and len({len(row) for row in cells}) == 1:
        return [Row(line, tuple(row)) for line, row in zip(lines[1:], cells[1:], strict=True)]
    return []


def _json_rows(value: object, text: str) -> Iterator[Row]:
    """The objects or arrays of the lists of a JSON value, as they stand in its text."""
    if isinstance(value, dict):
        for one in value.values():
            yield from _json_rows(one, text)
    elif isinstance(value, list) and value and all(isinstance(one, (dict, list)) for one in value):
        for one in value:
            cells = one.values() if isinstance(one, dict) else one
            flat = [cell for cell in cells if not isinstance(cell, (dict, list))]
            if len(flat) < len(cells):
                yield from _json_rows(one, text)
            else:
                written = _as_written(one, text)
                if written:
                    yield Row(written, tuple(map(str, flat)))


def _as_written(one: object, text: str) -> str:
    for indent in (None, 1, 2, 4):
        written = json.dumps(one, ensure_ascii=False, indent=indent)
        inside = _flat(written[1:-1])
        if inside in _flat(text):
            return inside
    return ""


if __name__ == "__main__":
    main()
