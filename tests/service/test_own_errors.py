"""Errors of our own code: the chat gets a summary by the size of its messages, and operators see where it failed."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import pytest

from service.errors import TextWorkFailed
from service.processes import Texts, child
from service.storage import codec
from service.summarising import ledger, room
from service.summarising.memory import Memory
from tests.service.harness import Harness
from tests.service.talk import check_tree
from tests.service.test_too_hard import retries

P = ParamSpec("P")
T = TypeVar("T")
pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "the words of the chat"
RESULT = '{"stock": 4711}'


class Here(Texts):
    """Does in this process what a text process does, so that a fault can be put into it."""

    def __init__(self) -> None:
        """No process is started."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        kind, value = child.run_message(pickle.dumps((function, args, kwargs)))
        if kind == child.FAILED:
            raise TextWorkFailed(value)
        assert kind == child.DONE
        return cast(T, value)


def fails(*_: object, **__: object) -> NoReturn:
    raise ValueError(TEXT)


def no_entries(memory: Memory, *beside: Any) -> bytes:
    if any(entry.tool == "look_up" for entry in memory.ledger):
        raise TypeError(TEXT)
    return PACKED(memory, *beside)


PACKED = codec.pack_memory
FAULTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "reading a result": (ledger, "describe_call", fails),
    "storing an entry": (codec, "pack_memory", no_entries),
    "showing the memory": (room, "fit_memory", fails),
}
"""What fails whenever it is used: module, function and fault."""


async def with_calls(harness: Harness) -> str:
    leaf = harness.talk.turns(20, leaf=harness.talk.calls(None, RESULT, RESULT))
    assert await harness.talk.ingest(leaf)
    return leaf


@pytest.mark.parametrize("who", ["a model", "code"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_the_summary_gives_messages_by_their_size_on_which_our_code_fails(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, fault: str, who: str
) -> None:
    module, name, broken = FAULTS[fault]
    error = "TypeError" if broken is no_entries else "ValueError"
    monkeypatch.setattr(module, name, broken)
    leaf = await with_calls(harness)
    context = replace(harness.worker_context(max_attempts=1), texts=Here())
    if who == "code":
        context = replace(context, summariser=None)

    await retries(harness, context)

    assert (await harness.talk.ask(leaf))["status"] == "ready"
    first = (await harness.made())[0]
    assert (first.kind, first.verdict["outcome"]) == ("degraded", "degraded")
    (why,) = first.verdict["reasons"]
    assert why.startswith(f"unexpected {error} at ")
    assert TEXT not in why
    assert "internal error" not in {run.outcome for run in await harness.runs()}
    assert [(one["first"], one["last"]) for one in first.ledger] == [(1, 2)], "later calls keep their numbers"
    await check_tree(harness.runtime)


async def test_where_code_fails_on_an_interim_summary_the_model_writes_without_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_calls(harness)
    context = replace(harness.worker_context(), texts=Here())
    with monkeypatch.context() as broken:
        broken.setattr(codec, "pack_memory", fails)
        await harness.compress(context)

    chat = await harness.chat()
    assert (chat.code_at, chat.dead_at) == (None, None)
    assert "unexpected ValueError at storage/" in chat.last_error
    failed = [(run.by_code, run.outcome) for run in await harness.runs()]
    assert sorted(failed) == [(False, "internal error"), (True, "internal error")]
    await retries(harness, context)
    assert {one.kind for one in await harness.made()} == {"llm"}
