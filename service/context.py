"""Answers what a request should carry: a stored summary and its boundary, or that none is needed, ready or known.

One indexed read, no LLM, no tokenizer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import asyncpg

from service import serving
from service.planning import Checkpoint
from service.settings import Settings
from service.storage import contexts

_CHARACTERS = 4  # per token, for messages that were not handed over yet


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's path: its length, its newest (id, digest) pairs, leaf first, and their sizes in characters."""

    tenant: int
    chat: str
    window: int | None
    path: serving.Asked
    sizes: Sequence[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """`known` is the newest message of the path that is stored. `summary` comes with `ready` only."""

    status: Literal["ready", "not_needed", "pending", "unknown"]
    known: str | None = None
    before: int = 0
    after: int = 0
    checkpoint: Checkpoint | None = None
    summary: str = ""


async def answer(pool: "asyncpg.Pool[asyncpg.Record]", asked: Asked, settings: Settings) -> Answer:
    """What the request should carry."""
    found = await contexts.find(pool, asked.tenant, asked.chat, asked.path.pairs)
    if found is None:
        return Answer("unknown")
    policy = settings.policy(asked.window or found.window)
    unseen = sum(asked.sizes[: found.place]) // _CHARACTERS
    before = found.path_tokens + unseen + found.overhead
    if before <= policy.apply_at:
        return Answer("not_needed", found.known, before, before)
    chosen = serving.choose(asked.path, before, found.candidates, policy.apply_at)
    if chosen is None:
        return Answer("pending", found.known, before, before)
    after = serving.after(before, chosen)
    return Answer("ready", found.known, before, after, chosen, found.summaries[chosen.id])
