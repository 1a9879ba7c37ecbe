"""While Precis is away, the last answer of a chat serves on, as far as it still fits."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.filter.chat import Chat, ingested
from tests.filter.staged import MADE, against, good_answer, summarised
from tests.filter.wire import Answer, HangUp, Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

AWAY = [HangUp(), Answer({}, 500), Answer("<html>Bad gateway</html>", 502), Answer({}, 422), Answer("{}")]


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[Chat, Wire]]:
    """A chat that has had a turn with a summary; now the service is away."""
    async with summarised() as (chat, tap):
        turn = await chat.inlet()
        assert turn.served == 7
        await chat.reply(turn, "An answer")
        chat.host.statuses.clear()
        tap.behaviour = HangUp()
        yield chat, tap


@pytest.mark.parametrize("away", AWAY)
async def test_the_last_summary_serves_on(away: HangUp | Answer) -> None:
    async with served() as (chat, tap):
        tap.behaviour = away
        for number in range(5):
            chat.ask(f"While away {number}")
            turn = await chat.inlet()
            assert turn.served == 7
            assert turn.summary == MADE
            assert turn.hidden == turn.original[1:3]
            await chat.reply(turn, "An answer")
        assert set(chat.host.statuses) == {"Summarised 2 earlier messages"}


async def test_it_serves_on_while_the_service_is_not_even_asked() -> None:
    async with served() as (chat, tap):
        chat.filter._failures, chat.filter._again_at = 3, float("inf")
        tap.seen.clear()
        chat.ask("And now?")
        assert (await chat.inlet()).summary == MADE
        assert tap.seen == []


async def test_it_does_not_serve_a_branch_that_it_does_not_fit() -> None:
    async with served() as (chat, _):
        chat.rows["u1"]["content"] = "Edited below the boundary"
        chat.ask("And now?")
        turn = await chat.inlet()
        assert turn.messages == turn.original
        assert turn.served == 0


async def test_it_serves_a_branch_that_leaves_below_the_boundary() -> None:
    async with served() as (chat, _):
        chat.leaf = "a4"
        chat.ask("Another way")
        turn = await chat.inlet()
        assert turn.summary == MADE
        assert turn.hidden == turn.original[1:3]


async def test_it_serves_only_the_model_that_it_was_for() -> None:
    async with served() as (chat, _):
        chat.ask("And now?")
        turn = chat.request(str(chat.leaf))
        turn.body["model"] = "another-model"
        await chat.enter(turn)
        assert turn.messages == turn.original


@pytest.mark.parametrize("answer", [{"status": "unknown"}, {"status": "pending", "tokens": {"before": 9, "after": 9}}])
async def test_what_the_service_takes_back_is_not_used_any_more(answer: dict[str, object]) -> None:
    """An operator has deleted the chat, or reset it."""
    async with served() as (chat, tap):
        tap.behaviour = Answer(answer)
        chat.ask("And now?")
        await chat.inlet()
        tap.behaviour = HangUp()
        turn = await chat.inlet()
        assert turn.messages == turn.original


async def test_only_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with against(Answer({})) as (chat, tap):
        monkeypatch.setitem(type(chat.filter)._take.__globals__, "REMEMBERED", 2)
        tap.behaviour = Answer({"status": "pending", "tokens": {"before": 9, "after": 9}})
        for number in range(4):
            other = Chat(chat.host, chat.filter, f"other-{number}")
            other.ask("Hello.")
            await other.inlet()
        await ingested(chat.filter)
        assert list(chat.filter._last) == [("other-2", "small-model"), ("other-3", "small-model")]


async def test_the_status_says_that_precis_is_away_where_a_request_was_cut() -> None:
    async with against(HangUp(), window_tokens=2048) as (chat, _):
        for number in range(4):
            chat.answer("word " * 400)
            chat.ask(f"And {number}?")
        await chat.inlet()
        (line,) = chat.host.statuses
        assert line.endswith(" older messages: Precis is away")


async def test_a_tail_longer_than_the_first_question_is_asked_about_once_more_and_then_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with against(Answer({})) as (chat, tap):
        monkeypatch.setitem(type(chat.filter)._ask.__globals__, "QUESTIONS", 3)
        tap.behaviour = Answer(good_answer(chat))
        turn = await chat.inlet()
        assert turn.hidden == turn.original[1:3]
        await chat.inlet()
        assert [len(body["native"]["questions"]) for body in tap.bodies("POST")] == [3, 4, 4]
