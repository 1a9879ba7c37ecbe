"""The buttons under a message: what a user sees of a summary, and leaves alone, against a real service."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from filter_stub import precis_action
from service.api import dialog
from service.demo.host import list_path, replace_modules
from service.runtime import Runtime
from tests.builders import Json
from tests.conftest import Service, drain
from tests.dialogs import shown
from tests.filter.chat import PATIENCE, Chat, filler, working
from tests.filter.functions import load
from tests.filter.test_filter_requests import against
from tests.filter.wire import Answer, Behaviour, HangUp, Silence, Wire, wire
from tests.service.talk import row, run_sql

REQUEST = SimpleNamespace()
NEVER = object()
"""The answer to a dialog that nobody answers."""


@dataclass
class Page:
    """What stands for the page of Open WebUI and its server: it clicks, and answers dialogs as scripted."""

    action: Any
    chat: Chat
    valves: Json  # of the filter
    answers: list[object] = field(default_factory=list)
    dialogs: list[Json] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    model: Json = field(default_factory=dict)
    wanted: Json = field(default_factory=dict)  # the user's own valves of the filter
    runtime: Runtime | None = None  # of a service that works during a click
    tap: Wire = field(default_factory=lambda: Wire(Silence()))

    async def call(self, event: Json) -> object:
        self.dialogs.append(event)
        answer = self.answers.pop(0) if self.answers else False
        return await asyncio.Future() if answer is NEVER else answer

    async def emit(self, event: Json) -> None:
        assert event["type"] == "notification", "all else is stored in the chat"
        self.told.append((event["data"]["type"], event["data"]["content"]))

    async def click(self, button: str, *answers: object, user: str = "", **body: object) -> None:
        self.answers = list(answers)
        posted: Json = {"chat_id": self.chat.id, "id": self.chat.leaf, "session_id": "s", "model": "m", "messages": []}
        host, installed = self.chat.host.importable(), plugin(self.chat.filter, self.valves, self.wanted)
        async with working(self.runtime):
            with host, installed:
                out = await self.action.action(
                    posted | body,
                    __id__=button,
                    __user__={"id": user or self.chat.user},
                    __model__=self.model,
                    __request__=REQUEST,
                    __event_call__=self.call,
                    __event_emitter__=self.emit,
                )
        assert out is None, "what is returned would be made messages of the chat"

    @property
    def shown(self) -> str:
        return shown(self.dialogs[-1]["data"]["message"])


@contextlib.contextmanager
def plugin(loaded: Any, valves: Json, wanted: Json) -> Iterator[None]:
    """`open_webui.utils.plugin` with the filter, and its valves in `open_webui.models.functions`, as 0.12 has them."""

    async def get_function_module_from_cache(request: object, function_id: str) -> tuple[Any, str, Json]:
        assert (request, function_id) == (REQUEST, "precis")
        return loaded, "filter", {}

    async def get_function_valves_by_id(function_id: str) -> Json:
        assert function_id == "precis"
        return valves

    async def get_user_valves_by_id_and_user_id(function_id: str, _user_id: str) -> Json:
        assert function_id == "precis"
        return wanted

    functions = SimpleNamespace(
        get_function_valves_by_id=get_function_valves_by_id,
        get_user_valves_by_id_and_user_id=get_user_valves_by_id_and_user_id,
    )
    names = ("utils", "utils.plugin", "utils.misc", "models.functions")
    modules = {f"open_webui.{name}": ModuleType(f"open_webui.{name}") for name in names}
    modules["open_webui.utils.plugin"].__dict__["get_function_module_from_cache"] = get_function_module_from_cache
    modules["open_webui.utils.misc"].__dict__["get_message_list"] = list_path
    modules["open_webui.models.functions"].__dict__["Functions"] = functions
    with replace_modules(modules):
        yield


@contextlib.asynccontextmanager
async def page_of(
    chat: Chat, behaviour: Behaviour, key: str = "key", patience: float = PATIENCE
) -> AsyncIterator[Page]:
    before = chat.filter.valves
    async with wire(behaviour) as tap:
        of_filter = before.model_dump() | {"service_url": tap.url, "api_key": key}
        action = load(precis_action, "Action")
        type(action).action.__globals__["TIMEOUT"] = patience
        yield Page(action, chat, of_filter, tap=tap)
    chat.filter.valves = before


async def compressed(chat: Chat, service: Service) -> None:
    chat.grow(14, 250)
    await chat.say("Order INV-2031 goes to Trondheim.", "Noted.")
    await drain(service.runtime)
    turn = await chat.say("And now?", "Now nothing.")
    assert turn.summary


# Now


async def test_a_long_chat_that_the_service_has_never_seen_is_summarised_at_a_click(
    chat: Chat, service: Service
) -> None:
    chat.window = 7000
    for number in range(14):
        chat.ask(filler(f"question-{number}", 250))
        chat.answer(filler(f"answer-{number}", 250))
    async with page_of(chat, service.url, service.filter_key) as page:
        page.runtime = service.runtime
        page.model = {"info": {"params": {"num_ctx": 7000}}}
        await page.click("now", True)

        assert page.told == [("info", precis_action.STARTED)]
        assert "[Previous conversation summary: " in page.shown
        assert "of 7,000 tokens" in page.shown, "the window is told with the branch"
        renewed = page.shown
    turn = await chat.say("And now?", "Now nothing.")
    assert turn.summary
    assert turn.summary in renewed


async def test_summarise_now_sends_the_whole_branch_as_it_is_stored_and_asks_for_the_view() -> None:
    shown = {"title": "A title", "text": "[A summary]", "change": None}
    async with against(Answer({})) as (chat, _), page_of(chat, Answer(shown)) as page:
        chat.answer("An answer", files=[{"type": "file", "file": {"data": "contents"}}])
        leaf = str(chat.leaf)
        chat.ask("below the click")
        page.model = {"info": {"params": {"num_ctx": 7000}}}
        await page.click("now", True, id=leaf)
        handed, view = page.tap.seen

    assert (handed.path, view.path) == ("/v1/turns", "/v1/chats/chat-1/view")
    assert [message["id"] for message in handed.body["messages"]] == [row["id"] for row in chat.path(leaf)]
    assert "contents" not in str(handed.body)
    about = {"state": None, "chat": "chat-1", "user": chat.user, "model": "m", "windows": [7000]}
    assert handed.body | about == handed.body
    asked = {"button": "now", "message_id": leaf, "wait": precis_action.WRITING}
    assert view.body == asked | {"user_id": chat.user}
    assert page.dialogs == [{"type": "confirmation", "data": {"title": "A title", "message": "[A summary]"}}]


@pytest.mark.parametrize("button", ["summary", "leave", "now"])
async def test_a_chat_that_the_service_does_not_know_is_told_so(button: str) -> None:
    async with against(Answer({})) as (chat, _), page_of(chat, Answer({}, 404)) as page:
        await page.click(button, True)
        assert page.told[-1] == ("warning", precis_action.UNKNOWN)


async def test_a_chat_is_handed_over_only_as_its_user_wants(chat: Chat) -> None:
    chat.ask("words of somebody")
    chat.host.owners[chat.id] = chat.user
    async with page_of(chat, HangUp()) as page:
        await page.click("now", user="somebody else")
        page.wanted = {"compress": False}
        await page.click("now")
    assert page.told == [("warning", precis_action.UNKNOWN), ("warning", precis_action.UNWANTED)]


async def test_a_click_changes_nothing_that_is_known_of_requests(chat: Chat, service: Service) -> None:
    await compressed(chat, service)
    this = "where external_id = :chat"
    await run_sql(service.runtime, f"update chats set overhead_tokens = 500 {this}", chat=chat.id)
    async with page_of(chat, service.url, service.filter_key) as page:
        page.runtime = service.runtime
        await page.click("now")
    known = await row(service.runtime, f"select overhead_tokens from chats {this}", chat=chat.id)
    assert known.overhead_tokens == 500


# Left alone


async def left_alone(chat: Chat, service: Service) -> bool:
    query = "select left_alone_at is not null as it from chats where external_id = :chat"
    return bool((await row(service.runtime, query, chat=chat.id)).it)


# Open WebUI answers so when a dialog is cancelled; when the tab is gone or its user too late; and, of old, nothing.
NOT_CONFIRMED = (False, {"error": "Client session disconnected."}, None, "", NEVER)


async def test_a_change_is_asked_for_first_and_nothing_changes_unless_it_is_confirmed(
    chat: Chat, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await compressed(chat, service)
    async with page_of(chat, service.url, service.filter_key) as page:
        for is_left_alone, question in ((False, dialog.LEAVE), (True, dialog.RESUME)):
            for answer in NOT_CONFIRMED:
                with monkeypatch.context() as patch:
                    if answer is NEVER:
                        patch.setitem(type(page.action).action.__globals__, "OPEN", 0.01)
                    page.dialogs, page.told = [], []
                    await page.click("leave", answer)

                assert await left_alone(chat, service) is is_left_alone, answer
                (asked,) = page.dialogs
                assert (asked["data"]["title"], asked["data"]["message"]) == question[:2]
                assert page.told == ([] if answer is False else [("warning", dialog.UNANSWERED)])
            await page.click("leave", True)
            assert await left_alone(chat, service) is not is_left_alone


# What it does not do


async def test_a_regeneration_or_rating_shows_nothing(chat: Chat, service: Service) -> None:
    async with page_of(chat, service.url, service.filter_key) as page:
        await page.click("leave", True, event={"id": "regenerate-response", "data": {"messageId": "m"}})
    assert not page.dialogs
    assert not page.told


@pytest.mark.parametrize("identity", ["", "local:1", "temporary:1", "channel:1"])
async def test_a_chat_that_is_not_saved_is_told_so_and_nothing_of_it_is_sent(
    chat: Chat, service: Service, identity: str
) -> None:
    chat.ask("words of somebody")
    async with page_of(chat, service.url, service.filter_key) as page:
        for button in ("summary", "leave", "now"):
            await page.click(button, True, chat_id=identity)
        assert "words of somebody" not in str(page.tap.seen)
    assert page.told == [("warning", precis_action.UNKNOWN)] * 3
    assert not page.dialogs


ODD = (HangUp(), Answer("<html>It works!</html>"), Answer("null"), Answer({}), Answer([], 426))


@pytest.mark.parametrize(
    ("button", "behaviour"),
    [("summary", Silence()), *itertools.product(["summary", "leave", "now"], ODD)],
    ids=repr,
)
async def test_whatever_goes_wrong_the_user_is_told_and_the_log_has_no_text(
    chat: Chat, behaviour: Behaviour, button: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat.ask("words of somebody")
    async with page_of(chat, behaviour, "secret-key", 0.3) as page:
        await page.click(button, True)
    assert page.told[-1] == ("error", precis_action.AWAY)
    assert "words of somebody" not in caplog.text
    assert "secret-key" not in caplog.text
