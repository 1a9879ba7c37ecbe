"""What a model would find of what its request lacks: two look-ups for each item, made as the tool makes them.

In: the tool's valves, the stash that the filter left in a request, and items. Out: the kinds of those found.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.compare.scenario import Item, flat
from filter_stub.precis_recall import Tools, looked_up

Json = dict[str, Any]
# A hit as the first call tells it: its reference, and where in a result it stands.
_HIT = re.compile(r"^(?P<ref>[TM]\d+) [^\n]*?(?:, lines (?P<line>\d+)–\d+ of \d+: |: )", re.MULTILINE)


def stash(path: Path, answer: str) -> Json:
    """What the filter knew of the first request for an answer."""
    noted = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    first: Json = next(one for one in noted if one and one["reply"] == answer)
    return first


async def found(valves: Json, stash: Json, items: Sequence[Item]) -> list[str]:
    """The kinds of the items that are found; none where the model was not offered the tool."""
    if not stash["offered"]:
        return []
    tools = Tools()
    tools.valves = Tools.Valves(**valves)
    async with httpx.AsyncClient(trust_env=False) as tools.http:
        return [item.kind for item in items if await _finds(tools, stash, item)]


async def _finds(tools: Tools, stash: Json, item: Item) -> bool:
    told = await _asked(tools, stash, {"query": item.asked}, 1)
    if item.alive(flat(told)):
        return True
    hit = _HIT.search(told)
    if hit is None:
        return False
    told = await _asked(tools, stash, {"ref": hit["ref"]}, int(hit["line"] or 1))
    return item.alive(flat(told))


async def _asked(tools: Tools, stash: Json, words: Json, line: int) -> str:
    # Each item is a question of its own: its calls are not counted with those of others.
    return await looked_up(tools, dict(stash), {"query": "", "ref": "", "grep": ""} | words, line, None)
