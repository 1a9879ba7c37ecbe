"""`python -m benchmarks.compare [--turns 60] [--window 16000] [--only WORD] [--json PATH] [--docs DIR]`."""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare import page
from benchmarks.compare.scenario import scenario
from benchmarks.compare.stand import Variant, play, to_json
from service.cli import shell
from tests.e2e.versions import NEWEST

_VARIANTS = (
    Variant("Open WebUI's own, summariser of 1,500", 1500, own=True),
    Variant("Precis, the same summariser", 1500),
    Variant("Open WebUI's own, summariser of 700", 700, own=True),
    Variant("Precis, summariser of 700", 700),
    Variant("Precis, no summariser", 0),
    Variant("Precis, no pause between turns", 1500, pause=False),
)
_PLAIN = (
    Variant("Open WebUI's own", 1500, own=True, builtin=False, edits=False),
    Variant("Precis", 1500, builtin=False, edits=False),
)
_SIZES = ((8_192, 60), (16_384, 60), (32_768, 60), (16_384, 160))
"""Windows in tokens, and turns."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Precis beside Open WebUI's own compaction, on a real Open WebUI.")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--window", type=int, default=16_000)
    parser.add_argument("--only", default="", help="variants whose name has this")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--docs", type=Path, help="write comparison.md and its plot into this folder")
    given = parser.parse_args()
    chosen = [variant for variant in _VARIANTS if given.only in variant.name]
    plain = [variant for variant in _PLAIN if given.only in variant.name]
    found = {
        "turns": given.turns,
        "window": given.window,
        "version": NEWEST,
        "kinds": dict(Counter(item.kind for item in scenario(given.turns).items)),
        "variants": _play_all(chosen, given.window, given.turns),
        "by_window": [one for window, turns in _SIZES for one in _play_all(plain, window, turns)],
    }
    print(page.table(found), page.table_by_window(found), sep="\n\n")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if given.docs:
        page.write(found, given.docs)


def _play_all(variants: Sequence[Variant], window: int, turns: int) -> list[dict[str, object]]:
    found = []
    for variant in variants:
        began = time.monotonic()
        played = shell.run(play(variant, scenario(turns), window))
        found.append(to_json(variant, played) | {"window": window})
        print(f"{variant.name}, {window:,}, {turns} turns: {time.monotonic() - began:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    main()
