"""Others that compress: Open WebUI's own compaction beside Precis."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.e2e.model import OWN_SUMMARY, Received
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import SUMMARY, well_formed

pytestmark = pytest.mark.since("0.10.0", "Open WebUI's own compaction came with it")
CONFIG = "/api/v1/chats/config"


@asynccontextmanager
async def compacting(rig: Rig, threshold: int) -> AsyncIterator[None]:
    """Open WebUI compacts by itself from so many tokens on."""
    before = await rig.admin.get(CONFIG)
    limits = ("CONTEXT_COMPACTION_TOKEN_THRESHOLD", "CONTEXT_COMPACTION_TOKEN_CAP")
    await rig.admin.post(CONFIG, before | {"ENABLE_CONTEXT_COMPACTION": True, **dict.fromkeys(limits, threshold)})
    try:
        yield
    finally:
        await rig.admin.post(CONFIG, before)


def whole(received: Received) -> None:
    """Well-formed; up to 0.10 Open WebUI itself cuts in front of an answer, so the question may be missing."""
    assert received.built
    messages = received.messages
    begins = [one["role"] for one in received.built.messages[:2]]
    if begins == ["system", "assistant"] == [one["role"] for one in messages[:2]]:
        messages = [messages[0], {"role": "user", "content": "Cut."}, *messages[1:]]
    well_formed(messages)


async def test_no_request_carries_both_summaries_and_the_line_says_whose(rig: Rig, tab: Tab) -> None:
    await rig.open_story(tab, 22)
    async with compacting(rig, 9000):
        turn = await tab.send(question())
        assert OWN_SUMMARY in str(rig.model.received[-1].messages[0]["content"])
        assert [one for one in tab.statuses(turn.answer) if "Open WebUI" in one]
        for _ in range(8):
            await rig.settled(tab)
            await tab.send(question())

    for received in rig.model.received:
        whole(received)
        system = str(received.messages[0]["content"])
        assert (OWN_SUMMARY in system) + len(SUMMARY.findall(system)) <= 1
