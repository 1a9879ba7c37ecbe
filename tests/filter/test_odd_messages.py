"""Whatever Open WebUI stores is stored here: no message keeps its chat out, or is uploaded again with each turn."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filter_stub import precis_filter
from filter_stub.precis_filter import STASH
from service.api import shape
from service.embedded.urls import Urls
from service.transcript import digests
from tests.builders import called, returned, said
from tests.conftest import Service, fresh_database, serving, small_window
from tests.effort import examples
from tests.filter.chat import Chat, filter_of, keyed, no_log, stored_path
from tests.filter.host import Host
from tests.filter.wire import Answer, Wire, wire
from tests.service.events import tell

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]

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


def uploaded(tap: Wire) -> list[int]:
    """How many messages stood in each upload."""
    return [len(body["messages"]) for body in tap.bodies("PUT")]


async def assert_stored(service: Service, chat: Chat) -> None:
    path = precis_filter.chain(chat.path())
    assert await stored_path(service, chat.id, path[-1].id) == await keyed(service, path)


async def assert_stored_once(service: Service, chat: Chat, tap: Wire) -> None:
    """The chat is stored, the next request finds all of it, and the next upload has the new messages alone."""
    await assert_stored(service, chat)
    leaf = precis_filter.chain(chat.path())[-1].id
    tap.seen.clear()
    chat.ask("Three")
    turn = await chat.inlet()
    assert turn.metadata[STASH]["known"] == leaf
    await chat.reply(turn, "3")
    assert uploaded(tap) == [2]
    await assert_stored(service, chat)


async def test_what_is_left_out_of_a_giant_is_noted_and_counts(chat: Chat, service: Service, tap: Wire) -> None:
    await chat.say("Make a picture", "Done.", *PICTURED)

    (shorter,) = tap.bodies("PUT")[-1]["messages"]
    assert "Done." in shorter["content"]
    stored = await service.as_operator.get(f"/v1/chats/{chat.id}")
    assert stored.json()["chat"]["path_tokens"] > 9_600_000 // 4


async def test_what_the_service_never_accepts_is_given_up_for_this_turn(chat: Chat, tap: Wire) -> None:
    real, tap.behaviour = tap.behaviour, Answer({"detail": "no"}, 422)
    chat.grow(8, 20)
    await chat.say("One", "1")
    assert uploaded(tap) == [2, 1, 1], "by halves, then as a shorter text"
    tap.behaviour = real

    await chat.say("Two", "2")

    assert uploaded(tap)[-1] == 20


@pytest.mark.parametrize("identity", ["i" * 201, "a\nb"])
async def test_what_is_told_of_an_odd_id_is_found_under_the_one_that_it_has_here(
    chat: Chat, service: Service, identity: str
) -> None:
    put(chat, {"id": identity})
    await chat.say("Two", "2")
    plain = precis_filter.identity_of(identity)
    assert await stored_path(service, chat.id, plain)

    await tell(service, "message.deleted", chat_id=chat.id, message_id=identity)

    assert not await stored_path(service, chat.id, plain)


@given(st.text())
async def test_filter_and_service_have_the_same_id_for_a_message(identity: str) -> None:
    assert precis_filter.identity_of(identity) == digests.identity(identity)


VALUES: list[object] = [
    *(None, True, -1, 10**30, 1.5, float("nan"), "", "x", "\x00", "\ud800", [], {}, [[]], {"": None}, {"a": [1]}),
    *([1] * 3000, json.loads("[" * 250 + "]" * 250), {str(number): number for number in range(3000)}),
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
FILES = st.fixed_dictionaries({}, optional={"type": st.just("image") | SOME, "name": TEXTS | SOME, "url": SOME})
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "developer", "function", "Assistant", "", None, 7])},
    optional={
        "id": st.text(max_size=4) | st.integers() | st.sampled_from(["i" * 201, "a\nb", "\x9b", "\ud800", "é" * 200]),
        "content": TEXTS | SOME | st.lists(PARTS | SOME, max_size=3),
        "output": SOME | st.lists(PARTS | SOME, max_size=3),
        "files": SOME | st.lists(FILES | SOME, max_size=2),
        "usage": SOME | st.dictionaries(st.sampled_from(["prompt_tokens", "prompt_eval_count"]), SOME, max_size=1),
        "error": SOME,
        "timestamp": SOME,
    },
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def narrow(servers: Urls) -> AsyncIterator[Service]:
    """A service that takes little at a time, so that a small message is too large for it."""
    async with fresh_database(servers) as urls:
        narrow = small_window(urls).model_copy(update={"max_body_bytes": 2**18})
        with pytest.MonkeyPatch.context() as constants:
            constants.setattr(shape, "MOST_VALUES", 2000)
            async with serving(narrow) as started:
                yield started


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(odd=st.lists(MESSAGES, min_size=1, max_size=4, unique_by=lambda message: str(message.get("id", message))))
async def test_any_message_that_open_webui_can_store_can_be_handed_over(narrow: Service, odd: list[Json]) -> None:
    async with wire(narrow.url) as tap, filter_of(tap.url, narrow.filter_key, cuts=False) as loaded:
        chat = Chat(Host(), loaded, f"chat-{uuid.uuid4()}")
        with no_log():
            await chat.say("One", "1")
            for message in odd:
                put(chat, message)
            await chat.say("Two", "2")

            await assert_stored_once(narrow, chat, tap)
