"""What a model would find of what its request lacks: two look-ups for each item, made as the tool makes them.

In: the filter's valves, the stash that the filter left in a request, and items. Out: the kinds of those found.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from benchmarks.compare.scenario import Item, flat
from filter_stub.precis_filter import Filter
from filter_stub.precis_recall import FILTER, METADATA_KEY, Tools

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
    loaded = Filter()
    loaded.valves = Filter.Valves(**valves)
    functions = SimpleNamespace(FUNCTIONS={FILTER: loaded})
    request = SimpleNamespace(app=SimpleNamespace(state=functions))
    async with httpx.AsyncClient(trust_env=False) as loaded._http:
        return [item.kind for item in items if await _finds(request, stash, item)]


async def _finds(request: SimpleNamespace, stash: Json, item: Item) -> bool:
    told = await _asked(request, stash, {"query": item.asked}, 1)
    if item.alive(flat(told)):
        return True
    hit = _HIT.search(told)
    if hit is None:
        return False
    told = await _asked(request, stash, {"ref": hit["ref"]}, int(hit["line"] or 1))
    return item.alive(flat(told))


async def _asked(request: SimpleNamespace, stash: Json, words: Json, line: int) -> str:
    # Each item is a question of its own: its calls are not counted with those of others.
    metadata = {METADATA_KEY: dict(stash)}
    return await Tools().precis_recall(**words, line=line, __metadata__=metadata, __request__=request)
