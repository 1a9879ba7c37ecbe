"""The filter on what a real Open WebUI 0.12.4 gave to one: it changes nothing by itself, and hands over what it saw."""

import copy
from typing import Any

import pytest

from filter_stub import precis_filter
from tests.builders import Capture, Hook, capture, scenarios
from tests.conftest import Service
from tests.filter.chat import filter_of, ingested, keyed, stored_path
from tests.filter.host import Host
from tests.filter.wire import Wire

# A message of these was edited or continued afterwards, and rows tell how it ended.
CHANGED_LATER = {
    ("e2_edit_in_place", "007_outlet"),
    ("e2_edit_in_place", "015_outlet"),
    ("x5_messages_in_a_row", "015_outlet"),
    ("x5_messages_in_a_row", "039_outlet"),
}


def arguments(hook: Hook, metadata: dict[str, Any]) -> dict[str, Any]:
    return {"__metadata__": metadata, "__model__": {"id": hook.body.get("model")}}


async def is_stored(service: Service, chat_id: str, path: list[precis_filter.Node]) -> bool:
    """Whether the service has this path."""
    return await stored_path(service, chat_id, path[-1].id) == await keyed(service, path)


@pytest.mark.asyncio(loop_scope="module")
async def test_without_a_summary_nothing_changes_and_every_path_is_handed_over(service: Service, tap: Wire) -> None:
    """A saved chat by outlet; a chat without ids by request, folded."""
    for scenario in scenarios():
        recorded = capture(scenario)
        host = Host({chat: dict(rows) for chat, rows in recorded.rows.items()})
        async with filter_of(tap.url, service.filter_key, temporary_hours=1, cuts=False) as loaded:
            await replay(service, tap, loaded, host, recorded)
        own = {"Context compacted by Open WebUI itself"} if scenario == "r_native_compaction" else set()
        assert set(host.statuses) == own, scenario


async def replay(service: Service, tap: Wire, loaded: Any, host: Host, recorded: Capture) -> None:
    asked: list[Any] = []  # as inlet has them; `request` has retrieved texts too
    metadata: dict[object, dict[str, Any]] = {}  # Open WebUI hands the same object to both hooks of an answer
    for hook in recorded.hooks:
        where = f"{recorded.name}/{hook.name}"
        body = copy.deepcopy(hook.body)
        if hook.hook == "inlet":
            metadata.pop(hook.metadata.get("message_id"), None)
            asked = hook.conversation
        handed = metadata.setdefault(hook.metadata.get("message_id"), {**hook.metadata, "user_id": "user-1"})
        tap.seen.clear()
        with host.importable():
            if hook.hook == "inlet":
                assert await loaded.inlet(body, __event_emitter__=host.emit, **arguments(hook, handed)) is body
            elif hook.hook == "request":
                assert await loaded.request(body, __event_emitter__=host.emit, **arguments(hook, handed)) is body
            else:
                assert await loaded.outlet(body, __user__={"id": "user-1"}, **arguments(hook, handed)) is body
            await ingested(loaded)
        assert body == hook.body, where
        if hook.hook == "outlet" and hook.saved and hook.chat_id in recorded.rows:
            rows = dict(recorded.rows[hook.chat_id])
            nodes = precis_filter.chain(precis_filter.branch(rows, hook.messages[-1]["id"]))
            assert [node.id for node in nodes] == [message["id"] for message in hook.messages]
            assert await is_stored(service, hook.chat_id, nodes), where
        elif hook.hook == "request" and not hook.saved and tap.asked:
            newest = precis_filter.newest_turn(asked)
            nodes = precis_filter.chain(precis_filter.grouped(asked[: newest + 1]))
            is_replaced = recorded.name == "o_replace_messages"  # between the hooks, by the filter that recorded
            assert is_replaced or await is_stored(service, handed[precis_filter.STASH]["chat"], nodes), where
        else:
            assert tap.asked in ([], ["POST context"]), where


@pytest.mark.parametrize("scenario", scenarios())
def test_rows_at_inlet_and_messages_at_outlet_give_the_same_digests(scenario: str) -> None:
    recorded = capture(scenario)
    for hook in recorded.of("outlet"):
        if not hook.saved or hook.chat_id not in recorded.rows:
            continue
        from_rows = precis_filter.chain(
            precis_filter.branch(dict(recorded.rows[hook.chat_id]), hook.messages[-1]["id"])
        )
        from_messages = precis_filter.chain(hook.messages)
        same = [node.digest for node in from_rows] == [node.digest for node in from_messages]
        assert same is ((scenario, hook.name) not in CHANGED_LATER), hook.name
        assert [(node.id, node.role) for node in from_rows] == [(node.id, node.role) for node in from_messages]
