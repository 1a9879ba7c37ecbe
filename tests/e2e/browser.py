"""The real page in a headless browser: Debian's chromium, and a long chat that has a summary.

`E2E_SCREENSHOTS=docs/images` keeps the pictures of the documentation.
"""

import shutil

import pytest
from playwright.async_api import Page, expect

from tests.e2e.model import MODELS, Reply
from tests.e2e.rig import Rig, as_posted
from tests.e2e.tab import Tab
from tests.waiting import until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WINDOW = 32_768  # room for the tools that Open WebUI gives the model on its page
PATIENCE = 60_000  # milliseconds, on a machine that is busy with tests
expect.set_options(timeout=PATIENCE)

NO_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install -y chromium")
NEWER_PAGES = pytest.mark.since("0.11", "the page's marks are those of 0.11 and 0.12")


async def open_log(rig: Rig, tab: Tab) -> None:
    """A long chat that has a summary: the log of a pumping station."""
    await rig.window(WINDOW)
    log = as_posted("Pumping station", MODELS[0], [(_report(day), _answer(day)) for day in range(1, 81)])
    made = await rig.admin.post("/api/v1/chats/new", {"chat": log})
    await tab.open(made["id"])
    rig.model.script.append(Reply("Noted: P-7 runs again, with 2.1 mm/s."))
    await tab.send("P-7 is back since 14:05. Vibration 2.1 mm/s, bearing at 47 °C.")
    await rig.settled(tab)
    assert await rig.precis.checkpoints(str(tab.chat_id)), "no summary was made"


async def ask(rig: Rig, chat: str, page: Page, question: str, answer: str) -> None:
    """Types a question as a user does, and waits until the scripted answer is on the page and done."""
    rig.model.script.append(Reply(answer))
    await page.locator("#chat-input").click()
    await page.keyboard.type(question)
    await page.keyboard.press("Enter")
    await expect(page.get_by_text(answer)).to_be_visible()

    async def finished() -> bool:
        return any(one["content"] == answer and one.get("done") for one in (await rig.saved(chat)).values())

    await until(finished, 60)


def _report(day: int) -> str:
    return f"Day {day}: P-{day % 9} showed {day * 37 % 90 / 10 + 1:.1f} mm/s and {40 + day % 20} °C at the bearing."


def _answer(day: int) -> str:
    lines = (
        f"P-{pump}: {(day * 7 + pump * 13) % 60 / 10 + 1:.1f} mm/s, {38 + (day + pump) % 15} °C, flow"
        f" {310 + (day * pump) % 50} m³/h, so nothing to do before the next inspection, in {day % 28 + 2} days."
        for pump in range(1, 10)
    )
    return "I have added it to the log. The other pumps on that day:\n\n- " + "\n- ".join(lines)
