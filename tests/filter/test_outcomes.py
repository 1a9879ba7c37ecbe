"""The filter tells the service what became of each request, with the next upload of its chat: `Precis-Outcomes`."""

import pytest

from tests.conftest import Service, drain
from tests.filter.chat import Chat, filler, ingested
from tests.filter.client import Client, asks, conversation
from tests.filter.staged import NOT_NEEDED, against, good_answer, summarised
from tests.filter.wire import Answer, HangUp, Wire
from tests.service.talk import row
from tests.service.test_metrics import counted

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORED = Answer({"due": False}, 202)
UNKNOWN = Answer({"status": "unknown"})


def reports(tap: Wire) -> list[str]:
    """What uploads reported, those that had something to report."""
    told = [one.headers.get("precis-outcomes") for one in tap.seen if one.method == "PUT"]
    return [report for report in told if report is not None]


async def turn_of(chat: Chat, tap: Wire, answer: Answer | HangUp) -> None:
    """A turn whose request is answered so, and whose upload is stored."""
    tap.behaviour = answer
    turn = await chat.inlet()
    tap.behaviour = STORED
    await chat.reply(turn, "An answer")
    chat.ask("Go on")


async def test_a_request_is_reported_with_its_own_upload_once() -> None:
    async with summarised() as (chat, tap):
        await turn_of(chat, tap, Answer(good_answer(chat)))
        await turn_of(chat, tap, NOT_NEEDED)
        assert reports(tap) == ["compressed=1", "unchanged=1"]
        assert [one.headers.get("precis-outcomes") for one in tap.seen if one.method == "POST"] == [None, None]


async def test_what_was_cut_is_told_apart_with_and_without_a_summary() -> None:
    async with against(UNKNOWN, window_tokens=2048) as (chat, tap):
        chat.ask(filler("long", 4000))
        await turn_of(chat, tap, UNKNOWN)
        chat.ask(filler("long", 4000))
        await turn_of(chat, tap, Answer(good_answer(chat) | {"window": 2048}))
        assert reports(tap) == ["truncated=1", "truncated_with_summary=1"]


async def test_requests_while_the_service_is_away_are_reported_when_it_is_back() -> None:
    async with summarised() as (chat, tap):
        turn = await chat.inlet()
        tap.behaviour = HangUp()
        await chat.reply(turn, "Not stored")
        chat.ask("And now?")
        turn = await chat.inlet()
        await chat.reply(turn, "Not stored either")
        chat.ask("And now?")
        chat.filter._failures = 0  # the pause is over

        await turn_of(chat, tap, NOT_NEEDED)

        assert reports(tap)[-1] == "compressed=2, away=1, unchanged=1"
        await turn_of(chat, tap, NOT_NEEDED)
        assert reports(tap)[-1] == "unchanged=1"


@pytest.mark.parametrize("refused", [Answer({}, 500), Answer({}, 422)])
async def test_what_the_service_has_not_stored_is_reported_again(refused: Answer) -> None:
    async with against(NOT_NEEDED) as (chat, tap):
        turn = await chat.inlet()
        tap.behaviour = refused
        await chat.reply(turn, "An answer")
        chat.ask("Go on")
        await turn_of(chat, tap, NOT_NEEDED)
        assert set(reports(tap)[:-1]) == {"unchanged=1"}
        assert reports(tap)[-1] == "unchanged=2"


async def test_all_model_calls_of_a_turn_are_one_request_and_the_last_one_counts() -> None:
    async with against(UNKNOWN, window_tokens=2048) as (chat, tap):
        turn = await chat.inlet()
        for tokens in (10, 4000):
            turn.body["messages"][-1]["content"] = filler("grown", tokens)
            await chat.filter.request(turn.body, __metadata__=turn.metadata)
        tap.behaviour = STORED
        await chat.reply(turn, "An answer")
        assert reports(tap) == ["truncated=1"]


async def test_a_chat_without_ids_reports_too() -> None:
    async with against(UNKNOWN) as (chat, tap):
        client = Client(chat.filter)
        talk = conversation(3)
        tap.behaviour = Answer(
            {"status": "not_needed", "known": None, "tokens": {"before": 1, "after": 1}, "due": False}
        )
        for _ in range(2):
            await client.send([*talk, asks("And?")])
            await ingested(chat.filter)
        assert reports(tap) == ["unchanged=1", "unchanged=1"]


async def test_a_real_service_counts_the_report(chat: Chat, service: Service) -> None:
    now = await counted(service)
    chat.grow(8, 450)
    await chat.say("How far are we?", "Quite far.")
    await drain(service.runtime)
    turn = await chat.say("Go on.", "Gone on.")
    assert turn.served

    await service.runtime.counting.store()

    found = await row(service.runtime, "select user_id, tokens_not_sent, truncated from sums")
    assert (found.user_id, found.truncated) == (chat.user, 0)
    assert found.tokens_not_sent > 1000
    grown = [await now.since("precis_filter_outcomes_total", outcome=name) for name in ("compressed", "unchanged")]
    assert grown == [1, 1]
