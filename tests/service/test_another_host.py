"""The ten lines of `docs/howto/another-host.md`, exactly as the page has them, with the real service and a worker."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from service.request import record
from service.transcript import Native, count_sent_tokens
from tests.conftest import Service
from tests.filter.chat import working
from tests.service.talk import prose, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "another-host.md"
ADDRESS, KEY = "http://127.0.0.1:8377", "precis_fi_…"
WINDOW, TURNS = 8192, 40
ROOM = WINDOW - WINDOW // 8  # without the answer
COVERED = re.compile(r"\[End of summary: (\d+) messages")
SYSTEM: Native = {"role": "system", "content": "You are careful."}


def lines_of_the_page() -> str:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return blocks[0]


@contextlib.contextmanager
def host_with(service: Service) -> Iterator[Any]:
    """A program that has the page's lines, with its own address and key."""
    code = lines_of_the_page()
    assert ADDRESS in code
    assert KEY in code
    host = ModuleType("host")
    own = code.replace(ADDRESS, service.url).replace(KEY, service.filter_key)
    exec(compile(own, PAGE.name, "exec"), vars(host))
    with host.precis:
        yield host


async def test_the_page_begins_with_ten_lines() -> None:
    assert len([line for line in lines_of_the_page().splitlines() if line.strip()]) == 10


@pytest.mark.parametrize("about", [{"chat": "chat-1", "user": "anna"}, {}], ids=["with an id", "without one"])
async def test_a_long_chat_stays_in_the_window_and_nothing_is_missing_that_no_summary_covers(
    service: Service, about: dict[str, str]
) -> None:
    messages = [SYSTEM]
    with_summary: list[bool] = []

    with host_with(service) as host:
        async with working(service.runtime):
            for turn in range(TURNS):
                question: Native = {"role": "user", "content": prose(150, f"question {turn}")}
                messages.append(question)
                request = await asyncio.to_thread(
                    host.fitted, messages, model="model-1", window=WINDOW, seconds=10, **about
                )

                assert count_sent_tokens(request) <= ROOM
                assert request[0] == SYSTEM
                assert request[-1] == question
                summary = record.is_record(request[1:3])
                covered = COVERED.search(str(request[1]["content"]))
                assert (covered is not None) == summary
                if covered:
                    assert request[3:] == messages[1 + int(covered[1]) :]
                else:
                    assert request == messages
                with_summary.append(summary)
                messages.append({"role": "assistant", "content": prose(350, f"answer {turn}")})

    first = with_summary.index(True)
    assert all(with_summary[first:])
    assert first < TURNS // 2
    assert count_sent_tokens(messages) > 2 * WINDOW


CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
SAID: list[Native] = [{"role": "assistant", "content": "Three."}]
CALLED: list[Native] = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "three"},
    *SAID,
]


@pytest.mark.parametrize(
    ("native", "sent"),
    [
        (CALLED, CALLED),
        (["Three."], SAID),
        ([{"role": "user", "content": "Here is the screenshot."}], SAID),
        ([{}, {"role": "system", "content": "Be brief."}, *SAID], SAID),
    ],
    ids=["with a call", "a text", "a user's words alone", "a prompt before it"],
)
async def test_of_what_is_told_as_the_model_was_sent_it_only_an_answers_own_is_taken(
    service: Service, native: Any, sent: list[Native]
) -> None:
    question = {"id": "m1", "role": "user", "content": "How many pumps?", "native": [{"role": "assistant"}]}
    answer = {"id": "m2", "role": "assistant", "content": "Three.", "native": native}
    about = {"chat": "chat-1", "user": "anna", "model": "model-1"}

    response = await service.as_filter.post("/v1/turns", json=about | {"messages": [question, answer]})

    assert response.status_code == 202
    asked = [{"role": "user", "content": question["content"]}, *sent]
    again = about | {"messages": [*asked, {"role": "user", "content": "And cellar 8?"}]}
    assert (await service.as_filter.post("/v1/compress", json=again)).json()["whole"] is False
    await service.stored()
    stored = await rows(service.runtime, "select host_id, role, confirmed from messages order by depth")
    assert [tuple(one) for one in stored] == [("m1", "user", True), ("m2", "assistant", True)]


async def test_a_request_goes_as_it_is_while_the_service_is_away(service: Service) -> None:
    messages = [SYSTEM, {"role": "user", "content": "Hello."}]
    with host_with(service) as host:
        host.precis.base_url = "http://127.0.0.1:9"

        assert host.fitted(messages, model="model-1") == messages
