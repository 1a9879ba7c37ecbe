"""What the filter sends of a request, and what it makes of the answer, against a small HTTP server of this wire."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from filter_stub import precis_filter
from filter_stub.precis_filter import LEFT_OUT, METADATA_KEY, PAUSE, VERSION, list_windows
from service.demo.host import pass_hooks
from tests.builders import Json, called, returned
from tests.filter.chat import PATIENCE, Chat, Turn, filler, filter_of
from tests.filter.client import Client, asks, conversation, says, step
from tests.filter.host import Host
from tests.filter.wire import Answer, Behaviour, HangUp, Scripted, Silence, Trickle, Wire, wire

RECORD = [asks("[Previous conversation summary: 4 messages]\nThey talked."), says("Noted.")]
SOON = 0.2  # seconds of the deadline where the service never answers


def answer(messages: object = None, **more: object) -> Json:
    told = {"messages": messages, "status": "not_needed", "status_text": None, "summary": None, "state": {"turn": 1}}
    sizes = {"before": 100, "after": 100, "window": 8192}
    return told | {"checkpoint": None, "left_out": 0, "tokens": sizes, "whole": False} | more


def hides(first: int, *, after: int = 1) -> Scripted:
    """A service that puts a summary in place of the messages between the system message and `first`."""

    def make(question: Json) -> Json:
        places = [*range(after), *RECORD, *range(first, len(question["messages"]))]
        return answer(places, status="ready", status_text="Summarised 4 earlier messages")

    return Scripted(make)


@contextlib.asynccontextmanager
async def against(
    behaviour: Behaviour, *, turns: int = 3, tokens: int = 20, **valves: Any
) -> AsyncIterator[tuple[Chat, Wire]]:
    """A chat whose filter talks to this service; its last message is a user's."""
    async with wire(behaviour) as tap, filter_of(tap.url, **valves) as loaded:
        chat = Chat(Host(), loaded)
        chat.grow(turns, tokens)
        chat.ask("The last question")
        yield chat, tap


# What is sent


