"""Windows of any size beside the page's own tools, whatever the provider says it counted."""

import pytest

from tests.builders import Json
from tests.e2e.model import Received, Reply
from tests.e2e.rig import Rig, filler, question
from tests.e2e.tab import Tab
from tests.e2e.view import facts, view

TURNS = 14
ANSWER = 150  # tokens
CROWDED = 2048  # tokens
LEGACY = {"function_calling": "legacy"}  # without the page's own tools


def honest(_: Received) -> Json | None:
    """Everything is counted."""
    return None


def without_tools(received: Received) -> Json:
    """Messages alone are counted."""
    return {"prompt_tokens": received.tokens, "completion_tokens": ANSWER}


def without_cached(_: Received) -> Json:
    """What the provider has cached is left out of its count."""
    return {"prompt_tokens": 93, "completion_tokens": ANSWER}


def absent(_: Received) -> Json:
    """Nothing is told."""
    return {}


USAGES = (honest, without_tools, without_cached, absent)


@pytest.mark.since("0.12.0", "its page adds tools that take three quarters of a window of 8k")
@pytest.mark.parametrize("usage", USAGES, ids=lambda usage: usage.__name__)
@pytest.mark.parametrize(
    ("window", "params"),
    [(4096, LEGACY), (8192, None), (16_384, None), (32_768, None)],
    ids=["4k without tools", "8k", "16k", "32k"],
)
async def test_no_request_is_too_large_and_none_misses_what_is_stored(
    rig: Rig, tab: Tab, window: int, params: Json | None, usage: object
) -> None:
    assert callable(usage)
    rig.model.answer = lambda received: Reply(filler(received.question[:60], ANSWER), usage=usage(received))
    await rig.window(window)
    tab.choices.params = params
    served = False
    for _ in range(TURNS):
        known = await rig.checkpoints(str(tab.chat_id)) if tab.chat_id else []

        await tab.send(question())

        received = rig.model.received[-1]
        assert rig.size(received) <= window
        # Where tools leave 1,300 tokens, a summary cannot tell everything that it covers.
        crowded = window - received.tool_tokens < CROWDED
        seen = view(received) if crowded else await rig.seen(received)
        deepest = max((one.messages for one in known), default=0)
        shown = next((one.messages for one in known if one.summary == seen.summary), 0)
        if seen.note:
            assert shown == deepest, "messages were cut that a stored summary covers"
        if served and not crowded:
            assert facts(seen.summary), "what was laid down is in every request after the first summary"
        served = served or bool(seen.summary)
        await rig.settled(tab)
