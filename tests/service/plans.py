"""How PostgreSQL carries out the read of the request path."""

from typing import Any

from service.storage.contexts import BRANCHED, CONTINUED, Lookup


async def plans(reads: Any, leaf: str) -> list[str]:
    """Of both statements for `chat-1`, whose newest node is stored as `leaf`; `reads` is a pool or a connection."""
    lookup = Lookup(tenant=1, chat="chat-1", model="model-1", total=12_000, limit=6000, window=8192)
    values = lookup._asdict() | {"leaf": leaf, "ids": [leaf]}
    explained = []
    for statement in (CONTINUED, BRANCHED):
        lines = await reads.fetch(f"explain {statement.sql}", *statement.given(values))
        explained.append("\n".join(line[0] for line in lines))
    return explained
