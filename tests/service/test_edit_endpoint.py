"""`POST …/context` with a description of the request: the answer also says how to edit it."""

import pytest

from service.summarising.message import NOTED
from tests.conftest import Service, drain
from tests.service.talk import Json, Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD_ANSWER = {"status", "known", "window", "tokens"}
OLD_READY = OLD_ANSWER | {"checkpoint_id", "covered_until", "covered_digest", "covered_messages", "summary"}


def described(talk: Talk, leaf: str, **other: object) -> Json:
    """A request whose list is the path itself behind a system message."""
    path = talk.path(leaf)
    users = [place for place, row in enumerate(path) if row["role"] == "user"][::-1]
    return {
        "leading": 1,
        "questions": [(place + 1, 100 * place, 30, f"words-{place}") for place in users],
        "asked": [(place, f"words-{place}") for place in users],
        "all_questions": len(users),
        "all_asked": len(users),
    } | other


async def test_a_question_of_the_filter_before_gets_the_answer_of_before(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20)
    await talk.ingest(leaf)
    assert set(await talk.ask(leaf)) == OLD_ANSWER
    await drain(service.runtime)
    assert set(await talk.ask(leaf)) == OLD_READY


async def test_a_described_request_is_told_how_it_is_edited(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20)
    await talk.ingest(leaf)
    question = talk.add("new", leaf, content="And now?")
    await drain(service.runtime)

    answer = await talk.ask(question, native=described(talk, question))

    covered, tokens = answer["covered_messages"], answer["tokens"]
    assert answer["edit"]["drop"] == [1, covered + 1]
    summary = (await talk.ask(question))["summary"]
    assert answer["edit"]["insert"] == [
        {"role": "user", "content": summary},
        {"role": "assistant", "content": NOTED},
    ]
    assert "summary" not in answer, "the edit has it"
    change = f"{tokens['before'] / 1000:.0f}k → {tokens['after'] / 1000:.0f}k tokens"
    assert answer["status_text"] == f"Summarised {covered} earlier messages: {change}"
    assert answer["density"] == 2.0  # the estimates above are far too small


async def test_while_a_summary_is_made_the_text_says_so(talk: Talk) -> None:
    leaf = talk.turns(20)
    await talk.ingest(leaf)

    answer = await talk.ask(leaf, native=described(talk, leaf))

    assert set(answer) == OLD_ANSWER | {"density", "status_text"}
    assert answer["status_text"] == "Summarising …"


async def test_a_request_whose_pairs_do_not_reach_the_boundary_gets_no_edit(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20)
    await talk.ingest(leaf)
    await drain(service.runtime)
    native = described(talk, leaf)
    whole = await talk.ask(leaf, native=native)
    assert whole["edit"]

    above = await talk.ask(leaf, pairs=len(talk.path(leaf)) - whole["covered_messages"], native=native)

    assert above["status"] == "ready"
    assert above["covered_messages"] == whole["covered_messages"]
    assert not {"edit", "covered_digest"} & set(above)


async def test_a_request_that_is_not_described_far_enough_gets_no_edit(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20)
    await talk.ingest(leaf)
    question = talk.add("new", leaf, content="And now?")
    await drain(service.runtime)
    whole = described(talk, question)
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
    body = talk.question(leaf, native=described(talk, leaf) | wrong)

    response = await talk.client.post(f"/v1/chats/{talk.chat}/context", json=body)

    assert response.status_code == 422, response.text


async def test_a_description_has_its_bound(talk: Talk) -> None:
    leaf = talk.turns(2)
    many = [(place, f"words-{place}") for place in range(10_001)]
    body = talk.question(leaf, native=described(talk, leaf, asked=many))

    response = await talk.client.post(f"/v1/chats/{talk.chat}/context", json=body)

    assert response.status_code == 413, response.text


@pytest.mark.parametrize(("told", "window"), [([0, 16_384, 8192], 16_384), ([], 8192), ([5], 8192)])
async def test_of_the_windows_that_are_told_the_first_that_can_be_one_counts(
    talk: Talk, told: list[int], window: int
) -> None:
    leaf = talk.turns(2)
    await talk.ingest(leaf)
    body = talk.question(leaf, windows=told)
    body.pop("window_tokens", None)

    answer = (await talk.client.post(f"/v1/chats/{talk.chat}/context", json=body)).json()

    assert answer["window"] == window


async def test_of_an_unknown_chat_the_window_is_told(talk: Talk) -> None:
    leaf = talk.turns(2)

    answer = await talk.ask(leaf, windows=[4096], native=described(talk, leaf))

    assert answer == {"status": "unknown", "window": 4096}
