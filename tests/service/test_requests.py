"""`POST /v1/compress` and `/v1/turns`: what a request is sent as, by content alone."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from service.storage import contexts
from service.storage.database import Database
from service.storage.tables import ChatKey
from tests.conftest import Service, drain
from tests.service.grown import summarised
from tests.service.harness import Harness, running
from tests.service.talk import Json, Talk, check_tree, prose, rows
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_small_chat_is_sent_as_it_is(talk: Talk) -> None:
    leaf = talk.turns(2)
    assert await talk.ingest(leaf) is False

    answer = await talk.ask(leaf)

    assert (answer["status"], answer["messages"], answer["status_text"]) == ("not_needed", None, None)
    assert answer["tokens"]["before"] == answer["tokens"]["after"]


async def test_a_turn_that_began_without_a_summary_goes_on_without_while_it_fits(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)
    first = await talk.ask(leaf)
    assert first["status"] == "ready"
    began_without = first["state"] | {"served": 0}
    # The whole is above the bound of this window, and fits into it.
    window = int(first["tokens"]["before"] / 0.82)

    without = await talk.ask(leaf, state=began_without, window=window)
    with_one = await talk.ask(leaf, state=first["state"], window=window)
    small = await talk.ask(leaf, state=began_without)

    assert (without["status"], without["messages"]) == ("not_needed", None)
    assert with_one["status"] == "ready"
    assert small["status"] == "ready", "it does not fit without"


async def test_a_user_is_told_a_summary_in_one_turn_and_not_in_an_unsaved_chat(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)

    async def ask(**more: object) -> Json:
        response = await talk.client.post("/v1/compress", json=talk.request(leaf, **more))
        answer: Json = response.json()
        assert answer["status"] == "ready"
        return answer

    first = await ask()
    later, unsaved = await ask(state=first["state"]), await ask(keep_hours=1)
    await talk.finish(first, talk.add("answer", talk.add("question", leaf, content="And then?"), "assistant"))
    next_turn = await ask()

    told = [answer["summary"] is not None for answer in (first, later, unsaved, next_turn)]
    assert told == [True, False, False, False]


async def test_a_request_that_waits_for_its_summary_confirms_nothing_of_what_it_shows(harness: Harness) -> None:
    leaf = harness.talk.turns(40)

    async def is_due() -> bool:
        return bool(await rows(harness.runtime, "select 1 from chats where due_at is not null"))

    async with running(harness.talk.ask(leaf, seconds=30)) as asked:
        await until(is_due)
        await harness.drain()
        answer = await asked
    await harness.service.stored()

    assert answer["status"] == "ready"
    assert not await rows(harness.runtime, "select 1 from messages where confirmed")
    assert not harness.llm.requests, "no model reads what another filter may have put in front"
    await harness.talk.ask(harness.talk.turns(1, leaf=leaf))
    await harness.service.stored()
    assert await rows(harness.runtime, "select 1 from messages where confirmed")


async def test_beside_tools_that_leave_little_an_answer_still_has_its_third(talk: Talk, service: Service) -> None:
    leaf = talk.turns(6)
    tools = [{"type": "function", "function": {"name": "look_up", "description": prose(5_600, "tool")}}]

    answer = await talk.ask(leaf, window=8192, tools=tools)
    await service.stored()

    beside = answer["state"]["beside"]
    left = 8192 - beside
    assert 0 < left < 3_000
    assert beside < answer["tokens"]["after"] <= 8192 - left // 3


async def test_a_path_that_is_stored_while_a_request_looks_for_it_is_found(
    talk: Talk, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its beginning is taken for one that changes in every turn."""
    leaf = talk.turns(6, tokens=60)
    await talk.ingest(leaf)
    talk.edit(talk.path(leaf)[0]["id"], "Something else altogether.")
    look = contexts.find_doubts

    async def doubts_after_another(database: Database, chat: ChatKey) -> contexts.Doubts:
        monkeypatch.undo()
        await talk.ask(leaf)
        await service.stored()
        return await look(database, chat)

    monkeypatch.setattr(contexts, "find_doubts", doubts_after_another)
    await talk.ask(leaf)
    await service.stored()

    paths = await rows(service.runtime, "select max(depth), bool_and(confirmed) from messages where host_id is null")
    assert [tuple(one) for one in paths] == [(len(talk.path(leaf)), True)]


