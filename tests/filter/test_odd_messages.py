"""Whatever Open WebUI stores is stored here: no message keeps its chat out, or is uploaded again with each turn."""

import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import Json, called, returned, said
from tests.conftest import Service
from tests.effort import examples
from tests.filter.chat import Chat, filter_of, no_log
from tests.filter.checks import nobody_waits
from tests.filter.host import Host
from tests.filter.wire import Wire, wire
from tests.service.talk import rows

BASE64 = "iVBORw0KGgo+" * 800_000  # 9.6 MB
PICTURED = called("c1"), returned("c1", f'{{"png": "{BASE64}"}}'), said("Done.")


def put(chat: Chat, message: Json) -> None:
    """Saves a message below the leaf, under its own id if it has one."""
    chat.numbers += 1
    row = {"id": f"odd{chat.numbers}", "role": "assistant", "content": "Well.", "parentId": chat.leaf} | message
    if row["parentId"] is None:
        del row["parentId"]
    chat.leaf = str(row["id"])
    chat.rows[chat.leaf] = row


def handed(tap: Wire) -> list[int]:
    return [len(seen.body["messages"]) for seen in tap.seen if seen.path == "/v1/turns"]


async def stored(service: Service, chat: Chat) -> list[str]:
    await service.stored()
    query = "select host_id from messages join chats on chats.id = chat_id where external_id = :chat"
    return [str(one.host_id) for one in await rows(service.runtime, query, chat=chat.id)]


async def test_a_giant_keeps_nobody_from_going_on(chat: Chat) -> None:
    """The service takes no request as large as that, so the filter leaves the turn out."""
    await chat.say("Make a picture", "Done.", *PICTURED)
    turn = await chat.say("Thanks", "You are welcome.")
    assert turn.messages[-1] == turn.original[-1]
    assert BASE64 not in str(turn.messages)


VALUES: list[object] = [
    *(None, True, -1, 10**30, 1.5, float("nan"), "", "x", "\x00", "\ud800", [], {}, [[]], {"": None}, {"a": [1]}),
]
LARGE = ["word " * 100_000, BASE64[:400_000], "\x01" * 60_000, "\U0001f40d" * 90_000]
# By their places, so that a failure is not reported in megabytes.
SOME = st.integers(0, len(VALUES) - 1).map(lambda place: VALUES[place])
TEXTS = st.text(max_size=20) | st.integers(0, len(LARGE) - 1).map(lambda place: LARGE[place])
KINDS = ["text", "image_url", "input_image", "message", "function_call", "function_call_output", "reasoning", "x"]
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(KINDS) | SOME,
        "text": TEXTS | SOME,
        "image_url": TEXTS | SOME,
        "call_id": st.just("c1") | SOME,
        "output": TEXTS | SOME,
        "content": TEXTS | SOME,
    },
)
SENT = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "x"])}, optional={"text": TEXTS | st.none()}
)
FILES = st.fixed_dictionaries({}, optional={"type": st.just("image") | SOME, "name": TEXTS | SOME, "url": SOME})
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "developer", "function", "Assistant", "", None, 7])},
    optional={
        "id": st.text(max_size=4) | st.integers() | st.sampled_from(["i" * 201, "a\nb", "\x9b", "\ud800", "é" * 200]),
        "content": TEXTS | st.none() | st.lists(SENT, max_size=3),
        "output": SOME | st.lists(PARTS | SOME, max_size=3),
        "files": SOME | st.lists(FILES | SOME, max_size=2),
        "usage": SOME | st.dictionaries(st.sampled_from(["prompt_tokens", "prompt_eval_count"]), SOME, max_size=1),
        "error": SOME,
        "timestamp": SOME,
    },
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(odd=st.lists(MESSAGES, min_size=1, max_size=4, unique_by=lambda message: str(message.get("id", message))))
async def test_any_message_that_open_webui_can_store_can_be_handed_over(service: Service, odd: list[Json]) -> None:
    """All of the chat is stored, and the next turn is handed over alone."""
    async with wire(service.url) as tap, filter_of(tap.url, service.filter_key) as loaded:
        chat = Chat(Host(), loaded, f"chat-{uuid.uuid4()}")
        with no_log(), nobody_waits():
            await chat.say("One", "1")
            for message in odd:
                put(chat, message)
            await chat.say("Two", "2")
            await chat.say("Three", "3")
            await chat.say("Four", "4")
            tap.seen.clear()
            await chat.say("Five", "5")
    assert handed(tap) == [2]
    told = await stored(service, chat)
    assert {row["id"] for row in chat.path()[-8:]} <= set(told)
