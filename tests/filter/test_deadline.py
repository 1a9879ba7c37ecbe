"""A dead or slow service: nobody waits long, it is left alone for a while, and the last answer of a chat serves on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from filter_stub.precis_filter import PAUSE
from tests.filter.chat import PATIENCE, Chat, Turn
from tests.filter.host import Host
from tests.filter.staged import MADE, NOT_NEEDED, against, chat_of, good_answer, summarised
from tests.filter.wire import Answer, Behaviour, HangUp, Silence, Trickle, Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOON = 0.2  # seconds of the deadline where the service never answers


@pytest.mark.parametrize("behaviour", [Silence(), Trickle(), HangUp()])
async def test_a_service_that_never_ends_its_answer_does_not_hold_a_request(behaviour: Behaviour) -> None:
    """That inlet returns at all shows it: this wire goes on for ever."""
    async with against(behaviour, timeout=SOON) as (chat, _):
        turn = await chat.inlet()
        assert turn.messages == turn.original
        chat.answer("An answer")
        body = {"chat_id": chat.id, "model": "m", "messages": chat.path()}
        assert await chat.filter.outlet(body, __metadata__=turn.metadata) is body


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
        stopped(chat)
        while chat.filter._failures < 3:
            await ask(chat)
        seen = len(tap.seen)
        turns = await ask(chat, 5)
        await chat.reply(turns[-1], "An answer")
        assert len(tap.seen) == seen, "nothing is handed over either"
        assert all(turn.messages == turn.original for turn in turns)
        assert chat.host.statuses == []


async def opened(chat: Chat, tap: Wire) -> list[float]:
    """Three failures, and then the pause is over; the clock."""
    now = stopped(chat)
    await ask(chat, 3)
    now[0] = PAUSE
    tap.seen.clear()
    return now


async def test_after_the_pause_one_request_tries_and_the_others_do_not_wait_for_it() -> None:
    async with against(Answer({}, 500)) as (chat, tap):
        now = await opened(chat, tap)
        tap.behaviour = Silence()
        tap.arrived.clear()
        probe = asyncio.create_task(chat.inlet())
        await tap.arrived.wait()
        turns = await asyncio.gather(*(chat.inlet() for _ in range(5)))  # while the first one waits
        assert len(tap.seen) == 1
        assert all(turn.messages == turn.original for turn in turns)

        probe.cancel()  # its user presses stop
        await asyncio.gather(probe, return_exceptions=True)
        tap.behaviour, now[0] = Answer(good_answer(chat)), 2 * PAUSE
        assert (await chat.inlet()).served == 7


@pytest.mark.parametrize("status", [401, 403, 404, 413, 422, 426, 429])
async def test_a_refusal_is_an_answer_of_a_service_that_lives_and_changes_nothing(status: int) -> None:
    async with against(Answer({})) as (chat, tap):
        tap.behaviour = Answer(good_answer(chat), status)
        turns = await ask(chat, 5)
        assert len(tap.seen) == 5
        assert all(turn.messages == turn.original for turn in turns)
        chat.answer("An answer")
        await chat.outlet(turns[-1])
        # What is refused because of its shape is tried as a shorter text, and then given up.
        tries = 3 if status in (413, 422) else 1
        assert tap.asked[5:] == ["PUT transcript"] * tries


async def test_a_branch_that_is_refused_whole_is_not_sent_again_and_again() -> None:
    async with against(Answer({}, 409)) as (chat, tap):
        turn = await chat.inlet()
        await chat.reply(turn, "An answer")
        assert tap.asked == ["POST context", "PUT transcript", "PUT transcript"]


async def test_a_service_that_lacks_a_key_is_not_left_alone_and_is_sent_no_more_than_the_turn() -> None:
    async with against(Answer({})) as (chat, tap):
        for number in range(5):
            tap.behaviour = Answer({"status": "unknown", "known": chat.path(chat.leaf)[-2]["id"]})
            turn = await chat.inlet()
            assert turn.messages == turn.original
            tap.behaviour = Answer({"type": "urn:precis:problem:key-missing", "status": 503}, 503)
            await chat.reply(turn, f"Answer {number}")
            assert chat.filter._failures == 0
            assert len(tap.bodies("PUT")[-1]["messages"]) == 2
            chat.ask(f"Question {number}")
        assert tap.asked == ["POST context", "PUT transcript"] * 5


async def test_a_user_who_presses_stop_is_no_failure_of_the_service() -> None:
    async with against(Silence()) as (chat, tap):
        for _ in range(4):
            tap.arrived.clear()
            task = asyncio.create_task(chat.inlet())
            await tap.arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert chat.filter._failures == 0


async def test_a_database_that_hangs_is_no_failure_of_the_service() -> None:
    class Stuck(Host):
        async def get_messages_map_by_chat_id(self, _: str) -> Any:
            await asyncio.Event().wait()

    async with against(Answer({}), timeout=SOON) as (chat, tap):
        chat.host = Stuck()
        chat.host.chats[chat.id] = chat_of(None).rows
        turns = await ask(chat, 4)
        assert all(turn.messages == turn.original for turn in turns)
        assert tap.seen == []
        assert chat.filter._failures == 0


async def test_the_check_of_an_admin_is_asked_also_while_the_service_is_left_alone() -> None:
    """Somebody has mended something, and wants to know."""
    async with against(Answer({}, 500)) as (chat, tap):
        await ask(chat, 3)
        tap.behaviour = Answer({"version": "1"})
        body = {"chat_id": "", "messages": [], "precis_check": True}
        await chat.filter.outlet(body, __user__={"role": "admin"})
        assert body["precis_check"] == {"version": "1"}
        tap.behaviour = Answer(good_answer(chat))
        assert (await ask(chat))[0].served == 7


async def test_the_check_says_why_the_service_cannot_be_asked() -> None:
    async with against(HangUp()) as (chat, _):
        body: dict[str, Any] = {"precis_check": True}
        assert await chat.filter.outlet(body, __user__={"role": "admin"}) is body
        assert list(body["precis_check"]) == ["error"]


# The last answer of a chat


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


async def test_it_does_not_serve_a_branch_that_it_does_not_fit() -> None:
    async with served() as (chat, _):
        chat.rows["u1"]["content"] = "Edited below the boundary"
        chat.ask("And now?")
        turn = await chat.inlet()
        assert turn.messages == turn.original
        assert turn.served == 0


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


async def test_only_failures_in_a_row_count() -> None:
    async with against(Answer({})) as (chat, tap):
        for _ in range(3):
            tap.behaviour = Answer({}, 500)
            await ask(chat, 2)
            tap.behaviour = NOT_NEEDED
            await ask(chat)
        assert len(tap.seen) == 9


async def test_the_check_is_for_admins_alone() -> None:
    async with against(Answer({"version": "1"})) as (chat, tap):
        body = {"precis_check": True}
        await chat.filter.outlet(body, __user__={"role": "user"})
        assert body["precis_check"] is True
        assert tap.seen == []
