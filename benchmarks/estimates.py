"""How near the filter's estimate comes to a count: what it says of a text, by what `service.text.tokens` counts.

The prices of `COSTS` were fitted to other texts than these. Prose (what packages say of themselves), code and JSON are
those of the installed packages, logs are made here, and other languages are two short texts each. Both halves of a
kind's texts are shown, and how far single texts are off.
"""

import ast
import json
import random
import sysconfig
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from timeit import repeat

from benchmarks.report import Figure, Report, command
from filter_stub.precis_filter import tokens_in
from service.text import tokens

TEXTS = 40, 12  # of a kind, and with --quick
_NEAR = 0.85, 1.15
_SIZE = 6000  # characters of a text: a message
_CHAT = 400_000  # characters
_WORDS = (
    "connection accepted",
    "from upstream",
    "worker",
    "request finished",
    "cache miss for key",
    "retry after timeout",
)


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    figures, facts = [], []
    for kind, found in kinds(TEXTS[quick]).items():
        halves = ratio(found[::2]), ratio(found[1::2])
        singles = sorted(ratio([text]) for text in found)
        name = f"estimate_{kind.lower().replace(' ', '_')}"
        figures.append(Figure(name, f"estimate ÷ count, {kind}", ratio(found), _NEAR[1], _NEAR[0]))
        spread = f"single texts {singles[0]:.2f} to {singles[-1]:.2f}"
        facts.append(f"{kind}: {halves[0]:.2f} and {halves[1]:.2f} in the halves of {len(found)} texts, {spread}")
    figures.append(Figure("estimate_400k_ms", f"an estimate of {_CHAT:,} characters of prose, ms", _milliseconds(), 5))
    return Report("The filter's estimate", figures, facts)


def ratio(texts: Sequence[str]) -> float:
    """What is estimated for these messages together, by what they count."""
    return sum(map(tokens_in, texts)) / sum(tokens.count(text) + tokens.MESSAGE_TOKENS for text in texts)


def kinds(most: int) -> dict[str, Sequence[str]]:
    """So many texts of each kind."""
    library = Path(sysconfig.get_paths()["stdlib"])
    packages = Path(sysconfig.get_paths()["purelib"])
    modules = [path.read_text(encoding="utf-8") for path in sorted(library.glob("[a-z]*.py"))]
    schemas = sorted(packages.glob("check_jsonschema/**/vendor/*.json"))
    objects = [json.loads(path.read_text(encoding="utf-8")) for path in schemas]
    found = {
        "prose": _descriptions(),
        "docstrings": [_docstrings(text) for text in modules],
        "code": modules,
        "JSON": [json.dumps(one) for one in objects],
        "indented JSON": [json.dumps(one, indent=2) for one in objects],
        "logs": [_log(random.Random(number)) for number in range(most)],
    }
    cut = {kind: _some(texts, most) for kind, texts in found.items()}
    return cut | tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))


def _some(texts: Sequence[str], most: int) -> list[str]:
    """So many that are long enough, each cut to a message out of its middle."""
    long = [text for text in texts if len(text) > _SIZE // 4]
    starts = {text: max(len(text) - _SIZE, 0) // 2 for text in random.Random(1).sample(long, min(most, len(long)))}
    return [text[start : start + _SIZE] for text, start in starts.items()]


def _descriptions() -> list[str]:
    found = sorted(metadata.distributions(), key=lambda one: one.name)
    return [one.metadata["Description"] or "" for one in found]


def _docstrings(source: str) -> str:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(ast.parse(source)) if isinstance(node, documented))
    return "\n\n".join(filter(None, found))


def _log(dice: random.Random) -> str:
    """Lines as servers write them, in one of three manners."""
    now, style, lines = datetime(2026, 11, 22, 7, tzinfo=UTC), dice.randrange(3), []
    for _ in range(90):
        now += timedelta(milliseconds=dice.randrange(90_000))
        said, number = " ".join(dice.choices(_WORDS, k=dice.randint(2, 5))), dice.randrange(100_000)
        level, address = dice.choice(("INFO", "WARNING", "ERROR")), f"10.{number % 250}.{number % 199}.{number % 97}"
        lines.append(
            (
                f"{now:%Y-%m-%d %H:%M:%S},{number % 1000:03} {level} [worker-{number % 8}] jobs: {said} id={number}",
                f'{address} - - [{now:%d/%b/%Y:%H:%M:%S} +0000] "GET /{said.replace(" ", "/")} HTTP/1.1" 200 {number}',
                f"{now:%Y-%m-%d %H:%M:%S}.{number % 1000:03} UTC [{number}] LOG:  {said}: {number / 1000:.3f} ms",
            )[style]
        )
    return "\n".join(lines)


def _milliseconds() -> float:
    text = "".join(_descriptions())
    chat = (text * (1 + _CHAT // len(text)))[:_CHAT]
    return min(repeat(lambda: tokens_in(chat), number=5, repeat=10)) / 5 * 1000


if __name__ == "__main__":
    command(measure)
