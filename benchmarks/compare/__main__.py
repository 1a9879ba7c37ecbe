"""`python -m benchmarks.compare [--turns 60] [--window 16000] [--only WORD] [--json PATH] [--docs DIR]`."""

import argparse
import json
import time
from collections import Counter
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


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Precis beside Open WebUI's own compaction, on a real Open WebUI.")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--window", type=int, default=16_000)
    parser.add_argument("--only", default="", help="variants whose name has this")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--docs", type=Path, help="write comparison.md and its plot into this folder")
    given = parser.parse_args()
    said = scenario(given.turns)
    variants = []
    for variant in _VARIANTS:
        if given.only in variant.name:
            began = time.monotonic()
            variants.append(to_json(variant, shell.run(play(variant, said, given.window))))
            print(f"{variant.name}: {time.monotonic() - began:.0f} s", flush=True)
    found = {
        "turns": given.turns,
        "window": given.window,
        "version": NEWEST,
        "kinds": dict(Counter(item.kind for item in said.items)),
        "variants": variants,
    }
    print(page.table(found))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if given.docs:
        page.write(found, given.docs)


if __name__ == "__main__":
    main()
