"""`tab.py` against the page that it stands in for: both ask the same things, and their requests have the same shape.

Needs Debian's chromium.
"""

import contextlib
import json
from typing import Any

import httpx
from playwright.async_api import Page, Request, expect

from tests.builders import Json
from tests.e2e.browser import NO_CHROMIUM, PATIENCE
from tests.e2e.model import MODELS
from tests.e2e.rig import Rig
from tests.e2e.tab import Tab

ROUTE = "/api/chat/completions"
KEPT = ("features", "background_tasks")  # compared by their values
THEIRS = ("model_item", "variables", "tool_approval_mode")  # depend on the account, its settings and the clock

pytestmark = NO_CHROMIUM


async def test_a_saved_chat_is_asked_for_as_the_page_does(rig: Rig, tab: Tab, page: Page) -> None:
    await page.goto(f"{rig.server.url}/?models={MODELS[0]}")
    by_page = await asked_by_page(page)

    assert await asked_by_tab(rig, tab) == by_page


async def test_a_temporary_chat_is_asked_for_as_the_page_does(rig: Rig, tab: Tab, page: Page) -> None:
    await page.goto(f"{rig.server.url}/?models={MODELS[0]}&temporary-chat=true")
    by_page = await asked_by_page(page)

    tab.new_chat(temporary=True)
    assert await asked_by_tab(rig, tab) == by_page


async def asked_by_page(page: Page) -> list[str]:
    """The shapes of what the page posts for two messages."""
    posted: list[str] = []

    def keep(request: Request) -> None:
        if request.method == "POST" and request.url.endswith(ROUTE):
            posted.append(outline(json.loads(request.post_data or "{}")))

    page.on("request", keep)
    for text in ("First of two.", "Second of two."):
        await say(page, text)
        await expect(page.get_by_text(f"That was: {text}")).to_be_visible(timeout=PATIENCE)
        await expect(page.locator("#send-message-button, #voice-input-button").first).to_be_visible(timeout=PATIENCE)
    return posted


async def say(page: Page, text: str) -> None:
    """Types a message and sends it; again when the page, still loading, has cleared what was typed."""
    said = page.locator(".user-message")
    before = await said.count()
    for patience in (15_000, 15_000, PATIENCE):
        await page.locator("#chat-input").click()
        await page.keyboard.press("Control+A")
        await page.keyboard.type(text)
        await page.keyboard.press("Enter")
        with contextlib.suppress(AssertionError):
            await expect(said).to_have_count(before + 1, timeout=patience)
            return


async def asked_by_tab(rig: Rig, tab: Tab) -> list[str]:
    posted: list[str] = []

    async def keep(request: httpx.Request) -> None:
        if request.url.path == ROUTE:
            posted.append(outline(json.loads(request.content)))

    rig.server.http.event_hooks["request"].append(keep)
    try:
        for text in ("First of two.", "Second of two."):
            await tab.send(text)
    finally:
        rig.server.http.event_hooks["request"].remove(keep)
    return posted


def outline(body: Json) -> str:
    """Keys and types, a line each."""
    return json.dumps(shape(body), indent=1, sort_keys=True)


def shape(value: Any, key: str = "") -> Any:
    """Types for values; what is no more than a matter of the account or the clock is left out."""
    if isinstance(value, dict):
        return (
            {name: shape(one, name) for name, one in value.items() if name not in THEIRS} if key not in KEPT else value
        )
    if isinstance(value, list):
        return [shape(one, key) for one in value]
    return type(value).__name__
