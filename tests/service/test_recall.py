"""What a model looks up in the covered part of its own chat, and an operator in a whole one."""

import json
from typing import Any

import pytest

from service.recall.parts import STORED_FROM
from tests.service.harness import Harness
from tests.service.talk import Json, Talk, row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDER = "Order INV-2031 of Müller GmbH goes to Trondheim on Tuesday."


def called(identity: str, result: str, **arguments: object) -> Json:
    """One call of a tool and its result, as output items."""
    return {
        "output": [
            {"type": "function_call", "call_id": identity, "name": "look_up", "arguments": json.dumps(arguments),
             "status": "completed"},
            {"type": "function_call_output", "call_id": identity, "output": [{"type": "input_text", "text": result}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        ]
    }  # fmt: skip


TABLE = "\n".join(f"row {number}: valve V-{number:03d} has {number * 37 % 101} bar" for number in range(120))


@pytest.fixture
def grown(talk: Talk) -> str:
    """A chat with an order, a result of a tool and much else; returns its leaf."""
    talk.add("first", None, content=ORDER)
    talk.add("looked", "first", "assistant", "", **called("call-abc", TABLE, topic="valves"))
    talk.window = 8192
    return talk.turns(12, leaf="looked")


async def recalled(harness: Harness, leaf: str, *, pairs: int = 16, **question: object) -> Json:
    """The answer for the branch of a leaf."""
    talk = harness.talk
    path = [(identity, digest) for identity, _, digest in talk.chain(leaf)][::-1][:pairs]
    body = {"user_id": talk.user, "path": path} | question
    response = await talk.client.post(f"/v1/chats/{talk.chat}/recall", json=body)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


@pytest.fixture
async def covered(harness: Harness, grown: str) -> str:
    harness.talk.rows |= {}
    return grown


async def summarised(harness: Harness, talk: Talk, leaf: str) -> str:
    harness.talk = talk
    assert await talk.ingest(leaf)
    await harness.drain()
    return leaf


async def test_words_lead_to_the_covered_message(harness: Harness, talk: Talk, grown: str) -> None:
    leaf = await summarised(harness, talk, grown)

    answer = await recalled(harness, leaf, query="where does the order of mueller müller go")

    print(answer["text"])
    assert answer["references"][0] == "M1"
    assert "Trondheim" in answer["text"]
    answer = await recalled(harness, leaf, query="V-077")
    print(answer["text"])
    answer = await recalled(harness, leaf, ref="T1", grep="V-077")
    print(answer["text"])
    answer = await recalled(harness, leaf, ref="T1")
    print(answer["text"][-300:])
    assert answer["content"] == TABLE
    for ref in ("M2", "1.1", "2", "call-abc", "T9", "M99", "marker:x", "nonsense"):
        print(ref, (await recalled(harness, leaf, ref=ref))["text"][:300])
