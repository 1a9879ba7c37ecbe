"""No request above the model's window leaves the filter: the oldest turns go, then the middle of the longest texts.

Sizes are the service's own count (`sent_tokens`), never the filter's estimate.
"""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filter_stub.precis_filter import LEAST, LEFT_OUT, MORE, NOTED, leading, tokens_in
from service.text import tokens
from service.transcript import Native
from service.transcript.steps import sent_tokens
from tests.filter.chat import Chat, filter_of, no_log, pairs_are_whole
from tests.filter.client import Client, says, step
from tests.filter.staged import MADE, NOT_NEEDED, against, good_answer
from tests.filter.texts import KINDS, text_of_kind
from tests.filter.wire import Answer, HangUp, with_edit

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def has_note(messages: list[Native]) -> bool:
    """Whether the first system message ends with what tells of turns that were left out."""
    return messages[0]["role"] == "system" and str(messages[0]["content"]).endswith(LEFT_OUT)


def without_note(messages: list[Native]) -> list[Native]:
    """The same without it."""
    if not has_note(messages):
        return messages
    prompt = str(messages[0]["content"]).removesuffix(LEFT_OUT).removesuffix("\n\n")
    return [*([{**messages[0], "content": prompt}] if prompt else []), *messages[1:]]


# --- every list ---


class Service:
    """In place of the network. It knows all but the `new` newest messages; those count as the filter says."""

    status = "away"
    counted = 0
    new = 1

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.status == "away":
            raise httpx.ConnectError("nobody is there")
        if request.method == "PUT":
            return httpx.Response(202, json={"due": False})
        asked = json.loads(request.content)
        if self.status == "unknown" or len(asked["path"]) <= self.new:
            return httpx.Response(200, json={"status": "unknown"})
        before = self.counted + sum(asked["sizes"][: self.new]) + asked["beside"]
        tokens = {"before": before, "after": before, "overhead": asked["beside"]}
        answer = {"status": self.status, "known": asked["path"][self.new][0], "tokens": tokens}
        return httpx.Response(200, text=with_edit(json.dumps(answer), asked))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def staged() -> AsyncIterator[tuple[Client, Service]]:
    service = Service()
    async with filter_of("http://service", skip_below_chars=24_000) as loaded:
        loaded._http = httpx.AsyncClient(transport=httpx.MockTransport(service))
        yield Client(loaded), service


@st.composite
def texts(draw: st.DrawFn, most: int) -> str:
    return text_of_kind(draw(st.sampled_from(sorted(KINDS))), draw(st.integers(0, most)))


@st.composite
def loops(draw: st.DrawFn, most: int) -> list[Native]:
    """The steps of a turn; a result may be as large as anything."""
    sizes = draw(st.lists(st.sampled_from([30, 900, 4000]), max_size=3))
    return [one for place, size in enumerate(sizes) for one in step(f"c{place}", draw(texts(min(size, most))), "Well.")]


@st.composite
def turns(draw: st.DrawFn) -> list[Native]:
    """A question, steps, an answer; some answers failed, some questions have pictures."""
    said = draw(texts(draw(st.sampled_from([60, 600, 3000]))))
    pictures = [PICTURE] * draw(st.sampled_from([0, 0, 0, 0, 1, 3]))
    question = {"role": "user", "content": [{"type": "text", "text": said}, *pictures] if pictures else said}
    answer = draw(texts(draw(st.sampled_from([60, 600, 3000]))))
    return [question, *draw(loops(4000)), *([says(answer)] if answer else [])]


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    window=st.sampled_from([2048, 4096, 8192, 32_768]),
    system=st.sampled_from(["", "You are a careful assistant."]),
    older=st.lists(turns(), max_size=8),
    pasted=st.sampled_from([200, 200, 2000, 60_000]).flatmap(texts),
    pictured=st.booleans(),
    loop=loops(4000),
    status=st.sampled_from(["away", "unknown", "pending", "not_needed"]),
    answer_is_known=st.booleans(),  # which it is not in a chat without ids
)
async def test_no_request_above_the_window_leaves_the_filter(
    staged: tuple[Client, Service],
    window: int,
    system: str,
    older: list[list[Native]],
    pasted: str,
    pictured: bool,
    loop: list[Native],
    status: str,
    answer_is_known: bool,
) -> None:
    client, service = staged
    client.filter._failures = 0
    client.filter._last.clear()  # each is a chat of its own, also where the first words are the same
    client.window = window
    question = {"role": "user", "content": [{"type": "text", "text": pasted}, PICTURE] if pictured else pasted or "So?"}
    head = [{"role": "system", "content": system}] if system else []
    before = [*head, *(one for turn in older for one in turn)]
    service.status, service.new = status, 1 if answer_is_known or not older else 2
    service.counted = sent_tokens(before[len(head) :])
    if service.new == 2:
        service.counted -= sent_tokens(older[-1][1:])
    if status == "not_needed" and service.counted > window * 0.76:
        service.status = "pending"
    with no_log():
        turn = await client.send([*before, question])
        check(turn.messages, turn.original, window)
        turn.body["messages"] = native = [*turn.messages, *copy.deepcopy(loop)]
        await client.filter.request(turn.body, __metadata__=turn.metadata)
        check(turn.messages, native, window)


def dearness(kind: str) -> float:
    """Tokens of a kind of text, by the filter's estimate."""
    text = text_of_kind(kind, 5000)
    return tokens.count(text) / tokens_in(text)


