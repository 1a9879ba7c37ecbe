"""Telling the service of an event, as the filter's function does, and what it tells of a chat."""

import hashlib
import json

from tests.conftest import Service
from tests.service.talk import Talk


async def tell(service: Service, kind: str, **event: object) -> None:
    """Tells of an event, as `precis_events.py` does."""
    response = await service.as_events.post("/v1/events", json={"type": kind} | event)
    assert response.status_code == 202, response.text


async def tell_edit(service: Service, talk: Talk) -> None:
    """Tells which messages a chat has now."""
    await tell(service, "chat.updated", chat_id=talk.chat, fingerprints=fingerprints(talk))


def fingerprints(talk: Talk) -> dict[str, str]:
    """Those of all messages of a chat, as Open WebUI has them now."""
    said = {name: [row["role"], row.get("output") or row["content"]] for name, row in talk.rows.items()}
    packed = {name: json.dumps(one, ensure_ascii=False, separators=(",", ":")) for name, one in said.items()}
    return {name: hashlib.sha256(one.encode()).hexdigest()[:32] for name, one in packed.items()}
