"""Telling the service of an event, as the filter's function does, and what it tells of a chat."""

from tests.conftest import Service
from tests.service.talk import Talk


async def tell(service: Service, kind: str, **event: object) -> None:
    """Tells of an event, as `precis_events.py` does."""
    response = await service.as_events.post("/v1/events", json={"type": kind} | event)
    assert response.status_code == 202, response.text


def fingerprints(talk: Talk) -> dict[str, str]:
    """Those of all messages of a chat, as Open WebUI has them now."""
    parents = {one["parentId"] for one in talk.rows.values()}
    leaves = [identity for identity in talk.rows if identity not in parents]
    return {identity: fingerprint for leaf in leaves for identity, fingerprint, _ in talk.chain(leaf)}
