"""Whatever is sent: a clear 4xx problem, or a bounded and sensible answer; and nothing is stored half."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.conftest import Service, drain
from tests.effort import examples
from tests.service.harness import emptied
from tests.service.problems import COMPRESS, LEAF, TURNS, is_problem, three_turns
from tests.service.talk import Json, Talk, check_tree, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

Spoil = Callable[[Json], object]


@pytest.fixture
def talk(service: Service) -> Talk:
    return three_turns(service)


def change(**values: object) -> Spoil:
    return lambda body: body | values


def without(name: str) -> Spoil:
    return lambda body: {key: value for key, value in body.items() if key != name}


def change_state(**values: object) -> Spoil:
    return lambda body: body | {"state": body["state"] | values}


BOTH: dict[str, Spoil] = {
    "no model": without("model"),
    "an escape in the model": change(model="a\x1b[2Jb"),
    "a C1 character in the user": change(user="a\x9bb"),
    "a window beyond 64 bits": change(window=2**80),
    "a field that nobody knows": change(mesages=[]),
}
STATES: dict[str, Spoil] = {
    "in the state, a NUL in the chat": change_state(chat="a\0b"),
    "in the state, no window": change_state(window=0),
    "in the state, a window beyond 64 bits": change_state(window=2**80),
    "in the state, a negative count": change_state(first_left_out=-3, cut="left out"),
    "in the state, a factor of nothing": change_state(factor=0),
    "in the state, an expiry in the past": change_state(expires_in=-5),
    "in the state, a node beyond all ids": change_state(above="f" * 10_000),
}
REQUESTS: dict[str, Spoil] = BOTH | {
    "fewer ids than messages": change(ids=["u0"]),
    "a long id": change(ids=["i" * 10_000] * 6),
    "a negative patience": change(seconds=-1),
}
TOLD: dict[str, Spoil] = (
    STATES
    | {name: spoil for name, spoil in BOTH.items() if "model" not in name}
    | {"no message": change(messages=[]), "neither a state nor a model": without("state")}
)

BYTES: dict[str, Spoil] = {
    "bytes that are no UTF-8": lambda _: b'{"model": "\xff\xfe"}',
    "half of a surrogate pair": lambda _: b'{"model": "\\ud800"}',
    "the same field twice": lambda _: b'{"model": "m", "model": "n"}',
}
CASES = [(COMPRESS, name, spoil) for name, spoil in (REQUESTS | STATES | BYTES).items()]
CASES += [(TURNS, name, spoil) for name, spoil in (TOLD | BYTES).items()]


@pytest.mark.parametrize(
    ("where", "spoil"), [(where, spoil) for where, _, spoil in CASES], ids=[f"{case[0]}: {case[1]}" for case in CASES]
)
async def test_a_bad_body_is_a_problem_and_nothing_is_stored(
    talk: Talk, service: Service, where: str, spoil: Spoil
) -> None:
    leaf = talk.add("newest", LEAF)
    asked = await talk.ask(leaf)
    body = talk.request(leaf) | {"state": asked["state"]} if where == COMPRESS else talk.turn(LEAF)
    body["messages"][-1]["usage"] = {"prompt_tokens": 5000}
    await service.stored()
    before = await tables(service.runtime)

    spoiled = spoil(body)
    # With and without escapes: JSON may have a C1 character as it is.
    for ascii_only in (True, False):
        content = spoiled if isinstance(spoiled, bytes) else json.dumps(spoiled, ensure_ascii=ascii_only).encode()
        is_problem(await service.as_filter.post(where, content=content), 400, 422)

    await service.stored()
    assert await tables(service.runtime) == before


@pytest.mark.parametrize(
    "absurd",
    [{"first_cut": "left out", "first_left_out": 2**29}, {"served": 2**62}],
    ids=["more left out than there is", "a record that is not there"],
)
async def test_whatever_a_state_says_the_request_is_sent_in_its_window(
    talk: Talk, service: Service, absurd: Json
) -> None:
    leaf = talk.turns(20, leaf=LEAF)
    asked = await talk.ask(leaf)

    again = await talk.ask(leaf, state=asked["state"] | absurd)

    assert 0 < again["tokens"]["after"] <= 8192
    assert (await talk.ask(leaf, state=asked["state"] | absurd, messages=[]))["tokens"]["after"] == 0
    told = await talk.put({"state": asked["state"] | absurd, "messages": talk.turn(leaf)["messages"], "whole": True})
    assert told.status_code == 202, told.text
    await service.stored()
    await check_tree(service.runtime)


ROLES = [
    "user",
    "assistant",
    "tool",
    "system",
    "developer",
    "function",
    "us\0er",
    "",
    None,
    7,
    ["user"],
    {"role": "user"},
]
KINDS = ["text", "image_url", "input_audio", "file", "thinking", "refusal", "", None, 7, ["text"]]
MARKS = ["\ud800", "\0", "\u2028", "<attached_files>", '<details type="tool_calls">']
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(MARKS)
values = st.recursive(
    plain | st.just("A sentence that says very little. " * 300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def odd(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Objects with some of these fields, each of any type."""
    return st.fixed_dictionaries({}, optional={name: values | one for name, one in fields.items()})


