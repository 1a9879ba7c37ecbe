"""What a model looks up in the covered part of its own chat, and an operator in a whole one."""

import pytest
import pytest_asyncio

from service.recall import parts
from service.storage import codec
from service.text import tokens
from service.usecases import recall
from tests.builders import called, returned, said
from tests.service import recalling
from tests.service.harness import Harness
from tests.service.talk import Json, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDER = "Order INV-2031 of Müller GmbH goes to Trondheim on Tuesday."
TABLE = "\n".join(f"row {number}: valve V-{number:03d} has {number * 37 % 101} bar" for number in range(120))
MARKER = "01HZY3Q4R5S6T7V8W9XA"


class Chat:
    """A summarised chat with an order, a result of a tool and much else."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.talk = harness.talk
        self.talk.window = 8192
        self.talk.add("first", None, content=ORDER)
        call = called("call-abc", "look_up", '{"topic": "valves"}')
        answer = [call, returned("call-abc", TABLE), said(f"[{MARKER}]: #\n\nDone.")]
        self.talk.add("looked", "first", "assistant", output=answer)
        self.leaf = self.talk.turns(12, leaf="looked")

    async def summarised(self) -> "Chat":
        assert await self.talk.ingest(self.leaf)
        await self.harness.drain()
        return self

    async def state(self) -> Json:
        """What the service notes of the next turn."""
        state: Json = (await self.talk.ask(self.leaf))["state"]
        return state

    async def recall(self, **question: object) -> Json:
        return await recalling.recall(self.talk, await self.state(), **question)


@pytest_asyncio.fixture(loop_scope="module")
async def chat(harness: Harness) -> Chat:
    return await Chat(harness).summarised()


async def test_words_lead_to_a_covered_message_and_to_what_stands_beside_it(chat: Chat) -> None:
    answer = await chat.recall(query="where does the order of Muller go")

    assert answer["status"] == "found"
    assert answer["references"][0] == "M1"
    assert f"M1 user: {ORDER}" in answer["text"]
    assert "beside it M2 assistant: Done." in answer["text"]


@pytest.mark.parametrize("asked", [{"query": "valve bar row"}, {"ref": "T1"}], ids=["search", "read"])
async def test_where_tools_leave_little_of_the_window_an_answer_is_small_and_goes_on_in_the_next(
    chat: Chat, asked: Json
) -> None:
    """A larger one would lose its middle in the request."""
    whole = await chat.recall(**asked)
    await run_sql(chat.harness.runtime, "update chats set overhead_tokens = window_tokens - 900")

    first = await chat.recall(**asked)
    second = await chat.recall(**asked, line=first["line"])

    assert tokens.count(first["text"]) <= 900 // 4 < tokens.count(whole["text"])
    assert set(second["text"].splitlines()) - set(first["text"].splitlines())


async def test_what_a_reference_leads_to_is_read_byte_for_byte(chat: Chat) -> None:
    for ref in ("T1", "t1", " T1 "):
        answer = await chat.recall(ref=ref, max_tokens=8000)
        assert (answer["content"], answer["line"]) == (TABLE, None), ref
    for ref in ("M1", "m1", "1", "1.1"):
        answer = await chat.recall(ref=ref)
        assert (answer["content"], answer["references"]) == (ORDER, ["M1"]), ref
    answer = await chat.recall(ref="M2")
    assert MARKER not in answer["content"]
    assert '[T1: look_up({"topic": "valves"})]' in answer["text"]


async def test_of_a_text_that_is_not_kept_it_is_said_when_it_comes_again(chat: Chat) -> None:
    asked = await chat.talk.ask(chat.leaf)
    await chat.harness.service.stored()
    await run_sql(chat.harness.service.runtime, "update messages set body = null")

    for question in ({"ref": "T1"}, {"query": "Trondheim"}):
        answer = await recalling.recall(chat.talk, asked, **question)
        assert answer["status"] == "nothing"
        assert "Its next turn stores them again" in answer["text"]


async def test_words_of_a_long_chat_are_stored_when_it_is_ingested_and_when_its_texts_come_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.usecases.ingest.STORED_FROM", 20)
    assert parts.STORED_FROM > 20
    chat = await Chat(harness).summarised()

    for _ in range(2):
        stored = await rows(harness.service.runtime, "select depth, body from messages order by depth")
        assert [one.depth for one in stored if codec.unpack_words(one.body)] == list(range(21, 27))
        await run_sql(harness.service.runtime, "update messages set body = null")
        await chat.talk.ingest(chat.leaf)
    word = chat.talk.path(chat.leaf)[-1]["content"].split()[1]
    found = await harness.service.as_operator.get("/v1/chats/chat-1/find", params={"query": word})
    assert found.json()["references"][0] == "M26"


@pytest.mark.parametrize(
    "question",
    [
        {"query": "Trondheim", "ref": None, "line": None, "grep": None},
        {"query": "Trondheim " * 1000},
        {"query": "the order", "ref": "M1", "line": "1"},
        {"ref": "M1", "line": 0},
        {"query": 2031},
    ],
)
async def test_what_a_model_gives_too_much_or_of_another_type_does_no_harm(chat: Chat, question: Json) -> None:
    assert "Trondheim" in (await chat.recall(**question))["text"]


async def test_what_takes_too_long_is_refused_in_time(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "_SECONDS", 0.0)

    refused = await recalling.post(chat.talk, await chat.state(), query="order")

    assert refused.status_code == 503
    assert "took too long" in refused.text
