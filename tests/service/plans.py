"""How PostgreSQL carries out the read of the request path."""

from typing import Any

from service.planning.policy import APPLY_AT, APPLY_PARTS, parts_of
from service.storage.contexts import BRANCHED, CONTINUED


async def plans(reads: Any, leaf: str) -> list[str]:
    """Of both statements for `chat-1`, whose newest message is `leaf`; `reads` is a pool or a connection."""
    values = {
        "tenant": 1,
        "chat": "chat-1",
        "window": None,
        "apply_parts": parts_of(APPLY_AT),
        "all_parts": APPLY_PARTS,
        "room": None,
        "beside": None,
        "leaf": "digest",
        "above": "digest above",
        "question": 0,
        "ids": [leaf],
        "digests": ["digest"],
        "new": [0, 0],
    }
    explained = []
    for statement in (CONTINUED, BRANCHED):
        lines = await reads.fetch(f"explain {statement.sql}", *statement.given(values))
        explained.append("\n".join(line[0] for line in lines))
    return explained
