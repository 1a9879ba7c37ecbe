"""No request above the model's window leaves the filter, whatever is written in it, and none that fits is cut."""

import copy
import uuid
from collections.abc import AsyncIterator

import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.transcript import Native
from tests.conftest import Service
from tests.effort import examples
from tests.filter.chat import filter_of, no_log
from tests.filter.checks import Call, listen, nobody_waits
from tests.filter.client import Client, says, step
from tests.filter.texts import KINDS, text_of_kind

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(service: Service) -> AsyncIterator[Client]:
    async with filter_of(service.url, service.filter_key) as loaded:
        yield Client(loaded)


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


@settings(max_examples=examples(120), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    window=st.sampled_from([2048, 4096, 8192, 32_768]),
    system=st.sampled_from(["", "You are a careful assistant."]),
    older=st.lists(turns(), max_size=8),
    pasted=st.sampled_from([200, 200, 2000, 60_000]).flatmap(texts),
    pictured=st.booleans(),
    loop=loops(4000),
)
async def test_no_request_above_the_window_leaves_the_filter(
    client: Client,
    window: int,
    system: str,
    older: list[list[Native]],
    pasted: str,
    pictured: bool,
    loop: list[Native],
) -> None:
    client.window = window
    client.user = f"user-{uuid.uuid4()}"
    answers = listen(client.filter)
    text = pasted or "So?"
    question = {"role": "user", "content": [{"type": "text", "text": text}, PICTURE] if pictured else text}
    head = [{"role": "system", "content": system}] if system else []
    with no_log(), nobody_waits():
        turn = await client.send([*head, *(one for turn in older for one in turn), question])
        (first,) = answers[turn.metadata["precis"]["id"]]
        Call(turn.original, first, turn.messages, [], window).check()
        turn.body["messages"] = given = [*turn.messages, *copy.deepcopy(loop)]
        await client.filter.request(turn.body, __metadata__=turn.metadata)
        second = answers[turn.metadata["precis"]["id"]][-1]
        Call(given, second, turn.messages, [], window, missed=first["left_out"]).check()