@pytest.mark.parametrize("regenerated", [None, "a7"])
async def test_a_request_is_sent_as_it_is_with_what_is_known_of_it(
    regenerated: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with against(Answer(answer())) as (chat, tap):
        chat.window = 9000
        turn = chat.request(str(chat.leaf), regeneration_message_id=regenerated)
        turn.body |= {"max_tokens": 500, "tools": [{"type": "function"}]}
        with chat.host.importable():
            model = {"info": {"params": {"system": "You are a clerk.", "num_ctx": 8000}}}
            await pass_hooks(chat.filter, turn.body, __metadata__=turn.metadata, __user__=chat.asker, __model__=model)
        (seen,) = tap.seen
    assert (seen.method, seen.path) == ("POST", "/v1/compress")
    assert seen.headers["precis-filter"] == VERSION
    assert len(seen.headers["x-request-id"]) == 32
    seconds = seen.body.pop("seconds")
    assert PATIENCE * 0.7 < seconds < PATIENCE * 0.9
    assert seen.body == {
        "chat": "chat-1",
        "user": chat.user,
        "model": "small-model",
        "messages": turn.messages,
        "windows": [9000, 8000],
        "max_tokens": 500,
        "tools": [{"type": "function"}],
        "prompt": "You are a clerk.",
        "guided": regenerated is not None,
        "recall": False,
        "state": None,
        "keep_hours": None,
    }
    assert turn.messages == turn.original
    assert caplog.records == []


async def test_a_picture_never_leaves_open_webui() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,SECRET"}}
    audio = {"type": "input_audio", "input_audio": {"data": "SECRET"}}
    parts = [{"type": "text", "text": "What is this?", "cache_control": {}}, picture, audio]
    async with wire(hides(3, after=0)) as tap, filter_of(tap.url) as loaded:
        turn = await Client(loaded).send([asks("Hello."), says("Hi."), asks("So?"), {"role": "user", "content": parts}])
        assert "SECRET" not in str(tap.seen)
        slim = [{"type": "text", "text": "What is this?"}, {"type": "image_url"}, {"type": "input_audio"}]
        assert tap.seen[0].body["messages"][-1]["content"] == slim
        assert turn.messages[-1]["content"] == parts, "the model sees it all the same"


def test_all_sizes_of_the_window_are_listed_the_most_trusted_first() -> None:
    body = {"options": {"num_ctx": 3001}, "num_ctx": 3002}
    model = {"openai": {"max_model_len": 3004, "context_length": 3005, "meta": {"n_ctx": 2048}}}
    assert list_windows(body, {"num_ctx": 3003}, model) == [3001, 3002, 3003, 3004, 3005, 2048]
    for odd in (None, 0, -1, 2047, True, "8192", 8192.5, [8192], {"n": 8192}):
        assert list_windows({"num_ctx": odd}, {}, None) == [], odd


# Which chats are sent


@pytest.mark.parametrize(
    ("window", "told", "characters", "sent"),
    [
        (None, None, 2048, 1),  # the model may have a window of 4096 tokens
        (None, None, 2047, 0),
        (8192, None, 4096, 1),
        (8192, None, 4095, 0),
        (None, 16_384, 8192, 1),  # the service has told the window in an earlier turn
        (None, 16_384, 8191, 0),
        (131_072, None, 24_000, 1),
        (131_072, None, 23_999, 0),
    ],
)
async def test_a_chat_is_looked_at_from_half_of_the_window_on(
    window: int | None, told: int | None, characters: int, sent: int
) -> None:
    sizes = {"before": 1, "after": 1, "window": told or 131_072}
    async with against(Answer(answer(tokens=sizes)), skip_below_chars=24_000) as (chat, tap):
        chat.system, chat.leaf = "", None
        if told:
            chat.ask("x" * 3000)
            await chat.inlet()
        tap.seen.clear()
        chat.leaf, chat.window = None, window
        chat.ask("x" * characters)
        await chat.inlet()
        assert len(tap.seen) == sent


async def test_calls_of_tools_and_pictures_make_a_chat_long() -> None:
    call = step("c1", "ok")
    call[0]["tool_calls"][0]["function"]["arguments"] = "x" * 3000
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    async with wire(Answer(answer())) as tap, filter_of(tap.url, skip_below_chars=3000) as loaded:
        await Client(loaded).send([asks("Write it."), *call, says("Done."), asks("And?")])
        await Client(loaded).send([{"role": "user", "content": [picture]}])
        assert len(tap.seen) == 2


@pytest.mark.parametrize(
    ("chat_id", "valves", "hours"),
    [
        ("channel:9a0c", {"temporary_hours": 3}, []),
        ("temporary:Rj2f0", {}, []),
        ("temporary:Rj2f0", {"temporary_hours": 3}, [3]),
        ("local:x", {}, []),
        ("local:x", {"temporary_hours": 3}, [3]),
        ("", {"api_days": 2}, [48]),
    ],
)
async def test_a_chat_that_open_webui_does_not_save_is_sent_only_with_the_hours_that_it_is_kept(
    chat_id: str, valves: Json, hours: list[int]
) -> None:
    async with wire(Answer(answer())) as tap, filter_of(tap.url, **valves) as loaded:
        client = Client(loaded, chat_id=chat_id)
        turn = await client.send(conversation(3, 20), message_id="a9", user_message_id="u9")
        await client.reply(turn, "Yes.")
        sent = [(seen.body["chat"], seen.body["keep_hours"]) for seen in tap.seen]
        assert sent == [(chat_id, kept) for kept in hours], "and outlet sends nothing of it"
        assert client.host.reads == []
        assert turn.messages == turn.original


async def test_who_does_not_want_it_is_not_sent_and_the_window_still_holds() -> None:
    async with against(Answer(answer()), turns=14, tokens=250) as (chat, tap):
        chat.window, chat.wanted = 4096, chat.filter.UserValves(compress=False)
        await chat.reply(await chat.inlet(), "Yes.")
        assert tap.seen == []
        (status,) = chat.host.statuses
        assert status.startswith("Left out ")


# What becomes of the answer


async def test_the_newest_question_may_come_back_shortened() -> None:
    long = filler("long", 4000)

    def shortened(question: Json) -> Json:
        return answer([0, asks(f"{question['messages'][-1]['content'][:100]} …")])

    async with against(Scripted(shortened)) as (chat, _):
        chat.ask(long)
        turn = await chat.inlet()
        assert turn.messages[1:] == [asks(f"{long[:100]} …")]


UNFIT_PLACES: list[object] = [  # of the system message, three turns and the question: numbers 0 to 7
    [0, *RECORD, 5, 6],  # without the newest question
    [],
    [7, 6],
    [0, 7, 7],
    [-1, 7],
    [0, 8],
    [0, True, 7],
    [0, {}, 7],
    "text",
]
UNFIT: list[object] = [answer(places, status_text="Summarised") for places in UNFIT_PLACES]


def without(field: str) -> Json:
    told = answer([0, 7], status_text="Summarised")
    del told[field]
    return told


@pytest.mark.parametrize("told", [*UNFIT, without("messages"), without("state"), without("tokens")], ids=repr)
async def test_an_answer_that_does_not_fit_changes_nothing(told: object, caplog: pytest.LogCaptureFixture) -> None:
    async with against(Answer(told)) as (chat, tap):
        turn = await chat.inlet()
        assert turn.messages == turn.original
        assert chat.host.statuses == []
        await chat.reply(turn, "Yes.")
        assert len(tap.seen) == 1, "the service has no note of this turn"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "question" not in caplog.text.replace("newest question", "")


# Later calls of a turn


async def test_a_later_call_gives_the_state_back_and_shows_what_the_body_has_then() -> None:
    states = iter([{"call": 1}, {"call": 2}])

    def make(question: Json) -> Json:
        places = [0, *RECORD, *range(5, len(question["messages"]))] if question["state"] is None else None
        return answer(places, state=next(states), status_text="Summarised 4 earlier messages")

    async with against(Scripted(make)) as (chat, tap):
        turn = await chat.inlet()
        turn.body["messages"] = [*turn.messages, *step("c1", "It is 42.")]
        with chat.host.importable():
            await chat.filter.request(turn.body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
        assert [seen.body["state"] for seen in tap.seen] == [None, {"call": 1}]
        assert tap.seen[1].body["messages"] == turn.messages
        assert tap.seen[0].headers["x-request-id"] == tap.seen[1].headers["x-request-id"]
        assert turn.metadata[METADATA_KEY]["state"] == {"call": 2}
        assert chat.host.statuses == ["Summarised 4 earlier messages"], "nothing new is said"


@pytest.mark.parametrize("whose", ["admin", "user"])
async def test_who_does_not_want_the_line_has_none(whose: str) -> None:
    async with against(Answer(answer(status_text="Pending")), show_status=whose != "admin") as (chat, _):
        chat.wanted = chat.filter.UserValves(show_status=whose != "user")
        await chat.inlet()
        assert chat.host.statuses == []


# The end of a turn


async def test_the_turn_is_sent_as_it_is_stored_from_its_question_on() -> None:
    async with against(Answer(answer())) as (chat, tap):
        chat.host.titles[chat.id] = "Fish"
        turn = await chat.inlet()
        output = [called("c1"), returned("c1", "42")]
        await chat.reply(turn, "It is 42.", *output, usage={"prompt_tokens": 9})
        seen = tap.seen[-1]
        assert (seen.method, seen.path) == ("POST", "/v1/turns")
        assert seen.headers["x-request-id"] == tap.seen[0].headers["x-request-id"]
        assert (seen.body["state"], seen.body["title"]) == ({"turn": 1}, "Fish")
        assert seen.body["user_name"] == f"Name of {chat.user}"
        question, reply = seen.body["messages"]
        assert (question["id"], question["role"], question["content"]) == ("u7", "user", "The last question")
        assert (reply["id"], reply["output"], reply["usage"]) == ("a8", output, {"prompt_tokens": 9})
        assert chat.host.reads == [], "no messages are read from the database"


async def test_a_turn_is_sent_without_a_title_if_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Host):
        async def get_chat_title_by_id(self, _: str) -> str:
            raise RuntimeError("words of somebody")

    async with against(Answer(answer())) as (chat, tap):
        chat.host = Failing(chat.host.chats)
        await chat.reply(await chat.inlet(), "Yes.")
        assert "title" not in tap.seen[-1].body
    assert "words of somebody" not in caplog.text


async def test_another_chat_than_that_of_the_turn_is_not_sent() -> None:
    async with against(Answer(answer())) as (chat, tap):
        turn = await chat.inlet()
        chat.id = "chat-2"
        chat.host.chats["chat-2"] = chat.host.chats["chat-1"]
        await chat.reply(turn, "Yes.")
        assert len(tap.seen) == 1


async def test_what_a_client_reports_of_an_answer_by_itself_is_not_sent() -> None:
    """`POST /api/chat/completed` runs outlet on any chat id and any messages, with metadata of its own."""
    async with against(Answer(answer())) as (chat, tap):
        turn = await chat.inlet()
        tap.seen.clear()
        turn.metadata = {"chat_id": chat.id, "message_id": chat.leaf, "session_id": "s", "user_id": chat.user}
        await chat.reply(turn, "An answer")
        assert tap.seen == []


# Versions of Open WebUI


@pytest.mark.parametrize(
    ("version", "hook"), [("0.9.6", "inlet"), ("0.10.2", "inlet"), ("0.11.1", "inlet"), ("0.11.4", ""), ("0.12.4", "")]
)
async def test_inlet_does_the_work_where_open_webui_has_no_later_hook(version: str, hook: str) -> None:
    async with against(hides(5)) as (chat, tap):
        chat.host.version = version
        turn = chat.request(str(chat.leaf))
        with chat.host.importable():
            await chat.filter.inlet(turn.body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
            assert len(tap.seen) == (hook == "inlet")
            if not hook:
                await chat.filter.request(turn.body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
        assert turn.messages == [turn.original[0], *RECORD, *turn.original[5:]]
        await chat.reply(turn, "Yes.")
        assert tap.seen[-1].path == "/v1/turns"


# While the service is away


AWAY = [HangUp(), Silence(), Trickle(), Answer({}, 500), Answer("<html>Bad gateway</html>", 502), Answer({}, 422)]


@pytest.mark.parametrize("away", AWAY, ids=repr)
async def test_the_oldest_turns_are_left_out_for_a_note_in_the_system_message(away: Behaviour) -> None:
    async with against(away, turns=14, tokens=250, timeout=SOON) as (chat, _):
        chat.window = 4096
        turn = await chat.inlet()
        assert turn.messages[0]["content"] == f"{chat.system}\n\n{LEFT_OUT}"
        assert [one["role"] for one in turn.messages].count("system") == 1
        kept = turn.messages[1:]
        assert kept == turn.original[-len(kept) :]
        assert kept[0]["role"] == "user"
        assert 5 <= len(kept) < len(turn.original) - 1
        (status,) = chat.host.statuses
        assert status == f"Left out {len(turn.original) - len(turn.messages)} older messages to make room"


async def test_a_summary_stays_when_the_service_goes_away_within_a_turn() -> None:
    async with against(hides(5), turns=14, tokens=250) as (chat, tap):
        turn = await chat.inlet()
        tap.behaviour, before = HangUp(), turn.messages
        turn.metadata[METADATA_KEY]["window"] = 4096
        with chat.host.importable():
            await chat.filter.request(turn.body, __metadata__=turn.metadata)
        assert turn.messages[1:3] == RECORD
        assert turn.messages[-1] == before[-1]
        assert len(turn.messages) < len(before)


async def test_a_turn_that_was_cut_is_cut_further_without_the_service_and_the_line_counts_all_of_it() -> None:
    async with against(HangUp(), turns=14, tokens=250) as (chat, tap):
        chat.window = 4096
        turn = await chat.inlet()
        first = len(turn.original) - len(turn.messages)
        tap.behaviour = Answer(answer())
        tap.seen.clear()
        given = [*turn.messages, *step("c1", filler("result", 800))]
        turn.body["messages"] = given
        with chat.host.importable():
            await chat.filter.request(turn.body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
        assert tap.seen == [], "it would take what is left for another chat"
        second = len(given) - len(turn.messages)
        assert second > 0
        assert chat.host.statuses[-1] == f"Left out {first + second} older messages to make room"


@pytest.mark.parametrize(
    ("more", "is_cut"),
    [
        ({"max_tokens": 450}, False),
        ({"max_tokens": 550}, True),
        ({}, True),  # an eighth of the window, 512 tokens, is kept for an answer of unknown size
        ({"max_tokens": 450, "tools": [{"description": "x" * 300}]}, True),
    ],
)
async def test_tools_and_the_room_for_the_answer_count(more: Json, is_cut: bool) -> None:
    async with against(HangUp()) as (chat, _):
        chat.system, chat.leaf, chat.window = "", None, 4096
        for _ in range(2):
            chat.ask("x" * 3 * 1800)
            chat.answer("Yes.")
        chat.ask("And now?")
        turn = chat.request(str(chat.leaf))
        turn.body |= more
        await chat.enter(turn)
        assert (turn.messages != turn.original) is is_cut
        assert bool(chat.host.statuses) is is_cut


def stopped(chat: Chat) -> list[float]:
    """The filter's clock, at 0 seconds; it stands still unless a test sets it."""
    now = [0.0]
    type(chat.filter).inlet.__globals__["time"] = SimpleNamespace(monotonic=lambda: now[0])
    return now


async def ask(chat: Chat, times: int = 1) -> list[Turn]:
    return [await chat.inlet() for _ in range(times)]


@pytest.mark.parametrize("away", [Answer({}, 500), Answer("<html>Bad gateway</html>", 502), HangUp(), Silence()])
async def test_after_three_failures_in_a_row_the_service_is_left_alone(away: Behaviour) -> None:
    async with against(away, timeout=SOON if away == Silence() else PATIENCE) as (chat, tap):
        now = stopped(chat)
        while chat.filter._failures < 3:
            await ask(chat)
        seen = len(tap.seen)
        await ask(chat, 5)
        assert len(tap.seen) == seen
        now[0] = PAUSE
        tap.behaviour = Answer(answer())
        await ask(chat, 2)
        assert len(tap.seen) == seen + 2


async def test_after_the_pause_one_request_tries_and_the_others_do_not_wait_for_it() -> None:
    async with against(Answer({}, 500)) as (chat, tap):
        now = stopped(chat)
        await ask(chat, 3)
        now[0], tap.behaviour = PAUSE, Silence()
        tap.seen.clear()
        tap.arrived.clear()
        probe = asyncio.create_task(chat.inlet())
        await tap.arrived.wait()
        with chat.host.importable():
            await asyncio.gather(*(chat.inlet() for _ in range(5)))
        assert len(tap.seen) == 1
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)


REFUSALS = [Answer({}, status) for status in (401, 403, 404, 410, 413, 422, 426, 429)]
KEY_IS_MISSING = Answer({"type": "urn:precis:problem:key-missing"}, 503)  # of some chats alone


@pytest.mark.parametrize("refusal", [*REFUSALS, KEY_IS_MISSING], ids=repr)
async def test_a_refusal_is_no_outage(refusal: Answer, caplog: pytest.LogCaptureFixture) -> None:
    async with against(refusal) as (chat, tap):
        await ask(chat, 5)
        assert len(tap.seen) == 5
    assert f"'{refusal.status} " in caplog.text


async def test_a_stop_goes_through_and_is_no_failure() -> None:
    async with against(Silence()) as (chat, tap):
        for _ in range(4):
            tap.arrived.clear()
            task = asyncio.create_task(chat.inlet())
            await tap.arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert chat.filter._failures == 0


@pytest.mark.parametrize("failure", ["raises", "hangs", "is no function"])
async def test_an_event_emitter_that_fails_costs_only_the_status_line(
    failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def emit(_: Json) -> None:
        if failure == "raises":
            raise RuntimeError("words of somebody")
        await asyncio.Event().wait()

    async with against(hides(5), timeout=1.0) as (chat, _):
        turn = chat.request(str(chat.leaf))
        emitter: Any = emit if failure != "is no function" else object()
        with chat.host.importable():
            await asyncio.wait_for(
                pass_hooks(chat.filter, turn.body, __metadata__=turn.metadata, __event_emitter__=emitter), 30
            )
        assert turn.messages[1:3] == RECORD
    assert "words of somebody" not in caplog.text


@pytest.mark.parametrize("body", [None, [], "text", 7, {}, {"messages": None}, {"messages": [1]}])
async def test_a_body_that_is_none_comes_back(body: Any) -> None:
    async with against(Answer(answer())) as (chat, _):
        for metadata in (None, {}, {"chat_id": 7}):
            assert await chat.filter.inlet(body, __metadata__=metadata) is body
            assert await chat.filter.request(body, __metadata__=metadata) is body
            assert await chat.filter.outlet(body, __metadata__=metadata) is body


async def test_open_webui_cannot_be_imported() -> None:
    async with against(Answer(answer())) as (chat, tap):
        turn = chat.request(str(chat.leaf))
        await chat.filter.inlet(turn.body, __metadata__=turn.metadata)
        assert turn.messages == turn.original
        assert len(tap.seen) == 1, "of no version is taken for an old one"


@pytest.mark.parametrize("key", ["precis-secret\n", " precis-secret", "\u201cprecis-secret\u201d", "precis-\x00secret"])
async def test_a_key_that_was_pasted_badly_works_and_stays_out_of_the_log(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with against(Answer(answer())) as (chat, tap):
        chat.filter.valves.api_key = key
        await chat.inlet()
        assert tap.seen[0].headers["authorization"] == "Bearer precis-secret"
    assert "secret" not in caplog.text


@pytest.mark.parametrize("behaviour", [*AWAY, Answer("[1"), Answer([]), Answer(answer([7, 7]))], ids=repr)
async def test_the_log_has_nothing_of_the_chat(behaviour: Behaviour, caplog: pytest.LogCaptureFixture) -> None:
    async with against(behaviour, timeout=SOON) as (chat, _):
        chat.ask("words of somebody")
        await chat.reply(await chat.inlet(), "words of somebody")
    assert caplog.records
    assert "words of somebody" not in caplog.text


async def test_two_requests_at_once_do_not_mix() -> None:
    async with against(hides(5)) as (chat, tap):
        other = Chat(chat.host, chat.filter, "chat-2", system="Another prompt.")
        other.grow(3, 20)
        other.ask("The other last question")
        with chat.host.importable():
            turns = await asyncio.gather(*(one.inlet() for one in (chat, other) * 5))
        for turn in turns:
            assert turn.messages == [turn.original[0], *RECORD, *turn.original[5:]]
        assert len({seen.headers["x-request-id"] for seen in tap.seen}) == 10


# Who answers


async def test_the_check_of_an_admin_is_asked_also_while_the_service_is_left_alone() -> None:
    async with against(Answer({}, 500)) as (chat, tap):
        await ask(chat, 3)
        tap.behaviour = Answer({"version": "1"})
        body = {"chat_id": "", "messages": [], "precis_check": True}
        await chat.filter.outlet(body, __user__={"role": "admin"})
        assert body["precis_check"] == {"version": "1"}


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [(HangUp(), "disconnected|ReadError"), (Answer({}, 401), r"\b401\b"), (Answer({}, 426), "426")],
)
async def test_the_check_says_why_the_service_cannot_be_asked(behaviour: Behaviour, said: str) -> None:
    async with against(behaviour) as (chat, _):
        body: Json = {"precis_check": True}
        assert await chat.filter.outlet(body, __user__={"role": "admin"}) is body
        assert re.search(said, body["precis_check"]["error"])


async def test_the_check_is_for_admins_alone() -> None:
    async with against(Answer({"version": "1"})) as (chat, tap):
        body = {"precis_check": True}
        await chat.filter.outlet(body, __user__={"role": "user"})
        assert body["precis_check"] is True
        assert tap.seen == []


# The note


async def test_the_note_stands_once_at_the_end_of_the_first_system_message() -> None:
    system = {"role": "system", "content": "Be brief."}
    once = precis_filter.add_note([system, asks("Hello.")])
    assert once == [{"role": "system", "content": f"Be brief.\n\n{LEFT_OUT}"}, asks("Hello.")]
    assert precis_filter.add_note(once) == once
    assert precis_filter.add_note([asks("Hello.")])[0] == {"role": "system", "content": LEFT_OUT}
    assert system == {"role": "system", "content": "Be brief."}, "the list of Open WebUI is not changed"
