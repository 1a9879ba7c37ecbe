"""The model's window is taken from whoever tells it, the most trusted first."""

from typing import Any

import pytest

from service.demo.host import enter
from service.planning.policy import believed
from service.transcript.steps import sent_tokens
from tests.filter.chat import MODEL, Chat, filter_of
from tests.filter.staged import UNKNOWN, against, chat_of
from tests.filter.texts import text_of_kind
from tests.filter.wire import Answer, HangUp, Wire, wire

Json = dict[str, Any]

# Who tells the window, in order of trust: where it stands, and with which value here.
TOLD: list[tuple[str, tuple[str, ...], int]] = [
    ("body", ("options", "num_ctx"), 3001),
    ("body", ("num_ctx",), 3002),
    ("model", ("info", "params", "num_ctx"), 3003),
    ("model", ("openai", "max_model_len"), 3004),
    ("model", ("openai", "context_length"), 3005),
    ("model", ("openai", "meta", "n_ctx"), 3006),
]


def put(place: Json, keys: tuple[str, ...], value: object) -> None:
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = value


async def window_of(telling: list[tuple[str, tuple[str, ...], Any]], tap: Wire) -> int | None:
    """The window that the service believes when these tell one."""
    body, model = Json(), Json({"id": MODEL})
    for who, keys, value in telling:
        put(body if who == "body" else model, keys, value)
    async with filter_of(tap.url) as loaded:
        chat = chat_of(loaded)
        turn = chat.request(str(chat.leaf))
        turn.body |= body
        with chat.host.importable():
            await enter(loaded, turn.body, __metadata__=turn.metadata, __model__=model)
    return believed(tap.bodies("POST")[-1]["windows"])


@pytest.mark.parametrize("place", range(len(TOLD)))
async def test_the_more_trusted_one_counts(place: int) -> None:
    async with wire(UNKNOWN) as tap:
        assert await window_of(TOLD[place:], tap) == TOLD[place][2]


async def test_the_window_is_told_at_the_hand_over_as_it_was_at_inlet() -> None:
    """The body of outlet has no parameters."""
    async with against(UNKNOWN) as (chat, tap):
        chat.window = 5000
        turn = await chat.inlet()
        await chat.reply(turn, "An answer")
        assert [body["windows"] for body in (*tap.bodies("POST"), *tap.bodies("PUT"))] == [[5000], [5000]]


async def test_a_window_that_only_the_service_knows_is_kept_for_all_chats_of_its_model_while_it_is_away() -> None:
    async with against(Answer({"status": "unknown", "window": 4096})) as (chat, tap):
        await chat.inlet()
        tap.behaviour = HangUp()
        other = Chat(chat.host, chat.filter, "chat-2")
        other.ask(text_of_kind("English", 60_000))
        assert sent_tokens((await other.inlet()).messages) <= 4096


async def test_a_short_chat_asks_once_for_the_window_that_only_the_service_knows() -> None:
    """After a restart of Open WebUI, what is short may be too long for a small window."""
    async with against(Answer({"status": "unknown", "window": 131_072}), skip_below_chars=24_000) as (chat, tap):
        for _ in range(2):
            await chat.say(text_of_kind("English", 3000), "Yes.")
        assert tap.asked == ["POST context", "PUT transcript"]


async def test_the_tools_of_a_request_are_told_also_at_the_hand_over() -> None:
    """Also where Open WebUI copies the metadata."""
    tools = [{"type": "function", "function": {"name": "f", "description": text_of_kind("English", 3000)}}]
    async with against(UNKNOWN) as (chat, tap):
        plain, turn = await chat.inlet(), chat.request(str(chat.leaf))
        turn.body["tools"] = tools
        await chat.enter(turn)
        turn.metadata = {**turn.metadata}
        await chat.reply(turn, "An answer")
        first, second = [body["beside"] for body in tap.bodies("POST")]
        assert second > first + 500
        assert tap.bodies("PUT")[0]["beside"] == second
        assert plain.messages == plain.original


@pytest.mark.parametrize(
    ("wanted", "room"), [(None, None), (1000, 7192), (10**9, 4096), (-(10**30), None), ("many", None), (0, None)]
)
async def test_the_service_is_told_the_room_that_a_long_answer_leaves(wanted: object, room: int | None) -> None:
    async with against(UNKNOWN, window=8192) as (chat, tap):
        turn = chat.request(str(chat.leaf))
        turn.body["max_tokens"] = wanted
        await chat.enter(turn)
        assert tap.bodies("POST")[0]["room"] == room
