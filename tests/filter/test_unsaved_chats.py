"""Chats without ids: API clients, temporary chats, clients of other makers. Ids are made of what was said."""

from collections.abc import AsyncIterator
from urllib.parse import unquote

import pytest
import pytest_asyncio
from sqlalchemy import text

from filter_stub.precis_filter import STASH
from tests.conftest import Service, drain
from tests.filter.chat import Chat, Turn, filler, filter_of, ingested, pairs_are_whole
from tests.filter.client import Client, Json, asks, conversation, says, step
from tests.filter.host import Host
from tests.filter.wire import Answer, Wire, wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

TAB = "temporary:Rj2f0VwosbhFc1DAAAAB"
IN_A_TAB: Json = {"user_message_id": "u9", "message_id": "a9", "user_message": {"id": "u9", "parentId": "a8"}}


@pytest_asyncio.fixture(loop_scope="module")
async def client(service: Service, tap: Wire) -> AsyncIterator[Client]:
    """A client of a running service."""
    async with filter_of(tap.url, service.filter_key, cuts=False) as loaded:
        yield Client(loaded)


def key(tap: Wire) -> str:
    """The chat of the newest request."""
    return unquote(tap.seen[-1].path.split("/")[3])


def pairs(tap: Wire) -> list[list[tuple[str, str]]]:
    """(id, digest) of each question to the service, root first."""
    return [[tuple(pair) for pair in body["path"][::-1]] for body in tap.bodies("POST")]


def uploaded(tap: Wire) -> list[list[str]]:
    return [[message["role"] for message in body["messages"]] for body in tap.bodies("PUT")]


def is_cut(turn: Turn) -> bool:
    """Whether a summary stands in place of what is hidden, and the tail is as the client sent it."""
    if not turn.served:
        assert turn.messages == turn.original
        return False
    assert turn.tail == turn.original[-len(turn.tail) :]
    assert turn.tail[0]["role"] == "user"
    assert pairs_are_whole(turn.tail)
    assert turn.messages[:1] == turn.base
    return True


async def test_a_message_has_an_id_of_its_own_which_is_the_same_in_every_request(client: Client, tap: Wire) -> None:
    sent = conversation(3, 20, "stable")
    await client.send([*sent, asks("One?")])
    await client.send([*sent, asks("One?"), says("1"), asks("Two?")])
    first, second = pairs(tap)
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2

    await client.send([asks("Go on."), says("Yes."), asks("Go on."), says("Yes."), asks("Go on.")])
    assert len({identity for identity, _ in pairs(tap)[-1]}) == 5, "equal texts at two places"


async def test_a_chat_is_known_by_its_user_and_its_first_question(client: Client, tap: Wire) -> None:
    keys = {}
    for user in ("user-1", "user-2"):
        for question in ("Hello.", "Hello!"):
            client.user = user
            await client.send([{"role": "system", "content": "Be brief."}, asks(question), says("Hi."), asks("So?")])
            keys[user, question] = key(tap)
    assert len(set(keys.values())) == 4
    client.user = "user-1"
    await client.send([{"role": "system", "content": "Be kind."}, asks("Hello."), says("Hi."), asks("And?")])
    assert key(tap) == keys["user-1", "Hello."]
    assert "Hello" not in repr(keys.values())


async def test_without_a_user_nothing_is_sent(client: Client, tap: Wire) -> None:
    client.user = None
    await client.send(conversation(2))
    assert tap.seen == []


async def test_an_agents_loop_uploads_no_growing_answer(client: Client, service: Service, tap: Wire) -> None:
    """Each of its requests repeats the running turn and adds a step; only the next turn shows the whole answer."""
    sent = [asks("Find it."), says("Where?"), asks("Everywhere.")]
    for number in range(6):
        await client.send(sent)
        sent += step(f"c{number}", f"Result {number}")
    assert all("assistant" not in roles for roles in uploaded(tap)[1:])
    assert len({repr(path) for path in pairs(tap)}) == 1
    await client.send([*sent, says("Found."), asks("Thanks.")])
    assert uploaded(tap)[-1] == ["assistant", "user"]
    (answer, _) = tap.bodies("PUT")[-1]["messages"]
    assert len(answer["native"]) == 13
    async with service.runtime.database.engine.connect() as connection:
        query = "select count(*) from messages join chats on chats.id = chat_id where external_id = :chat"
        assert (await connection.execute(text(query), {"chat": key(tap)})).scalar_one() == 5


async def test_a_summary_is_served_in_the_middle_of_an_agents_loop(client: Client, service: Service) -> None:
    sent = [*conversation(9, word="agent"), asks("Find it.")]
    await client.send(sent)
    await drain(service.runtime)
    for number in range(4):
        turn = await client.send(sent)
        assert is_cut(turn)
        assert turn.tail[-1] == sent[-1]
        sent += step(f"c{number}", filler(f"r{number}", 50))


