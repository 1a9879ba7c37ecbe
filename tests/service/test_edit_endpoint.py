"""`POST …/context`: how the described request is edited, and of which window the answer is."""

import pytest

from service.summarising.message import NOTED
from tests.conftest import Service, drain
from tests.service.talk import Json, Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def question_of(talk: Talk, service: Service) -> str:
    """The question below a chat that has a summary."""
    leaf = talk.turns(20)
    await talk.ingest(leaf)
    await drain(service.runtime)
    return talk.add("new", leaf, content="And now?")


async def test_the_answer_says_how_the_request_is_edited(talk: Talk, service: Service) -> None:
    answer = await talk.ask(await question_of(talk, service))

    covered, tokens = answer["covered_messages"], answer["tokens"]
    assert answer["edit"]["drop"] == [1, covered + 1]
    record, noted = answer["edit"]["insert"]
    assert record["role"] == "user"
    assert noted == {"role": "assistant", "content": NOTED}
    change = f"{tokens['before'] / 1000:.0f}k → {tokens['after'] / 1000:.0f}k tokens"
    assert answer["status_text"] == f"Summarised {covered} earlier messages: {change}"
    assert answer["excess"] == tokens["after"] - 8192 + 1024  # an eighth of the window is for the answer


async def test_without_a_description_the_answer_says_only_what_is_put_in(talk: Talk, service: Service) -> None:
    leaf = await question_of(talk, service)
    described = await talk.ask(leaf)

    answer = await talk.ask(leaf, native=None)

    del described["edit"]["drop"]
    assert answer == described


async def test_a_request_that_is_not_described_far_enough_gets_no_edit(talk: Talk, service: Service) -> None:
    question = await question_of(talk, service)
    whole = talk.described(question)
    newest = whole | {"questions": whole["questions"][:1], "asked": whole["asked"][:1]}

    answer = await talk.ask(question, native=newest)

    assert answer["status"] == "ready"
    assert "edit" not in answer


@pytest.mark.parametrize(
    "wrong",
    [
        {"leading": -1},
        {"questions": [["x", 1, 1, "a"]]},
        {"questions": [[1, 1, 1]]},
        {"asked": [["x", "a"]]},
        {"asked": None},
        {"more": 1},
    ],
)
async def test_a_description_that_is_none_is_refused(talk: Talk, wrong: Json) -> None:
    leaf = talk.turns(2)
    body = talk.question(leaf, native=talk.described(leaf) | wrong)

    response = await talk.client.post(f"/v1/chats/{talk.chat}/context", json=body)

    assert response.status_code == 422, response.text


async def test_a_description_has_its_bound(talk: Talk) -> None:
    leaf = talk.turns(2)
    many = [(place, f"words-{place}") for place in range(10_001)]
    body = talk.question(leaf, native=talk.described(leaf) | {"asked": many})

    response = await talk.client.post(f"/v1/chats/{talk.chat}/context", json=body)

    assert response.status_code == 413, response.text
