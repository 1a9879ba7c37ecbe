"""The real page in a headless browser: what a user sees of a compressed chat, and what an admin sees of the filter."""

import re
from pathlib import Path

from playwright.async_api import Page, expect

from tests.e2e.browser import NEWER_PAGES, NO_CHROMIUM, ask, open_log
from tests.e2e.model import Call, Reply
from tests.e2e.rig import Rig
from tests.e2e.tab import Tab

STATUS = re.compile("Summarised [0-9]+ earlier messages")
pytestmark = [NO_CHROMIUM, NEWER_PAGES]


async def test_the_status_line_is_under_the_answer_and_still_there_after_a_reload(
    rig: Rig, tab: Tab, page: Page, pictures: Path
) -> None:
    await open_log(rig, tab)
    await page.goto(f"{rig.server.url}/c/{tab.chat_id}")
    await ask(
        rig,
        str(tab.chat_id),
        page,
        "Which bearing did we order for pump P-7?",
        "The SKF 6310-2Z, on 3 March, for 184.50 EUR.",
    )
    await expect(page.get_by_text(STATUS).last).to_be_visible()

    await page.reload()

    await expect(page.get_by_text(STATUS).last).to_be_visible()
    await expect(page.get_by_text("for 184.50 EUR")).to_be_visible()
    # Without its animation, the line is legible; of the page, the question and the answer under it.
    await page.screenshot(
        path=pictures / "compressed-chat.png",
        animations="disabled",
        clip={"x": 100, "y": 255, "width": 940, "height": 200},
    )


async def test_a_look_up_is_shown_as_a_call_of_a_tool(rig: Rig, tab: Tab, page: Page, pictures: Path) -> None:
    await open_log(rig, tab)
    rig.model.script.append(Reply("", (Call("recall-1", "precis_recall", {"query": "pump P-4 on day 12"}),)))
    rig.model.script.append(Reply("", (Call("recall-2", "precis_recall", {"ref": "M24", "grep": "P-4"}),)))
    await page.set_viewport_size({"width": 1280, "height": 820})
    await page.goto(f"{rig.server.url}/c/{tab.chat_id}")
    answer = "On day 12, P-4 showed 2.6 mm/s and 39 °C, with 358 m³/h."
    await ask(rig, str(tab.chat_id), page, "What did P-4 show on day 12?", answer)
    await page.reload()

    await page.get_by_text("precis_recall").click()  # both calls
    calls = page.get_by_text("View Result from precis_recall")
    await expect(calls).to_have_count(2)
    await calls.last.click()

    await expect(page.get_by_text("6| - P-4: 2.6 mm/s, 39 °C, flow 358 m³/h")).to_be_visible()
    await page.get_by_text("Follow up").scroll_into_view_if_needed()
    await page.mouse.move(640, 5)  # away from buttons, which say what they do
    await expect(page.get_by_role("tooltip")).to_have_count(0)
    await page.screenshot(path=pictures / "recall.png", animations="disabled")
