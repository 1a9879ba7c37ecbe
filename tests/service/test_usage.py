"""What a provider counts for a request says what one of our tokens is worth to it."""

from typing import Any

import pytest

from tests.builders import called, returned, said
from tests.conftest import Service
from tests.service.talk import Json, Talk, row

pytestmark = pytest.mark.asyncio(loop_scope="module")

PICTURE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


async def factor(service: Service) -> float:
    stored: float = (await row(service.runtime, "select usage_factor from chats")).usage_factor
    return stored


async def turn(talk: Talk, leaf: str, share: Any, **more: object) -> tuple[Json, str]:
    """A turn for which a provider counts `share` times our count; the answer to its request, and the new leaf."""
    question = talk.add(f"question{len(talk.rows)}", leaf)
    asked = await talk.ask(question, seconds=20, **more)
    count = share if isinstance(share, str) else int(asked["state"].get("counted", 5000) * share)
    leaf = talk.add(f"answer{len(talk.rows)}", question, "assistant", usage={"prompt_tokens": count})
    await talk.finish(asked, leaf)
    return asked, leaf


async def test_a_request_is_measured_by_what_its_provider_counts(talk: Talk, service: Service) -> None:
    first, leaf = await turn(talk, talk.turns(4), 1.25)
    assert await factor(service) == pytest.approx(1.25, abs=0.01)

    second = await talk.ask(talk.add("next", leaf), seconds=20)

    assert second["tokens"]["before"] > 1.24 * first["tokens"]["before"]
    assert second["status"] == "not_needed"


async def test_a_summary_serves_earlier_where_the_provider_counts_more(talk: Talk) -> None:
    leaf = talk.turns(9)
    assert (await talk.ask(leaf))["status"] == "not_needed"

    _, leaf = await turn(talk, leaf, 1.5)

    assert (await talk.ask(talk.add("next", leaf)))["status"] == "pending"


@pytest.mark.parametrize("share", ["many", 5.0], ids=["no number", "odd"])
async def test_a_count_that_says_nothing_changes_nothing(talk: Talk, service: Service, share: Any) -> None:
    _, leaf = await turn(talk, talk.turns(4), 1.25)

    await turn(talk, leaf, share)

    assert await factor(service) == pytest.approx(1.25, abs=0.01)


async def test_the_count_of_calls_that_nobody_showed_us_is_not_compared(talk: Talk, service: Service) -> None:
    """Open WebUI before 0.11.2 shows a filter the first call of a turn, and tells the usage of all."""
    question = talk.add("question", talk.turns(4))
    asked = await talk.ask(question, seconds=20)
    leaf = talk.calls(question, "pump 7 is open")
    talk.rows[leaf]["usage"] = {"prompt_tokens": 2 * asked["state"]["counted"]}
    talk.rows[leaf]["parentId"] = question

    await talk.finish(asked, leaf)

    assert await factor(service) == 1


async def test_a_request_with_a_picture_is_not_compared(talk: Talk, service: Service) -> None:
    question = talk.add("question", talk.turns(4))
    body = talk.request(question)
    body["messages"][-1]["content"] = [{"type": "text", "text": "What is this?"}, PICTURE]
    asked = (await talk.client.post("/v1/compress", json=body | {"seconds": 20})).json()
    leaf = talk.add("answer", question, "assistant", usage={"prompt_tokens": 9000})

    await talk.finish(asked, leaf)

    assert await factor(service) == 1


async def test_images_that_tools_gave_are_no_question_to_which_anything_was_added(talk: Talk, service: Service) -> None:
    question = talk.add("question", talk.turns(4), content="Which pump is in this picture? " * 400)
    asked = await talk.ask(question, seconds=20)
    shown = [called("a"), returned("a", "a picture", PICTURE["image_url"]["url"]), said("It is P-7.")]
    await talk.finish(asked, talk.add("answer", question, "assistant", output=shown))

    stored = await row(service.runtime, "select overhead_tokens from chats")

    assert stored.overhead_tokens == asked["state"]["beside"]