async def test_chats_of_api_clients_go_after_the_days_of_the_valve(client: Client, tap: Wire) -> None:
    await client.send(conversation(2, 20, "thirty"))
    client.filter.valves.api_days = 2
    await client.send(conversation(2, 20, "two"))
    assert [body["expires_in"] for body in tap.bodies("PUT")] == [30 * 24 * 3600, 2 * 24 * 3600]


@pytest.mark.parametrize("chat_id", [TAB, "local:x"])
async def test_of_a_temporary_chat_nothing_is_sent_unless_the_operator_wants_it(
    client: Client, tap: Wire, chat_id: str
) -> None:
    client.chat_id = chat_id
    turn = await client.send(conversation(9, word="secret"), **IN_A_TAB)
    await client.reply(turn, "An answer")
    assert tap.seen == []
    assert client.host.reads == []
    assert turn.messages == turn.original


async def test_a_temporary_chat_stays_for_the_hours_of_the_valve(client: Client, tap: Wire) -> None:
    client.chat_id, client.filter.valves.temporary_hours = TAB, 3
    turn = await client.send(conversation(2, 20, "hours"), **IN_A_TAB)
    assert [body["expires_in"] for body in tap.bodies("PUT")] == [3 * 3600]
    tap.seen.clear()
    await client.reply(turn, "An answer")
    assert tap.seen == []
    assert client.host.reads == []


async def test_two_temporary_chats_of_one_tab_do_not_mix(client: Client, service: Service, tap: Wire) -> None:
    """They have the same id."""
    client.chat_id, client.filter.valves.temporary_hours = TAB, 3
    one = [*conversation(9, word="one"), asks("How far are we?")]
    await client.send(one, **IN_A_TAB)
    first = key(tap)
    await drain(service.runtime)
    other = [*conversation(9, word="other"), asks("How far are we?")]
    assert not is_cut(await client.send(other, **IN_A_TAB))
    assert key(tap) != first
    same_beginning = [*one[:3], *other[3:]]
    assert not is_cut(await client.send(same_beginning, **IN_A_TAB))
    assert is_cut(await client.send(one, **IN_A_TAB))


async def test_a_channel_is_left_alone() -> None:
    async with wire(Answer({})) as tap, filter_of(tap.url) as loaded:
        client = Client(loaded, chat_id="channel:9a0c", window=2048)
        turn = await client.send([{"role": "system", "content": filler("thread", 9000)}, asks("So?")])
        await loaded.request(turn.body, __metadata__=turn.metadata)
        await client.reply(turn, "So.")
        assert turn.messages == turn.original
        assert tap.seen == []


async def test_a_client_that_names_a_saved_chat_but_no_question_is_served_by_its_answers_row(
    chat: Chat, tap: Wire
) -> None:
    chat.grow(3, 20)
    question = chat.ask("The last question")
    placeholder = chat.answer("")
    client = Client(chat.filter, chat_id=chat.id, host=chat.host)
    await client.send(chat.request(question).original, message_id=placeholder)
    assert key(tap) == chat.id
    assert [identity for identity, _ in pairs(tap)[0]] == [row["id"] for row in chat.path(question)]
    assert tap.asked == ["POST context"]


@pytest.mark.parametrize("told", [{}, {"message_id": "unknown"}])
async def test_a_client_that_names_a_saved_chat_and_no_message_of_it_is_known_by_what_was_said(
    chat: Chat, tap: Wire, told: Json
) -> None:
    client = Client(chat.filter, chat_id=chat.id, host=chat.host)
    turn = await client.send([asks(f"Named {told}."), says("Yes."), asks("So?")], **told)
    assert key(tap) == turn.metadata[STASH]["chat"] != chat.id
    assert uploaded(tap) == [["user", "assistant", "user"]]


async def test_of_a_client_that_hands_outlet_no_messages_the_question_is_handed_over(
    service: Service, tap: Wire
) -> None:
    """Conduit keeps the chat itself, and stores it in Open WebUI when its answer is complete."""
    async with filter_of(tap.url, service.filter_key) as loaded:
        chat = Chat(Host(), loaded, "kept-by-a-client")
        chat.grow(3)
        question = chat.ask("And now?")
        turn = await chat.inlet()
        body = {"model": "m", "messages": [], "chat_id": chat.id, "id": "a9"}
        with chat.host.importable():
            await loaded.outlet(body, __metadata__=turn.metadata, __user__=chat.asker)
            await ingested(loaded)
    assert [one["id"] for one in tap.bodies("PUT")[-1]["messages"]][-1] == question


async def test_what_a_question_has_beside_its_text_is_named_and_an_image_counts(client: Client, tap: Wire) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    parts = [{"type": "text", "text": "What is this?"}, picture, {"type": "file", "file": {"filename": "a.pdf"}}]
    await client.send([{"role": "user", "content": parts}])
    (question,) = tap.bodies("PUT")[-1]["messages"]
    assert question["files"] == [{"type": "image"}, {"type": "file"}]
    assert tap.bodies("POST")[-1]["sizes"][0] > 1000