@pytest.mark.parametrize(
    "asked",
    [("first", "first", "old", "new", "new"), ("old", "first")],
    ids=["in a place where two others show something else", "below the place where the next goes on"],
)
async def test_what_one_request_has_shown_goes(talk: Talk, service: Service, asked: Sequence[str]) -> None:
    leaves = {"first": talk.turns(1)}
    leaves |= {name: talk.turns(2, leaf=leaves["first"], prefix=name) for name in ("old", "new")}

    for name in asked:
        await talk.ask(leaves[name])
        await service.stored()

    stored = await rows(service.runtime, "select depth from messages order by depth")
    assert [one.depth for one in stored] == [*range(1, len(talk.path(leaves[asked[-1]])) + 1)]


Change = Callable[[list[Json], int], list[Json]]


def time_in_front(messages: list[Json], turn: int) -> list[Json]:
    """Another filter tells the time before the chat."""
    return [messages[0], {"role": "user", "content": f"It is 14:{turn:02}."}, *messages[1:]]


def time_in_the_first_question(messages: list[Json], turn: int) -> list[Json]:
    """Another filter adds the time to the first question."""
    system, first, *rest = messages
    return [system, first | {"content": f"(It is 14:{turn:02}.) {first['content']}"}, *rest]


def time_in_all_questions(messages: list[Json], turn: int) -> list[Json]:
    """Another filter adds the time to every question, whenever that was asked."""
    return [
        one | {"content": f"(It is 14:{turn:02}.) {one['content']}"} if one["role"] == "user" else one
        for one in messages
    ]


async def played(service: Service, talk: Talk, change: Change, work: Callable[[], Awaitable[object]]) -> list[Json]:
    """Turns of a long chat, of which another filter changes each request; the answers to the requests."""
    leaf, answers = talk.turns(20), []
    for turn in range(6):
        question = talk.add(f"question{turn}", leaf)
        asked = talk.request(question)
        asked["messages"] = change(asked["messages"], turn)
        response = await talk.client.post("/v1/compress", json=asked)
        assert response.status_code == 200
        await service.stored()
        answers.append(response.json())
        leaf = talk.add(f"answer{turn}", question, "assistant")
        await talk.finish(answers[-1], leaf)
        await work()
    return answers


@pytest.mark.parametrize("change", [time_in_front, time_in_the_first_question])
async def test_what_changes_at_the_beginning_stays_as_it_is_and_the_rest_is_summarised(
    talk: Talk, service: Service, change: Change
) -> None:
    answers = await played(service, talk, change, lambda: drain(service.runtime))

    assert [answer["status"] for answer in answers[2:]] == ["ready"] * 4
    for answer in answers[2:]:
        system, first = answer["messages"][:2]
        assert (system, first) == (0, 1), "what changes stays in front"
    stored = await rows(service.runtime, "select 1 from messages")
    assert len(stored) <= 2 * len(talk.rows)
    assert [answer["whole"] for answer in answers[2:]] == [False] * 4
    await check_tree(service.runtime)


async def test_a_chat_of_which_no_request_is_like_another_is_stored_once_and_no_model_reads_it(
    harness: Harness,
) -> None:
    answers = await played(harness.service, harness.talk, time_in_all_questions, harness.work_off)

    assert [answer["whole"] for answer in answers] == [True, *[False] * 5], "the whole branch is asked for once"
    stored = await rows(harness.runtime, "select 1 from messages")
    assert len(stored) <= 2 * len(harness.talk.rows)
    assert not harness.llm.requests
