"""The tool with which a model looks up what a summary covers: who is offered it, and what it finds and reads."""

import json
import re

import pytest

from service.request.record import OFFERED
from service.text.tokens import count
from tests.builders import Json
from tests.e2e.look_up_tool import result
from tests.e2e.model import Call, Received, Reply, plain
from tests.e2e.precis import Checkpoint
from tests.e2e.rig import Rig, filler, question
from tests.e2e.tab import Tab
from tests.e2e.versions import since
from tests.e2e.view import view

TOOL = "precis_recall"
TOPIC, SIZE = "boiler", 900  # of a look-up whose rows no summary has
OWN = {"type": "function", "function": {"name": "mine", "description": "", "parameters": {"type": "object"}}}


@pytest.fixture(autouse=True)
def natively(tab: Tab) -> None:
    """The tab asks for native calling, which was not the default up to 0.9."""
    tab.choices.params = {"function_calling": "native"}


def specified(received: Received) -> list[Json]:
    """The specifications of our tool in a request."""
    return [one for one in received.body.get("tools") or () if one["function"]["name"] == TOOL]


def is_offered(received: Received) -> bool:
    """Whether a request has the tool, and then its summary says so too; never one without the other."""
    in_tools = len(specified(received))
    assert view(received).says_how_to_look_up == in_tools
    assert sum(OFFERED in plain(one.get("content")) for one in received.messages) == in_tools
    return bool(in_tools)


def results(received: Received) -> list[str]:
    """What tools have returned in the running turn."""
    newest = max(place for place, one in enumerate(received.messages) if one["role"] == "user")
    return [plain(one["content"]) for one in received.messages[newest:] if one["role"] == "tool"]


async def recalled(rig: Rig, tab: Tab, *asked: Json) -> list[str]:
    """A turn in which the model looks up one thing after the other; what it is told."""
    turn = len(rig.model.received)
    for number, one in enumerate(asked):
        rig.model.script.append(Reply("", (Call(f"recall-{turn}-{number}", TOOL, one),)))
    await tab.send(question())
    assert is_offered(rig.model.received[-1])
    told = results(rig.model.received[-1])
    assert len(told) == len(asked)
    return told


def read(told: str) -> str:
    """The text of a page, without the numbers of its lines."""
    return "\n".join(re.findall(r"^\d+\| (.*)$", told, re.MULTILINE))


async def chat_with_a_result(rig: Rig, tab: Tab) -> None:
    """A chat that has begun with a look-up, and has a summary of that."""
    tab.choices.tool_ids = ["look_up"]
    rig.model.script.append(Reply("", (Call("looked-up", "look_up", {"topic": TOPIC, "size": SIZE}),)))
    rig.model.script.append(Reply("The readings are there."))
    await tab.send(question())
    tab.choices.tool_ids = ()
    await grown(rig, tab)


async def grown(rig: Rig, tab: Tab) -> None:
    """The chat goes on until the summary in its requests covers all of its present messages."""
    leaf = tab.current
    for _ in range(16):
        rig.model.script.append(Reply(filler("Answer", 2000)))
        await tab.send(question())
        await rig.settled(tab)
        sent = view(rig.model.received[-1]).summary
        if any(covers(tab, one, leaf) and one.summary == sent for one in await written(rig, tab)):
            return
    raise AssertionError("no summary covers it")


def covers(tab: Tab, made: Checkpoint, message: str | None) -> bool:
    return message in [one["id"] for one in tab.path(made.until)]


async def written(rig: Rig, tab: Tab) -> list[Checkpoint]:
    """The summaries of the chat that the summariser has written, and not code until then."""
    shown = await rig.precis.show(str(tab.chat_id))
    assert shown
    kinds = {one["id"]: one["kind"] for one in shown["checkpoints"]}
    return [one for one in await rig.checkpoints(str(tab.chat_id)) if kinds[one.id] != "interim"]


# What is found and read


async def test_a_model_finds_a_result_by_its_words_and_reads_it_to_the_byte(rig: Rig, tab: Tab) -> None:
    await chat_with_a_result(rig, tab)

    found, whole, line = await recalled(
        rig, tab, {"query": f"{TOPIC} valve 17"}, {"ref": "T1"}, {"ref": "T1", "grep": "valve 31"}
    )

    assert result(TOPIC, SIZE).splitlines()[40] not in json.dumps((await rig.seen()).head)
    assert "T1 look_up(" in found
    assert read(whole) == result(TOPIC, SIZE)
    assert read(line) == "\n".join(result(TOPIC, SIZE).splitlines()[29:34])
    await rig.compressed()


# Who is offered it


async def test_a_compressed_chat_is_offered_the_tool_for_at_most_250_tokens(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)

    await tab.send(question())

    assert is_offered(rig.model.received[-1])
    (spec,) = specified(rig.model.received[-1])
    assert count(json.dumps(spec)) + count(f"{OFFERED}\n\n") <= 250


@pytest.mark.parametrize("how", ["by default", "with legacy calling", "with tools of its own", "with the valve off"])
async def test_it_is_offered_where_a_model_can_call_it(rig: Rig, tab: Tab, how: str) -> None:
    native_by_default = since(rig.version, "0.10")
    match how:
        case "by default":
            tab.choices.params = None
        case "with legacy calling":
            tab.choices.params = {"function_calling": "legacy"} if native_by_default else None
        case "with the valve off":
            await rig.valves(offer_recall=False)
    await rig.long_chat(tab)
    tab.choices.tools = [OWN] if how == "with tools of its own" else []

    await tab.send(question())

    await rig.compressed()
    assert is_offered(rig.model.received[-1]) == (how == "by default" and native_by_default)
    assert how != "with tools of its own" or OWN in rig.model.received[-1].body["tools"]