part = odd(type=st.sampled_from(KINDS), text=values, image_url=odd(url=values), name=values)
call = odd(id=st.sampled_from(["a", "b"]), type=values, function=odd(name=values, arguments=values))
content = values | st.lists(part, max_size=4)
message = odd(
    role=st.sampled_from(ROLES),
    content=content,
    tool_calls=st.lists(call, max_size=3),
    tool_call_id=st.sampled_from(["a", "b"]),
    reasoning_content=values,
    reasoning=values,
)
item = odd(
    type=st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "web_search_call"])
    | st.just("open_webui:code_interpreter"),
    content=content,
    provider_function=values,
    call_id=st.sampled_from(["a", "b"]),
    arguments=values,
    status=st.just("completed"),
    output=content,
)
DEEP: list[Any] = json.loads("[" * 150 + "NaN" + "]" * 150)
row = odd(
    id=st.text(max_size=300),
    role=st.sampled_from(ROLES),
    content=content,
    output=st.lists(item, max_size=4),
    files=st.lists(part, max_size=3),
    usage=odd(prompt_tokens=values),
    error=values,
    timestamp=values,
)

ODD_CALL: list[Json] = [
    {"type": "function_call", "call_id": "a", "provider_function": 5, "arguments": {}, "status": "completed"},
    {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_image", "image_url": 5}]},
]


@settings(max_examples=examples(160), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(message, max_size=14), st.lists(row, min_size=1, max_size=8), st.sampled_from([2048, 4096, None]))
@example([], [{}], None)
@example([], [{"role": "user", "content": "Hi"}, {"role": "assistant", "output": ODD_CALL}], None)
@example([{"role": "assistant", "content": DEEP, "tool_calls": DEEP}], [{"output": DEEP, "usage": DEEP}], None)
@example([{"role": "user", "content": "Hello?", "tool_calls": "none"}], [{"content": 5}], 2048)
@example([{"role": "user", "content": "Look! " * 4000, "tool_calls": 1}] * 3, [{"role": "user"}], 2048)
@example([{"tool_calls": [1, {}, {"function": 2}, {"function": {"arguments": "x " * 9000}}]}], [{}], 2048)
async def test_odd_messages_are_sent_in_order_and_nothing_of_them_is_lost(
    service: Service, sent: list[Json], stored: list[Json], window: int | None
) -> None:
    await emptied(service)
    talk = Talk(service.as_filter, window=window)
    body: Json = talk.request(talk.turns(1)) | {"messages": sent}
    with capture_logs() as logs:
        answers, kept = [], []
        for _ in range(2):
            response = await service.as_filter.post(COMPRESS, content=json.dumps(body).encode())
            assert response.status_code == 200, response.text
            answers.append(response.json())
            await service.stored()
            kept.append(len(await rows(service.runtime, "select 1 from messages")))

        first, _ = answers
        assert kept[0] == kept[1], "all of it is stored"
        for answer in answers:
            places = [one for one in answer["messages"] or () if isinstance(one, int)]
            assert places == sorted(set(places))
            assert all(0 <= one < len(sent) for one in places)
            assert answer["messages"] is None or answer["messages"] or not sent
        # A later call of the turn, and its end.
        response = await service.as_filter.post(COMPRESS, content=json.dumps(body | {"state": first["state"]}).encode())
        assert response.status_code == 200, response.text
        for whole in (False, True):
            told = {"state": first["state"], "messages": stored, "whole": whole}
            response = await service.as_filter.post(TURNS, content=json.dumps(told).encode())
            assert response.status_code == 202, response.text
        await drain(service.runtime)
    assert not [line for line in logs if line["log_level"] == "error"]
    outcomes = {run.outcome for run in await rows(service.runtime, "select outcome from runs")}
    assert outcomes <= {"done", "nothing to do", "waits"}
    await check_tree(service.runtime)


async def test_more_than_10000_messages_are_too_many(talk: Talk, service: Service) -> None:
    messages = [{"role": "user", "content": ""}] * 10_001
    for body, where in ((talk.request(LEAF), COMPRESS), (talk.turn(LEAF), TURNS)):
        problem = is_problem(await service.as_filter.post(where, json=body | {"messages": messages}), 413)
        assert "10001" in problem["detail"]
        assert "10000" in problem["detail"]
    assert (await tables(service.runtime))["chats"] == []


async def in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 2**18):
        yield content[start : start + 2**18]


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_a_body_of_more_than_8_mib_is_too_large(talk: Talk, service: Service, chunked: bool) -> None:
    talk.rows["a2"]["content"] = "x" * 8 * 2**20
    for where, asked in ((COMPRESS, talk.request(LEAF)), (TURNS, talk.turn(LEAF))):
        body = json.dumps(asked).encode()

        response = await service.as_filter.post(where, content=in_pieces(body) if chunked else body)

        problem = is_problem(response, 413)
        assert problem["limit"] == 8 * 2**20
        assert "PRECIS_MAX_BODY_BYTES" in problem["detail"]
    assert (await tables(service.runtime))["chats"] == []


