"""
title: Meter
description: Measures what other filters cost in this process. For benchmarks only.
version: 1.0.0
"""

# A filter that `benchmarks.inlet` installs into Open WebUI 0.12.4. In: an order, as JSON in its valve. Out: a JSON file
# with the times of calling other filters, one after the other, on the real body of the turn that is under way, through
# Open WebUI's own `process_filter_functions`. It changes nothing of the turn.

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

Json = dict[str, Any]


class Filter:
    """What Open WebUI calls, before any other filter."""

    class Valves(BaseModel):
        """`order` is JSON: `root` of the benchmarks, `out`, `rounds`, `calls`, `variants`: name: arguments."""

        order: str = ""
        priority: int = -1000

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def inlet(
        self,
        body: Json,
        __metadata__: Json | None = None,
        __request__: object = None,
        __user__: Json | None = None,
        __model__: Json | None = None,
        __event_emitter__: object = None,
    ) -> Json:
        """Measures, when there is an order."""
        if self.valves.order:
            given = {"__user__": __user__, "__model__": __model__, "__event_emitter__": __event_emitter__}
            await measure(json.loads(self.valves.order), __request__, body, __metadata__ or {}, given)
        return body


async def measure(order: Json, request: Any, body: Json, metadata: Json, given: Json) -> None:  # noqa: ANN401
    """Writes {"lengths": {variant: messages that it left}, "medians": {variant: [µs of each round]}}."""
    sys.path.append(order["root"])
    from benchmarks.rounds import interleaved

    variants = {name: await variant(request, body, metadata, given, *what) for name, what in order["variants"].items()}
    lengths = {name: len((await call())["messages"]) for name, call in variants.items()}
    medians = await interleaved(variants, rounds=order["rounds"], calls=order["calls"])
    write(Path(order["out"]), {"lengths": lengths, "medians": medians})


def write(path: Path, found: Json) -> None:
    """Whoever waits for the file finds it whole."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(found))
    unfinished.rename(path)


async def variant(
    request: Any,  # noqa: ANN401
    body: Json,
    metadata: Json,
    given: Json,
    identity: str,
    alone: bool = False,
) -> Callable[[], Awaitable[Json]]:
    """One call of a filter's `inlet` and `request`, as Open WebUI makes them.

    `alone`: its valves were read before, so that only its own work is done.
    """
    from open_webui.models.functions import Functions
    from open_webui.utils.filter import FilterContext, process_filter_functions

    function = await Functions.get_function_by_id(identity)
    context = FilterContext()

    async def call() -> Json:
        fresh = dict(metadata)
        sent = {**body, "messages": list(body["messages"]), "metadata": fresh}
        extra = {**given, "__request__": request, "__metadata__": fresh}
        this = context if alone else FilterContext()
        for hook in ("inlet", "request"):
            sent = (await process_filter_functions(request, this, [function], hook, sent, extra))[0]
        return sent

    return call
