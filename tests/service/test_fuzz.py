"""Bodies and messages made at random: the service never fails."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Service, drain
from tests.effort import examples
from tests.service.problems import CONTEXT, TRANSCRIPT, is_problem
from tests.service.talk import Json, Talk, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["a0", "\0", "user"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(["type", "id", "call_id", "name", "arguments", "output", "content", "text", "status", "code"])
kinds = st.sampled_from(
    [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "open_webui:code_interpreter",
        "output_text",
        "text",
    ]
)
items = st.dictionaries(names, anything | kinds | st.lists(anything, max_size=3), max_size=6) | st.fixed_dictionaries(
    {"type": kinds},
    optional={"call_id": anything, "name": anything, "arguments": anything, "output": anything, "content": anything},
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "developer"])},
    optional={
        "content": st.text(max_size=50) | st.lists(items, max_size=3),
        "output": st.lists(items | anything, max_size=5),
        "files": st.lists(st.dictionaries(names, anything, max_size=4), max_size=2),
        "usage": st.dictionaries(st.sampled_from(["prompt_tokens", "prompt_eval_count"]), anything, max_size=2),
        "error": anything,
        "timestamp": st.integers(0, 253_402_300_799),
    },
)


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_no_body_ever_fails_the_service(service: Service, data: st.DataObject) -> None:
    talk = Talk(service.as_filter)
    question, transcript = talk.question(talk.turns(1)), talk.transcript("a0")
    for method, where, body in (("POST", CONTEXT, question), ("PUT", TRANSCRIPT, transcript)):
        name = data.draw(st.sampled_from(sorted(body)))
        value = data.draw(anything)
        spoilt = body | {name: value} if data.draw(st.booleans()) else value
        response = await service.as_filter.request(method, where, content=encoded(spoilt))
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            is_problem(response, response.status_code)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.lists(messages, min_size=1, max_size=4))
async def test_whatever_a_message_holds_it_is_taken_and_worked_on(service: Service, made: list[Json]) -> None:
    talk = Talk(service.as_filter, f"chat-{abs(hash(repr(made)))}")
    talk.window, leaf = 2048, None
    for number, message in enumerate(made):
        talk.rows[f"m{number}"] = {"id": f"m{number}", "parentId": leaf, "content": ""} | message
        leaf = f"m{number}"
    leaf = talk.turns(6, leaf=leaf)

    response = await service.as_filter.put(
        f"/v1/chats/{talk.chat}/transcript", content=encoded(talk.transcript(leaf, served=0))
    )

    assert response.status_code in (202, 400), response.text  # 400: half of a surrogate pair
    await drain(service.runtime)
    assert {run.outcome for run in await rows(service.runtime, "select outcome from runs")} <= {"done", "nothing to do"}
