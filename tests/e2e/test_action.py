"""The buttons under a message: a user sees the summary, and leaves a chat alone."""

from pathlib import Path

from playwright.async_api import Page, expect

from service.api.dialog import RESUME
from service.api.dialog import TITLE as SUMMARY_TITLE
from tests.builders import Json
from tests.e2e.browser import NEWER_PAGES, NO_CHROMIUM, ask, open_log
from tests.e2e.rig import Rig, question, story
from tests.e2e.tab import Tab
from tests.e2e.tab import tab as open_tab

SHOW, NOW, LEAVE_ALONE = "precis_action.summary", "precis_action.now", "precis_action.leave"
BUTTONS = {SHOW, NOW, LEAVE_ALONE}
HOSTILE = "<img src=x onerror=\"document.title='taken'\"> ![x](/evil.png) [y](javascript:z) https://evil.example"


async def test_the_buttons_work_for_a_user_whom_the_model_is_shared_with(rig: Rig, tab: Tab) -> None:
    """Without that, 0.12 says `Model not found` to all but admins."""
    user = await rig.server.add_user(rig.admin, "has-buttons")
    for one in (await user.get("/api/models"))["data"]:
        assert {action["id"] for action in one["actions"]} == BUTTONS
    model: Json = {"id": tab.models[0], "name": tab.models[0], "base_model_id": None, "params": {}, "meta": {}}
    everybody = {"principal_type": "user", "principal_id": "*", "permission": "read"}
    await rig.admin.post("/api/v1/models/create", model | {"access_grants": [everybody]})
    try:
        async with open_tab(user) as theirs:
            made = await user.post("/api/v1/chats/new", {"chat": story(22, theirs.models[0])})
            await theirs.open(made["id"])
            await theirs.send(question())
            await rig.settled(theirs)
            before = (await user.get(f"/api/v1/chats/{theirs.chat_id}"))["chat"]
            for button in (SHOW, NOW, LEAVE_ALONE):
                assert len(await theirs.click(button, True)) == 1
            (dialog,) = await theirs.click(LEAVE_ALONE, False)
            assert dialog["data"]["title"] == RESUME[0], "the click before was confirmed"
            (dialog,) = await theirs.click(LEAVE_ALONE, True)
            assert dialog["data"]["title"] == RESUME[0], "this one was cancelled"
            assert (await user.get(f"/api/v1/chats/{theirs.chat_id}"))["chat"] == before, "the chat stays as it is"
    finally:
        await rig.admin.post("/api/v1/models/model/delete", {"id": model["id"]})


# On the page


async def correct(rig: Rig, tab: Tab, lines: str) -> None:
    """Gives the first summary that serves another state, as an operator does; it alone serves then."""
    chat = await rig.precis.show(str(tab.chat_id))
    assert chat
    serving = [one["id"] for one in chat["checkpoints"] if one["serving"]]
    async with rig.precis.client("operator") as http:
        written = {"state": f"## State\n{lines}"}
        answer = await http.patch(f"/v1/chats/{tab.chat_id}/checkpoints/{serving[0]}", json=written)
        assert answer.status_code == 200, answer.text


@NO_CHROMIUM
@NEWER_PAGES
async def test_on_the_page_a_click_shows_the_summary_in_a_dialog_that_scrolls_and_none_of_it_is_markup(
    rig: Rig, tab: Tab, page: Page, pictures: Path
) -> None:
    await open_log(rig, tab)
    days = "".join(f"- Day {day}: P-7 was watched, and nothing was found.\n" for day in range(60))
    await correct(rig, tab, f"{days}- {HOSTILE}")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    await page.goto(f"{rig.server.url}/c/{tab.chat_id}")
    await ask(rig, str(tab.chat_id), page, "When was P-7 back?", "At 14:05, with 2.1 mm/s.")
    await rig.precis.settled(str(tab.chat_id))
    sent = (await rig.seen()).summary

    await page.get_by_role("button", name="Precis: the summary").last.click()

    scrolls = page.locator("div[style*='max-height']").filter(has_text="Previous conversation summary")
    await expect(page.get_by_text(SUMMARY_TITLE)).to_be_visible()
    await expect(scrolls).to_contain_text("[End of summary")
    assert sent in await scrolls.inner_text()
    await expect(scrolls).to_contain_text("https://evil.example")
    await expect(scrolls.locator("img, a, script")).to_have_count(0)
    assert await page.title() != "taken"
    assert not [url for url in requested if "evil" in url]
    assert await scrolls.evaluate("one => one.scrollHeight > one.clientHeight")
    await page.screenshot(path=pictures / "action-summary.png", animations="disabled")
    await page.get_by_role("button", name="Confirm").click()
    await expect(page.get_by_text(SUMMARY_TITLE)).to_have_count(0)
    await page.reload()
    await expect(page.get_by_text("At 14:05, with 2.1 mm/s.")).to_be_visible()
    await expect(page.get_by_text("Previous conversation summary")).to_have_count(0)
