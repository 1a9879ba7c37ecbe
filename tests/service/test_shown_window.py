"""A window that nobody has told is the one that Ollama's own count of a request shows."""

from typing import Any

import pytest

from tests.conftest import Service
from tests.service.talk import Json, Talk, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASSUMED = 8192  # the service's PRECIS_WINDOW


async def turn(talk: Talk, leaf: str, usage: Json, name: str) -> Json:
    """A turn whose answer has this usage; what its request was answered."""
    question = talk.add(f"q-{name}", leaf)
    asked = await talk.ask(question)
    answer = talk.add(f"a-{name}", question, "assistant", usage=usage)
    await talk.finish(asked, answer)
    return asked


async def window_of(talk: Talk, leaf: str, **more: Any) -> int:
    asked = await talk.ask(leaf, **more)
    return int(asked["tokens"]["window"])


async def test_what_ollama_reads_of_a_request_that_it_cuts_is_the_window_of_all_chats_with_the_model(
    service: Service,
) -> None:
    talk = Talk(service.as_filter, model="of ollama")
    leaf = talk.turns(8)
    await turn(talk, leaf, {"prompt_eval_count": 2900, "prompt_tokens": 2900}, "cut")

    assert await window_of(talk, "a-cut") == 4096
    other = Talk(service.as_filter, "chat-2", model="of ollama")
    assert await window_of(other, other.turns(2)) == 4096
    assert await window_of(other, list(other.rows)[-1], window=16_384) == 16_384, "what is told goes before"
    another = Talk(service.as_filter, "chat-3", model="another")
    assert await window_of(another, another.turns(2)) == ASSUMED
    told = (await service.as_operator.get("/v1/status")).json()
    assert any("The server of of ollama reads at most 4,096 tokens of a request" in one for one in told["warnings"])


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 300}, None),
        ({"prompt_eval_count": 5300, "prompt_tokens": 5300}, None),
        ({"prompt_eval_count": 2900, "prompt_tokens": 2900}, ASSUMED),
    ],
    ids=["a count without what was cached", "a request that was read whole", "a window that was told"],
)
async def test_nothing_else_shows_a_window(service: Service, usage: Json, told: int | None) -> None:
    talk = Talk(service.as_filter, "chat-1", model=f"model of {usage} {told}", window=told)
    await turn(talk, talk.turns(8), usage, "whole")
    assert await window_of(talk, "a-whole") == ASSUMED


async def test_what_was_shown_is_forgotten_after_a_week(service: Service) -> None:
    talk = Talk(service.as_filter, model="once small")
    await turn(talk, talk.turns(8), {"prompt_eval_count": 2900}, "cut")
    await run_sql(service.runtime, "update shown_windows set shown_at = shown_at - interval '8 days'")
    service.app.state.serving.windows._shown.clear()
    assert await window_of(talk, "a-cut") == ASSUMED
