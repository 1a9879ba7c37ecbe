"""The summary as a source of the answer: shown once, after all other sources, and part of no request."""

import asyncio
from typing import Any

import pytest

from filter_stub.precis_filter import chain
from service.demo.host import Host
from tests.filter.chat import Chat, Turn
from tests.filter.client import Client, conversation
from tests.filter.staged import MADE, NOT_NEEDED, UNKNOWN, against, good_answer, summarised
from tests.filter.wire import Answer, Behaviour, HangUp

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]


def source(text: str = MADE, checkpoint: int = 7) -> Json:
    """What Open WebUI is given to show and to save."""
    named = {"source": {"name": "Summary of 2 earlier messages"}, "document": [text]}
    return named | {"metadata": [{"source": f"precis {checkpoint}"}]}


async def ready(chat: Chat) -> Turn:
    """A whole turn."""
    turn = await chat.inlet()
    await chat.reply(turn, "An answer")
    return turn


async def test_the_summary_is_shown_when_the_answer_is_there() -> None:
    async with summarised(show_summary=True) as (chat, _):
        turn = await chat.inlet()
        assert chat.host.sources == []  # or Open WebUI would leave out the documents of this turn
        await chat.reply(turn, "An answer")

    assert chat.host.sources == [source()]
    assert turn.summary == MADE
    assert chat.host.statuses == ["Summarised 2 earlier messages: 9k → 3k tokens"]


async def test_by_default_it_is_not_and_the_request_is_the_same() -> None:
    requests = []
    for shown in (True, False):
        async with summarised(show_summary=shown) as (chat, _):
            requests.append((await ready(chat)).messages)

    assert requests[0] == requests[1]
    assert chat.filter._sources == {}
    assert chat.host.sources == []


async def test_a_tool_loop_shows_it_once() -> None:
    async with summarised(show_summary=True) as (chat, _):
        turn = await chat.inlet()
        for _ in range(3):
            await chat.filter.request(turn.body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
        await chat.reply(turn, "An answer")

    assert chat.host.sources == [source()]


@pytest.mark.parametrize("answer", [NOT_NEEDED, UNKNOWN, HangUp(), {"covered_digest": "0" * 32}], ids=repr)
async def test_without_a_summary_that_fits_there_is_nothing_to_show(answer: Behaviour | Json) -> None:
    async with against(NOT_NEEDED, show_summary=True) as (chat, tap):
        tap.behaviour = Answer(good_answer(chat) | answer) if isinstance(answer, dict) else answer
        turn = await ready(chat)

    assert turn.messages == turn.original
    assert chat.host.sources == []


async def test_the_last_summary_is_shown_too_while_precis_is_away() -> None:
    async with summarised(show_summary=True) as (chat, tap):
        await ready(chat)
        tap.behaviour = HangUp()
        chat.ask("And now?")
        await ready(chat)

    assert chat.host.sources == [source(), source()]


async def test_an_answer_that_goes_on_shows_an_equal_summary_once_and_a_newer_one_beside_it() -> None:
    async with against(Answer({}), show_summary=True) as (chat, tap):
        question = chat.leaf
        tap.behaviour = Answer(good_answer(chat))
        await ready(chat)
        answer = str(chat.leaf)
        for checkpoint in (7, 8):
            chat.rows[answer]["sources"] = list(chat.host.sources)  # as Open WebUI saves them
            tap.behaviour = Answer(good_answer(chat) | {"checkpoint_id": checkpoint})
            turn = await chat.inlet(question, message_id=answer)
            await chat.outlet(turn, answer)

    assert chat.host.sources == [source(), source(checkpoint=8)]


async def test_a_saved_source_changes_no_digest_and_no_later_request() -> None:
    asked = []
    for saved in ([], [source()]):
        async with summarised() as (chat, tap):
            await ready(chat)
            if saved:
                chat.rows[str(chat.leaf)]["sources"] = saved
            chat.filter._remembered.clear()  # so that the rows are read
            chat.ask("And now?")
            turn = await chat.inlet()
            asked.append((turn.messages, chain(chat.path()), tap.bodies("POST")[-1]["path"]))

    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("answer", "others", "shown"),
    [
        ("The first one is x[0].", [], False),
        ("As they say [1, 2].", [], False),
        ("```\nx[0]\n", [], False),  # cut off
        ("```python\nx[0]\n```\nThat is `x[0]`, [see](https://example.org/[1]).", [], False),
        ("```python\nx[0]\n```\nThat is `x[0]`, [see](https://example.org/1).", [], True),
        ("As they say [1].", [{"source": {"name": "a document"}, "document": ["d"], "metadata": [{}]}], True),
    ],
)
async def test_an_answer_with_numbers_of_its_own_in_brackets_stays_as_it_is(
    answer: str, others: list[Json], shown: bool
) -> None:
    """With a source under it, the page would show them as links to that, or not at all."""
    async with summarised(show_summary=True) as (chat, _):
        turn = await chat.inlet()
        await chat.reply(turn, answer, sources=others)

    assert chat.host.sources == ([source()] if shown else [])


async def test_it_is_kept_for_its_own_answer_and_no_longer() -> None:
    async with summarised(show_summary=True) as (chat, _):
        turns = [await chat.inlet(message_id=one) for one in ("a8", "another")]
        chat.answer("An answer")
        await chat.outlet(turns[0])
        assert list(chat.filter._sources) == ["another"]
        await chat.outlet(turns[0])

    assert chat.host.sources == [source()]


async def test_nothing_is_kept_for_an_api_client() -> None:
    async with summarised(show_summary=True) as (chat, _):
        assert (await chat.inlet(message_id=None)).served == 7
        client = Client(chat.filter)
        await client.reply(await client.send(conversation(3)), "An answer")
        assert chat.filter._sources == {}


class Stuck(Host):
    """A page that does not come to an end."""

    async def emit(self, _: Json) -> None:
        await asyncio.Event().wait()


class Broken(Host):
    """A page that is gone."""

    async def emit(self, _: Json) -> None:
        raise ConnectionError


@pytest.mark.parametrize("host", [Stuck, Broken])
async def test_a_page_that_does_not_take_it_breaks_nothing(host: type[Host]) -> None:
    async with summarised(show_summary=True) as (chat, tap):
        turn = await chat.inlet()
        chat.answer("An answer")
        chat.filter.valves.timeout = 0.05
        chat.host = host(chat.host.chats)
        await chat.outlet(turn)
        assert tap.asked == ["POST context", "PUT transcript"]