# The cap bounds what costs up to `MORE` above the mean, and of dearer texts what they cost beyond that.
DEAREST = max(1.0, max(map(dearness, KINDS)) / MORE)


def check(sent: list[Native], given: list[Native], window: int) -> None:
    whole = without_note(given)
    head = leading(whole)
    assert sent_tokens(sent) <= window * DEAREST + len(sent)  # each estimate is rounded
    assert without_note(sent)[: len(head)] == head
    rest = without_note(sent)[len(head) :]
    if has_note(sent):
        assert rest[0]["role"] == "user"
    else:
        assert len(sent) == len(given)
    assert str(sent).count(LEFT_OUT) == has_note(sent)
    assert pairs_are_whole(rest)
    for one, other in zip(reversed(rest), reversed(whole), strict=False):
        assert {**one, "content": ""} == {**other, "content": ""}
        assert ("image_url" in str(one)) is ("image_url" in str(other))
    assert any(one["role"] == "user" for one in rest)


# --- named cases ---


PENDING = Answer({"status": "pending", "known": None, "window": 4096, "tokens": {"before": 6000, "after": 6000}})


@pytest_asyncio.fixture(loop_scope="module")
async def chat_of_turns() -> AsyncIterator[Chat]:
    """A saved chat of six turns in a window of 4096 tokens; the service has no summary yet."""
    async with against(PENDING, window=4096) as (chat, _):
        chat.leaf = None
        chat.grow(6, 500)
        chat.ask("How far are we?")
        yield chat


@pytest.mark.parametrize("window", [4096, None], ids=["told by Open WebUI", "known to the service"])
async def test_whole_turns_go_from_the_oldest_on_for_a_note_and_the_status_tells_how_many(
    chat_of_turns: Chat, window: int | None
) -> None:
    chat_of_turns.window = window
    turn = await chat_of_turns.inlet()
    system, *rest = without_note(turn.messages)
    assert system == turn.original[0]
    assert has_note(turn.messages)
    assert rest == turn.original[-len(rest) :]
    assert rest[0]["role"] == "user"
    assert 1 < len(rest) < len(turn.original) - 4
    assert sent_tokens(turn.messages) <= 4096
    left_out = len(turn.original) - 1 - len(rest)
    assert chat_of_turns.host.statuses == [f"Left out {left_out} older messages to make room"]
    assert not turn.metadata["precis"]["is_whole"], "the usage of a request that was cut says nothing of the branch"


async def test_a_giant_pasted_message_loses_its_middle_and_keeps_both_ends(chat_of_turns: Chat) -> None:
    chat = chat_of_turns
    turn = chat.request(chat.ask("BEGIN " + text_of_kind("English", 90_000) + " What is the END?"))
    given = turn.messages
    await chat.enter(turn)
    assert given == turn.original, "the lists of Open WebUI are not changed in place"
    newest = str(turn.messages[-1]["content"])
    assert newest.startswith("BEGIN Then the river")
    assert newest.endswith(" What is the END?")
    assert "characters were left out here" in newest
    assert 2000 < sent_tokens(turn.messages) <= 4096  # no more than needed


async def test_a_question_that_loses_its_middle_keeps_the_list_of_its_files(chat_of_turns: Chat) -> None:
    file = {"type": "file", "id": "f1", "name": "plan.pdf", "url": "f1"}
    chat_of_turns.ask("BEGIN " + text_of_kind("English", 90_000) + " END", files=[file])
    turn = await chat_of_turns.inlet()
    newest = str(turn.messages[-1]["content"])
    assert newest.partition("BEGIN")[0] == str(turn.original[-1]["content"]).partition("BEGIN")[0]
    assert newest.startswith("<attached_files>")
    assert "characters were left out here" in newest


async def test_a_summary_and_the_newest_turn_stay_when_the_tail_is_too_long_for_the_window() -> None:
    async with against(HangUp(), window=4096) as (chat, tap):
        chat.grow(4, 700)
        chat.ask("How far are we?")
        tap.behaviour = Answer(good_answer(chat) | {"tokens": {"before": 9000, "after": 6000}})
        turn = await chat.inlet()
        assert has_note(turn.messages)
        assert without_note(turn.messages)[0] == turn.original[0]
        assert turn.messages[1:3] == [{"role": "user", "content": MADE}, {"role": "assistant", "content": NOTED}]
        assert turn.messages[-1] == turn.original[-1]
        assert sent_tokens(turn.messages) <= 4096
        (line,) = chat.host.statuses
        assert line.startswith("Summarised 2 earlier messages; left out ")
        assert line.endswith(" older messages to make room")


async def test_while_nobody_answers_there_is_room_for_the_answer_that_is_asked_for() -> None:
    async with against(HangUp(), window=4096) as (chat, _):
        chat.grow(8, 200)
        turn = chat.request(chat.ask("How far are we?"))
        turn.body["max_tokens"] = 2000
        await chat.enter(turn)
        assert sent_tokens(turn.messages) <= 4096 - 2000


async def test_what_another_filter_has_added_counts_although_the_service_knows_nothing_of_it() -> None:
    async with against(NOT_NEEDED, window=4096) as (chat, _):
        turn = chat.request(str(chat.leaf))
        turn.body["messages"].insert(1, {"role": "user", "content": text_of_kind("English", 60_000)})
        await chat.enter(turn)
        assert sent_tokens(turn.messages) <= 4096 / LEAST
