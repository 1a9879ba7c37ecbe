"""The tool with which a model looks up what a summary covers: who is offered it, and that Open WebUI runs it."""

import json

from service.request.record import OFFERED
from service.text.tokens import count
from tests.builders import Json
from tests.e2e.model import Call, Received, Reply, plain
from tests.e2e.precis import FACT
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.versions import since
from tests.e2e.view import view

TOOL = "precis_recall"


def specified(received: Received) -> list[Json]:
    return [one for one in received.body.get("tools") or () if one["function"]["name"] == TOOL]


def is_offered(received: Received) -> bool:
    """Whether a request has the tool, and then its summary says so too; never one without the other."""
    in_tools = len(specified(received))
    assert view(received).says_how_to_look_up == in_tools
    assert sum(OFFERED in plain(one.get("content")) for one in received.messages) == in_tools
    return bool(in_tools)


async def test_a_model_finds_what_a_summary_covers_by_its_words(rig: Rig, tab: Tab) -> None:
    tab.choices.params = {"function_calling": "native"}  # not the default up to 0.9
    path = await rig.long_chat(tab)
    (told,) = FACT.findall(path[0]["content"])
    gate, _, code = told.partition(" is ")
    rig.model.script.append(Reply("", (Call("recall-1", TOOL, {"query": gate}),)))

    await tab.send(question())

    seen = await rig.compressed()
    assert is_offered(rig.model.received[-1])
    assert path[0]["content"] == seen.hidden[0]["content"]
    result = seen.added[-1]
    assert result["role"] == "tool"
    assert code in result["content"]


async def test_a_compressed_chat_is_offered_the_tool_by_default_for_at_most_250_tokens(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)

    await tab.send(question())

    await rig.compressed()
    assert is_offered(rig.model.received[-1]) == since(rig.version, "0.10"), "before, calls are not native by default"
    for specification in specified(rig.model.received[-1]):
        assert count(json.dumps(specification)) + count(f"{OFFERED}\n\n") <= 250
