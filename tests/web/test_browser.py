"""The pages in a headless browser, on a database as operators have it: what no answer to an HTTP request shows.

Needs Debian's chromium. `WEB_SCREENSHOTS=docs/images` keeps the pictures of the documentation.
"""

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright, expect

from service.web.words import segment
from tests.conftest import Service, fresh_database, serving, small_window
from tests.web.filled import HOSTILE, HOSTILE_ID, PUMPS, Filled, fill

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE = 60_000  # milliseconds, on a machine that is busy with tests
RENEWED = 6_000  # milliseconds of the page's clock, after which a list has asked again
NARROW, WIDE = {"width": 375, "height": 800}, {"width": 1440, "height": 900}
expect.set_options(timeout=PATIENCE)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install -y chromium"),
]

_NOTED = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error("against the policy: " + event.violatedDirective + " " + event.blockedURI);
});
"""


@dataclass
class Site:
    """A service with a filled database, and a browser."""

    service: Service
    filled: Filled
    browser: Browser

    @property
    def pages(self) -> dict[str, str]:
        """Every page, by name."""
        pumps = f"/chats/{PUMPS}"
        made = f"{pumps}/checkpoints/{self.filled.pumps}"
        bad = f"{self.filled.hostile_at}/checkpoints/{self.filled.hostile}"
        return {
            "overview": "/",
            "stats": "/stats",
            "chats": "/chats",
            "dead chats": "/chats?state=dead",
            "a chat": pumps,
            "a checkpoint": made,
            "found words": f"{pumps}/find?query=bearing",
            "a hostile chat": self.filled.hostile_at,
            "a hostile checkpoint": bad,
            "hostile words": f"{self.filled.hostile_at}/find?query=script",
            "jobs": "/jobs",
            "people": "/people",
            "somebody": "/people/anna",
            "somebody hostile": f"/people/{segment(HOSTILE_ID)}",
            "audit": "/audit",
        }


@dataclass
class Tab:
    """A tab, and what went wrong in it: errors of scripts, of the policy, dialogs, requests to elsewhere."""

    page: Page
    site: Site
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def watch(self) -> None:
        page = self.page
        page.set_default_timeout(PATIENCE)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._request)

        async def dialog(opened: Any) -> None:
            self.wrong.append(f"dialog: {opened.message}")
            await opened.dismiss()

        page.on("dialog", dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        self.asked.append(request.url)
        if not request.url.startswith((f"{self.site.service.url}/", "data:")):
            self.wrong.append(f"request: {request.url}")

    async def goto(self, path: str) -> None:
        await self.page.goto(self.site.service.url + path)

    async def sign_in(self) -> None:
        await self.goto("/sign-in")
        await self.page.get_by_label("Operator key").fill(self.site.service.operator_key)
        await self.page.get_by_role("button", name="Sign in").click()
        await expect(self.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(servers: Any) -> AsyncIterator[Site]:
    async with (
        fresh_database(servers) as urls,
        serving(small_window(urls)) as service,
        async_playwright() as playwright,
    ):
        filled = await fill(service)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield Site(service, filled, browser)
        await browser.close()


@asynccontextmanager
async def opened(site: Site, **more: Any) -> AsyncIterator[Tab]:
    """A tab of a new browser profile, signed in; at its end nothing may have gone wrong."""
    context = await site.browser.new_context(**({"viewport": WIDE} | more))
    try:
        await context.add_init_script(_NOTED)
        tab = Tab(await context.new_page(), site)
        tab.watch()
        await tab.sign_in()
        yield tab
        assert tab.wrong == []
    finally:
        await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def tab(site: Site) -> AsyncIterator[Tab]:
    async with opened(site) as signed_in:
        yield signed_in


async def test_nothing_of_a_hostile_chat_runs_is_loaded_or_leads_away(site: Site, tab: Tab) -> None:
    for name, path in site.pages.items():
        await tab.goto(path)
        assert await tab.page.evaluate("window.hit") is None, name
        assert (
            await tab.page.locator("main script, main img, main base, main style, [onerror], [hx-on\\:load]").count()
            == 0
        )
        links = await tab.page.locator("a, form").evaluate_all("all => all.map(one => one.href ?? one.action)")
        assert [one for one in links if not one.startswith(site.service.url)] == [], name
    await tab.goto(f"{site.pages['a hostile checkpoint']}")
    assert "{{7*7}}${7*7}" in (await tab.page.locator("main").text_content() or ""), "it is shown as it is"
    assert HOSTILE in await tab.page.get_by_label("State").input_value()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [pytest.param(NARROW, id="375"), pytest.param(WIDE, id="1440")])
async def test_no_page_hinders_anybody_or_is_wider_than_a_telephone(
    site: Site, scheme: str, size: dict[str, int]
) -> None:
    found = {}
    async with opened(site, viewport=size, color_scheme=scheme) as tab:
        for name, path in site.pages.items():
            await tab.goto(path)
            widths = await tab.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert widths[0] <= widths[1], name
            await tab.page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
            found[name] = await violations(tab.page)
        await tab.page.context.clear_cookies()
        await tab.goto("/sign-in")
        found["sign in"] = await violations(tab.page)
    async with opened(site, viewport=size, color_scheme=scheme) as tab:
        await tab.goto("/chats/unknown")
        found["an error"] = await violations(tab.page)
        await tab.page.evaluate("document.documentElement.removeAttribute('lang')")
        assert "html-has-lang" in str(await violations(tab.page)), "it is really looked for"
        assert [one for one in tab.wrong if "404" not in one] == []
        tab.wrong.clear()
    assert {name: some for name, some in found.items() if some} == {}


async def violations(page: Page) -> list[str]:
    """What axe-core finds, and where."""
    results = await Axe().run(page)
    return [
        f"{one['id']}: {' | '.join(node['html'][:150] for node in one['nodes'][:3])}"
        for one in results.response["violations"]
    ]


async def test_the_keyboard_is_enough(tab: Tab) -> None:
    page = tab.page
    await tab.goto("/jobs")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    for key, path in {"c": "/chats", "p": "/people", "a": "/audit", "j": "/jobs", "o": "/"}.items():
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await page.wait_for_url(tab.site.service.url + path)
    await page.keyboard.press("g")
    await page.keyboard.press("c")
    await page.wait_for_url("**/chats")
    links = page.locator("main tbody th a")
    for key, place in (("n", 0), ("n", 1), ("n", 2), ("p", 1)):
        await page.keyboard.press(key)
        await expect(links.nth(place)).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.get_by_label("Id begins with")).to_be_focused()
    await page.keyboard.type("gc/np")
    await expect(page.get_by_label("Id begins with")).to_have_value("gc/np")
    order = []
    for _ in range(2):
        await page.keyboard.press("Tab")
        order.append(await page.evaluate("document.activeElement.name"))
    assert order == ["user", "state"]


async def test_a_list_renews_itself_but_not_under_the_pointer_or_the_focus(site: Site) -> None:
    async with opened(site) as tab:
        page, live = tab.page, tab.page.locator(".live")
        await page.clock.install()
        await tab.goto("/jobs")

        async def asked() -> int:
            """How often the list was asked for until now; a last request shows that all before are counted."""
            await page.evaluate("fetch('/static/favicon.svg').then(() => null)")
            return len([one for one in tab.asked if "part=true" in one])

        async with page.expect_response(re.compile("part=true")):
            await page.clock.run_for(RENEWED)
        before = await asked()
        await live.hover(position={"x": 20, "y": 5})
        await page.clock.run_for(5 * RENEWED)
        assert await asked() == before, "under the pointer"
        await page.mouse.move(0, 0)
        async with page.expect_response(re.compile("part=true")):
            await page.clock.run_for(RENEWED)
        await live.locator("a").first.focus()
        before = await asked()
        await page.clock.run_for(5 * RENEWED)
        assert await asked() == before, "with the focus in it"


async def test_the_picture_of_the_documentation_is_small(site: Site, tmp_path: Path) -> None:
    async with opened(site, viewport={"width": 1280, "height": 900}, color_scheme="light") as tab:
        await tab.goto(f"/chats/{PUMPS}")
        picture = await tab.page.screenshot(path=Path(os.environ.get("WEB_SCREENSHOTS") or tmp_path) / "page-chat.png")
        assert len(picture) <= 200_000
