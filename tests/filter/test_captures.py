"""Filter and service on what a real Open WebUI 0.12.4 gave: nothing is changed, and what was said is stored once.

So a request shows the same path as the turns that were handed over: a row that a request alone has shown would have no
id of the host's.
"""

import copy
from typing import Any

import pytest

from tests.builders import Capture, capture, scenarios
from tests.conftest import Service
from tests.filter.chat import filter_of, ingested
from tests.filter.host import Host
from tests.service.harness import emptied
from tests.service.talk import rows


@pytest.mark.parametrize("scenario", scenarios())
async def test_what_was_said_is_stored_once_and_nothing_changes(roomy: Service, scenario: str) -> None:
    recorded = capture(scenario)
    host = Host({chat: dict(found) for chat, found in recorded.rows.items()})
    async with filter_of(roomy.url, roomy.filter_key, temporary_hours=1) as loaded:
        await replay(roomy, loaded, host, recorded)
    compacted = {"Context compacted by Open WebUI itself"} if scenario == "r_native_compaction" else set()
    assert set(host.statuses) == compacted
    untold = "select 1 from messages join chats on chats.id = chat_id where host_id is null and expires_at is null"
    assert not await rows(roomy.runtime, untold)
    await emptied(roomy)


async def replay(service: Service, loaded: Any, host: Host, recorded: Capture) -> None:
    metadata: dict[object, dict[str, Any]] = {}  # Open WebUI hands the same object to all hooks of an answer
    for hook in recorded.hooks:
        body = copy.deepcopy(hook.body)
        if hook.hook == "inlet":
            metadata.pop(hook.metadata.get("message_id"), None)
        handed = metadata.setdefault(hook.metadata.get("message_id"), {**hook.metadata, "user_id": "user-1"})
        given: dict[str, Any] = {"__metadata__": handed, "__user__": {"id": "user-1"}}
        if hook.hook != "outlet":
            given |= {"__model__": {"id": hook.body.get("model")}, "__event_emitter__": host.emit}
        with host.importable():
            assert await getattr(loaded, hook.hook)(body, **given) is body
            await ingested(loaded)
            await service.stored()
        assert body == hook.body, hook.name
