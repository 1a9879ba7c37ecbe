"""Chats without ids: API clients, temporary chats, clients of other makers. They are known by what was said."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from service.transcript import Native
from tests.builders import Json
from tests.conftest import Service, drain
from tests.filter.chat import filler, filter_of
from tests.filter.client import Client, asks, conversation, says, step
from tests.service.talk import rows

TAB = "temporary:Rj2f0VwosbhFc1DAAAAB"
IN_A_TAB: Json = {"user_message_id": "u9", "message_id": "a9", "user_message": {"id": "u9", "parentId": "a8"}}


@pytest_asyncio.fixture(loop_scope="module")
async def client(roomy: Service) -> AsyncIterator[Client]:
    """A client of a service that never cuts."""
    async with filter_of(roomy.url, roomy.filter_key) as loaded:
        yield Client(loaded)


async def ask(client: Client, service: Service, messages: Sequence[Native], **metadata: object) -> str:
    """The chat under which a request is stored."""
    turn = await client.send(messages, **metadata)
    await service.stored()
    chat: str = turn.metadata["precis"]["state"]["chat"]
    return chat


async def found(service: Service, chat: str, what: str = "messages.*") -> Sequence[Any]:
    query = f"select {what} from messages join chats on chats.id = chat_id where external_id = :chat order by depth"
    return await rows(service.runtime, query, chat=chat)


async def test_a_message_is_stored_once_however_often_it_is_sent(client: Client, roomy: Service) -> None:
    sent = conversation(3, 20, "stable")
    first = await ask(client, roomy, [*sent, asks("One?")])
    before = [one.message_id for one in await found(roomy, first)]
    second = await ask(client, roomy, [*sent, asks("One?"), says("1"), asks("Two?")])
    after = [one.message_id for one in await found(roomy, second)]
    assert first == second
    assert after[: len(before)] == before
    assert len(after) == len(before) + 2

    equal = await ask(client, roomy, [asks("Go on."), says("Yes."), asks("Go on."), says("Yes."), asks("Go on.")])
    assert len(await found(roomy, equal)) == 4, "equal texts at two places"


async def test_a_chat_is_known_by_its_user_and_its_first_question(client: Client, roomy: Service) -> None:
    chats = {}
    for user in ("user-1", "user-2"):
        for question in ("Hello.", "Hello!"):
            client.user = user
            sent = [{"role": "system", "content": "Be brief."}, asks(question), says("Hi."), asks("So?")]
            chats[user, question] = await ask(client, roomy, sent)
    assert len(set(chats.values())) == 4
    client.user = "user-1"
    kind = [{"role": "system", "content": "Be kind."}, asks("Hello."), says("Hi."), asks("And?")]
    assert await ask(client, roomy, kind) == chats["user-1", "Hello."]
    assert "Hello" not in repr(chats.values())


async def test_an_agents_loop_stores_no_growing_answer(client: Client, roomy: Service) -> None:
    """Each of its requests repeats the running turn and adds a step; only the next turn shows the whole answer."""
    sent = [asks("Find it."), says("Where?"), asks("Everywhere.")]
    for number in range(6):
        chat = await ask(client, roomy, sent)
        assert [one.role for one in await found(roomy, chat)] == ["user", "assistant"]
        sent += step(f"c{number}", f"Result {number}")
    chat = await ask(client, roomy, [*sent, says("Found."), asks("Thanks.")])
    stored = await found(roomy, chat)
    assert [(one.role, one.step_calls) for one in stored][-1] == ("assistant", [1] * 6 + [0])
    assert len(stored) == 4


async def test_a_summary_is_served_in_the_middle_of_an_agents_loop(client: Client, roomy: Service) -> None:
    sent = [*conversation(9, word="agent"), asks("Find it.")]
    await ask(client, roomy, sent)
    await drain(roomy.runtime)
    for number in range(4):
        turn = await client.send(sent)
        assert turn.is_summarised()
        assert turn.tail[-1] == sent[-1]
        sent += step(f"c{number}", filler(f"r{number}", 50))


@pytest.mark.parametrize(
    ("chat_id", "valve", "set_to", "hours"), [("", "api_days", 2, 48), (TAB, "temporary_hours", 3, 3)]
)
async def test_a_chat_goes_after_the_time_of_its_valve(
    client: Client, roomy: Service, chat_id: str, valve: str, set_to: int, hours: int
) -> None:
    client.chat_id = chat_id
    setattr(client.filter.valves, valve, set_to)
    chat = await ask(client, roomy, conversation(2, 20, valve), **(IN_A_TAB if chat_id else {}))
    kept = "extract(epoch from expires_at - now()) / 3600 as hours"
    assert float((await found(roomy, chat, kept))[0].hours) == pytest.approx(hours, abs=0.1)
    assert client.host.reads == []


async def test_two_temporary_chats_of_one_tab_do_not_mix(client: Client, roomy: Service) -> None:
    """They have the same id."""
    client.chat_id, client.filter.valves.temporary_hours = TAB, 3
    one = [*conversation(9, word="one"), asks("How far are we?")]
    first = await ask(client, roomy, one, **IN_A_TAB)
    await drain(roomy.runtime)
    other = [*conversation(9, word="other"), asks("How far are we?")]
    turn = await client.send(other, **IN_A_TAB)
    assert not turn.is_summarised()
    assert turn.metadata["precis"]["state"]["chat"] != first
    assert not (await client.send([*one[:3], *other[3:]], **IN_A_TAB)).is_summarised(), "the same beginning"
    assert (await client.send(one, **IN_A_TAB)).is_summarised()
