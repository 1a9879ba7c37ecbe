"""Chats with summaries. Out: the leaf; the `Talk`, which had no messages, has them."""

from typing import Any

from service.usecases.compress import WorkerContext, compress
from tests.conftest import Service
from tests.service.harness import Harness, Numbered
from tests.service.talk import Talk, rows


async def summarised(service: Service, talk: Talk, turns: int = 20, least: int = 1) -> str:
    """A chat of so many turns, and then more until code has made `least` summaries of it, in a line; nothing is due."""
    leaf = talk.turns(turns)
    while True:
        await _work_on(talk, leaf, service.runtime.worker_context)
        if len(await rows(service.runtime, "select 1 from checkpoints")) >= least:
            return leaf
        leaf = talk.turns(2, leaf=leaf)


async def by_the_model(harness: Harness, turns: int = 20, **sizes: Any) -> str:
    """A chat of so many turns whose summaries are the model's; nothing is due, and the model was asked nothing yet."""
    leaf = harness.talk.turns(turns)
    await _work_on(harness.talk, leaf, harness.worker_context(**sizes))
    harness.llm.requests.clear()
    harness.llm.default = Numbered()
    return leaf


async def in_one_call(harness: Harness) -> str:
    """A chat with one summary of the model's."""
    return await by_the_model(harness, summariser_window=32_768)


async def _work_on(talk: Talk, leaf: str, worker_context: WorkerContext) -> None:
    await talk.ingest(leaf)
    while await compress(worker_context):
        pass
