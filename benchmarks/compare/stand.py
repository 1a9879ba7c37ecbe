"""Plays the scenario once through a real Open WebUI, as a browser's tab would, and looks at every request.

In: a `Variant`. Out: a `Played`. Besides the turns: in one of them something is said, taken back and said otherwise
(a branch), and later an early message is edited in place; neither old text may ever be sent again.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.compare import beginning, lookups, notes, rows_tool
from benchmarks.compare.beginning import Beginning
from benchmarks.compare.honest import Honest
from benchmarks.compare.scenario import Item, Scenario, called, flat
from service.planning import policy
from service.transcript import count_stored_tokens
from tests.builders import Json
from tests.e2e.model import MODELS, Call, Model, Received, Reply, model_server, plain
from tests.e2e.openwebui import open_webui
from tests.e2e.precis import Precis
from tests.e2e.rig import Rig, install_filter, source
from tests.e2e.tab import Tab, Turn
from tests.e2e.tab import tab as open_tab
from tests.e2e.versions import NEWEST
from tests.e2e.view import well_formed
from tests.fakes.scripted_llm import scripted_llm
from tests.folders import reachable_folder

_CONFIG = "/api/v1/chats/config"
_TASK = "### Task:"
_SLOW = 2.0  # seconds that the summariser thinks; who waits for it waits so long
_SECRET = "kingfisher-1187"
_BRANCH = f"The password for the old gate is {_SECRET}."
_BRANCHED = "Forget the old gate, it is bricked up."
_STALE, _EDITED = "osprey-4410", "heron-2093"
_YARD = "The yard code is {}."


@dataclass(frozen=True, slots=True)
class Variant:
    """What is tried.

    Attributes:
        name: as it is shown.
        limit: tokens that the summariser may write; 0: there is none.
        own: whether Open WebUI's own compaction does it.
        pause: whether the user waits between turns until Precis is done.
        builtin: whether Open WebUI's own tools are offered, which take some 7,000 tokens of the window.
        edits: whether a message is taken back, and an early one is edited, after which all below it is read again.
    """

    name: str
    limit: int
    own: bool = False
    pause: bool = True
    builtin: bool = True
    edits: bool = True


@dataclass(slots=True)
class Played:
    """What was seen.

    Attributes:
        alive: by turn, (kinds of the items that hold and are alive, kinds of those that hold).
        found: kinds of the items that are not alive in the last turn and that two look-ups find; None: there are none.
        sizes: by turn, tokens of the largest request.
        beginnings: by turn from the second on, what its first request has of the request before.
        waits: by turn, seconds from sending to the first request at the model.
        malformed: requests that a strict provider would refuse.
        over: requests larger than the window.
        leaks: requests with what was said on another branch.
        stale: requests with what was edited away.
        read: tokens that the summariser read.
        wrote: those that it wrote.
        calls: of it.
        chat: tokens of the chat.
    """

    alive: list[tuple[list[str], list[str]]] = field(default_factory=list)
    found: list[str] | None = None
    sizes: list[int] = field(default_factory=list)
    beginnings: list[Beginning] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    malformed: int = 0
    over: int = 0
    leaks: int = 0
    stale: int = 0
    read: int = 0
    wrote: int = 0
    calls: int = 0
    chat: int = 0


async def play(variant: Variant, said: Scenario, window: int) -> Played:
    """The whole conversation."""
    # Worth keeping, too, is what is taken back and what is edited later: else nothing could leak.
    others = [
        Item("value", turn, text, (text,), "")
        for turn, text in (
            (1, _YARD.format(_STALE)),
            (1, _YARD.format(_EDITED)),
            (len(said.messages) // 3, _BRANCH),
        )
    ]
    honest = Honest([*said.items, *others], variant.limit)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(model_server())
        _summarising(model, honest)
        llm = await stack.enter_async_context(scripted_llm(lambda messages: honest.pointed(*_shown(messages))))
        llm.thinking = lambda _request: asyncio.sleep(_SLOW)
        folder = reachable_folder("precis-compare-")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        service = Precis(folder, _settings(variant, llm.openai_url))
        await service.start()
        stack.push_async_callback(service.end)
        home = folder / "openwebui"
        home.mkdir()
        server = await stack.enter_async_context(open_webui(NEWEST, home, model.url))
        rig = Rig(NEWEST, model, llm, service, server, await server.sign_up("admin"))
        await _installed(rig, variant, window)
        tab = await stack.enter_async_context(open_tab(rig.admin))
        tab.choices.tool_ids = ["rows"]
        found = await _conversation(rig, tab, variant, said, window)
    found.read, found.wrote, found.calls = honest.read, honest.wrote, honest.calls
    return found


def _shown(messages: Sequence[Mapping[str, object]]) -> tuple[str, str]:
    """The task, and all that is known: a repair has the earlier answer in the place of the record."""
    system, *known = [str(one["content"]) for one in messages[:3]]
    return system, "\n".join(known)


def _settings(variant: Variant, url: str) -> dict[str, str]:
    if variant.limit and not variant.own:
        return {"SUMMARISER": "openai", "SUMMARISER_URL": url, "SUMMARISER_MODEL": "scripted"}
    return {}


def _summarising(model: Model, honest: Honest) -> None:
    """Open WebUI asks the model itself for its summary; the other tasks stay as they are."""
    take = model.take

    async def taken(body: dict[str, object]) -> Reply:
        received = Received(body)
        text = "\n".join(plain(one["content"]) for one in received.messages)
        asked = received.question.lstrip()
        if asked.startswith(_TASK) and not any(mark in asked for mark in ('"follow_ups"', '"tags"', '"title"')):
            await asyncio.sleep(_SLOW)
            return Reply(honest.copied(text))
        return await take(body)

    model.take = taken  # type: ignore[method-assign]


async def _installed(rig: Rig, variant: Variant, window: int) -> None:
    tool = {"id": "rows", "name": "rows", "content": source(rows_tool)}
    await rig.admin.post("/api/v1/tools/create", {**tool, "meta": {"description": "rows", "manifest": {}}})
    if not variant.builtin:
        model: Json = {"id": MODELS[0], "base_model_id": None, "name": MODELS[0], "params": {}}
        capabilities = {"builtin_tools": False}
        await rig.admin.post("/api/v1/models/create", {**model, "meta": {"capabilities": capabilities}})
    if variant.own:
        threshold = policy.apply_at(window)
        limits = ("CONTEXT_COMPACTION_TOKEN_THRESHOLD", "CONTEXT_COMPACTION_TOKEN_CAP")
        before = await rig.admin.get(_CONFIG)
        on = {"ENABLE_CONTEXT_COMPACTION": True, **dict.fromkeys(limits, threshold)}
        await rig.admin.post(_CONFIG, before | on)
        return
    # Without a summariser of its own, the chat's model would write.
    await rig.install("--summariser", "none")
    await rig.window(window)
    await install_filter(rig.admin, "notes", source(notes))
    await rig.admin.post("/api/v1/functions/id/notes/valves/update", {"path": str(_noted_turns(rig)), "priority": 1000})


def _noted_turns(rig: Rig) -> Path:
    """Where a file notes what the filter knows of each request."""
    return rig.precis.folder / "turns"


async def _conversation(rig: Rig, tab: Tab, variant: Variant, said: Scenario, window: int) -> Played:
    found = Played()
    turns = len(said.messages)
    rig.model.answer = lambda received: _answer(received, said)
    gone: list[str] = []
    first: Turn | None = None
    for turn, text in enumerate(said.messages):
        message = f"{text} {_YARD.format(_STALE)}" if turn == 1 else text
        if variant.edits and turn == turns // 3:
            taken_back = await _sent(rig, tab, f"{message} {_BRANCH}", None)
            done = await _sent(rig, tab, f"{message} {_BRANCHED}", taken_back.turn.user)
            gone.append(_SECRET)
        else:
            done = await _sent(rig, tab, message, None)
        first = done.turn if turn == 1 else first
        _looked(found, done, said, turn, window, gone)
        if turn == turns - 1 and not variant.own:  # not before: it would give Precis time where nobody pauses
            found.found = await _found(rig, done, said, turn)
        if variant.pause and not variant.own:
            await rig.settled(tab)
        if variant.edits and turn == turns * 2 // 3 and first:
            edited = f"{said.messages[1]} {_YARD.format(_EDITED)}"
            await tab.edit(first.user, edited)
            gone.append(_STALE)
    saved = await rig.path(tab)
    found.chat = sum(map(count_stored_tokens, saved))
    return found


@dataclass(frozen=True, slots=True)
class _Sent:
    turn: Turn
    before: Received | None
    requests: Sequence[Received]
    wait: float


async def _sent(rig: Rig, tab: Tab, text: str, instead: str | None) -> _Sent:
    """One turn; how long it took until the model was asked."""
    before, began = len(rig.model.received), time.monotonic()

    async def arrived() -> float:
        async with rig.model.arrived:
            await rig.model.arrived.wait_for(lambda: len(rig.model.received) > before)
        return time.monotonic() - began

    waiting = asyncio.create_task(arrived())
    turn = await (tab.edit_and_send(instead, text) if instead else tab.send(text))
    earlier = rig.model.received[before - 1] if before else None
    return _Sent(turn, earlier, rig.model.received[before:], await waiting)


def _looked(found: Played, done: _Sent, said: Scenario, turn: int, window: int, gone: Sequence[str]) -> None:
    """What a turn's first request has, and what is wrong with all of them."""
    first = flat(_text(done.requests[0]))
    holding = [item for item in said.items if item.holds(turn)]
    found.alive.append(([one.kind for one in holding if one.alive(first)], [one.kind for one in holding]))
    found.sizes.append(max(one.tokens + one.tool_tokens for one in done.requests))
    if done.before:
        found.beginnings.append(beginning.measure_beginning(done.before.messages, done.requests[0].messages))
    found.waits.append(done.wait)
    for request in done.requests:
        text = _text(request)
        found.over += request.tokens + request.tool_tokens > window
        found.leaks += _SECRET in gone and _SECRET in text
        found.stale += _STALE in gone and _STALE in text
        try:
            well_formed(request.messages)
        except AssertionError:
            found.malformed += 1