@pytest.mark.parametrize("text", ["Ж", "A sentence that says little. "], ids=["Ж", "words"])
async def test_a_text_of_nearly_8_mib_is_sent_shortened_and_stored(talk: Talk, service: Service, text: str) -> None:
    talk.rows["a2"]["content"] = text * (7 * 2**20 // len(text.encode()))
    body = json.dumps(talk.request(LEAF), ensure_ascii=False).encode()

    response = await service.as_filter.post(COMPRESS, content=body)

    assert response.status_code == 200, response.text
    assert response.json()["tokens"]["after"] <= 8192
    assert response.json()["messages"][-1] == 7
    await service.stored()
    assert len(await rows(service.runtime, "select 1 from messages")) == 6


@pytest.mark.parametrize("query", ["cursor=%C3%A9", "cursor=OTk5OS0xMi0zMVQyMzo1OTo1OS0yMzowMCAx", "limit=201"])
async def test_a_bad_cursor_or_limit_is_a_problem(service: Service, query: str) -> None:
    """The second cursor says 9999-12-31T23:59:59-23:00 1."""
    is_problem(await service.as_operator.get(f"/v1/chats?{query}"), 400, 422)


@pytest.mark.parametrize(("kind", "status"), [("text/plain", 415), ("APPLICATION/JSON; charset=utf-8", 202), ("", 415)])
async def test_a_body_is_taken_as_json_alone_and_no_body_needs_no_kind(
    service: Service, kind: str, status: int
) -> None:
    body = json.dumps(three_turns(service).turn(LEAF)).encode()

    assert (await service.as_filter.post(TURNS, content=body, headers={"Content-Type": kind})).status_code == status

    without_a_body = await service.as_operator.post("/v1/jobs/retry", headers={"Content-Type": ""})
    assert without_a_body.status_code == 202