async def _found(rig: Rig, done: _Sent, said: Scenario, turn: int) -> list[str]:
    """The kinds of the items that a turn's first request has not, and that a model would find."""
    first = flat(_text(done.requests[0]))
    missing = [item for item in said.items if item.holds(turn) and not item.alive(first)]
    valves = await rig.admin.get("/api/v1/functions/id/precis/valves")
    turn_noted = lookups.noted_turn(_noted_turns(rig), done.turn.answer)
    return await lookups.found(valves, turn_noted, missing)


def _text(received: Received) -> str:
    """All that the model is sent in messages."""
    parts = []
    for message in received.messages:
        parts.append(plain(message.get("content")))
        parts += [json.dumps(call["function"]) for call in message.get("tool_calls") or ()]
    return "\n".join(parts)


def _answer(received: Received, said: Scenario) -> Reply:
    """The answer of the turn; every third turn looks into the table before."""
    number = int(received.question.partition("Turn ")[2].partition(".")[0]) - 1
    newest = max(place for place, one in enumerate(received.messages) if one["role"] == "user")
    looked = any(one["role"] == "tool" for one in received.messages[newest:])
    if called(number) and not looked:
        return Reply("Let me see.", (Call(f"call-{number}", "query_rows", {"page": number}),))
    return Reply(said.answers[number])


def to_json(variant: Variant, found: Played) -> dict[str, object]:
    """As it is written."""
    return {"name": variant.name, "own": variant.own, **asdict(found)}
