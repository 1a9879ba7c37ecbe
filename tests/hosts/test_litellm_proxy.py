"""LiteLLM's own proxy with our guardrail before the real service, on each of its three wires."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from service.summarising.message import BEGINS, NOTED
from service.text import tokens
from tests import constants
from tests.conftest import Service
from tests.filter.chat import working
from tests.filter.wire import Answer, Behaviour, HangUp, Scripted, Silence, wire
from tests.filter.wire import Wire as Tap
from tests.hosts.litellm_proxy import MASTER_KEY, litellm
from tests.hosts.wires import LOOK_UP, PIXEL, WIRES, Json, Provider, Wire
from tests.service.talk import prose

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

WINDOW, TURNS = 8192, 30
PATHS = [one.path for one in WIRES]


@dataclass
class Rig:
    """A proxy between clients and a provider, and what stands between the proxy and Precis."""

    http: httpx.AsyncClient
    provider: Provider
    precis: Tap
    service: Service


@asynccontextmanager
async def proxied(service: Service, folder: Path, seconds: int) -> AsyncIterator[Rig]:
    provider = Provider()
    async with (
        wire(Scripted(provider.answer)) as model,
        wire(service.url) as precis,
        litellm(folder, model.url, precis.url, service.filter_key, seconds) as url,
        working(service.runtime),
        httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {MASTER_KEY}"}, timeout=60) as http,
    ):
        yield Rig(http, provider, precis, service)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(shared_service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """As the page has it."""
    async with proxied(shared_service, tmp_path_factory.mktemp("litellm"), seconds=1) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient_rig(shared_service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """Both wait longer, so that a busy machine changes nothing."""
    async with proxied(shared_service, tmp_path_factory.mktemp("patient"), seconds=60) as made:
        yield made


@dataclass
class Chat:
    """A client's chat on one wire."""

    rig: Rig
    wire: Wire
    name: str
    items: list[Json] = field(default_factory=list)

    async def send(self, **headers: str) -> tuple[Json, Json]:
        """What the provider was sent, and what the client got."""
        named = {"X-Precis-Chat": self.name} | headers
        response = await self.rig.http.post(self.wire.path, json=self.wire.body(self.items), headers=named)
        assert response.status_code == 200, response.text
        return self.rig.provider.bodies[-1], response.json()

    async def call(self) -> tuple[Json, Json]:
        """One request as it is without us, and as it is sent."""
        plain, _ = await self.send(**{"X-Precis": "off"})
        sent, answer = await self.send()
        self.items += self.wire.said(answer)
        await self.rig.service.stored()
        return plain, sent

    async def turn(self, number: int) -> list[tuple[Json, Json]]:
        """A turn; in every third one the model calls a tool, and in every fifth one the user shows a picture."""
        text = f"{LOOK_UP}." if number % 3 == 1 else "And?"
        question = f"{prose(120, f'{self.name} {number}')} {text}"
        self.items.append(self.wire.question(question, picture=number % 5 == 2))
        calls = [await self.call()]
        if number % 3 == 1:
            called = f"call{len(self.rig.provider.bodies)}"
            self.items.append(self.wire.result(called, prose(400, f"result {number}")))
            calls.append(await self.call())
        return calls


LOST = ("id", "status", "annotations")
"""What LiteLLM leaves out of the items of `responses` as soon as their number changes, with all reasoning."""


def plain(value: Any) -> Any:
    """Without what two spellings of the same messages differ in."""
    if isinstance(value, list):
        return [plain(one) for one in value if not (isinstance(one, dict) and one.get("type") == "reasoning")]
    if not isinstance(value, dict):
        return value
    is_text = isinstance(value.get("text"), str)
    left_out = (*LOST, "type") if is_text or value.get("type") == "message" else LOST
    kept = {key: plain(one) for key, one in value.items() if one is not None and key not in left_out}
    for name in ("content", "output"):
        if isinstance(kept.get(name), str):
            kept[name] = [{"text": kept[name]}]
    return kept


def beside(body: Json, items: str) -> Json:
    return {key: value for key, value in body.items() if key not in (items, "stream")}


def texts_of(value: Any) -> str:
    """All texts of a request but pictures."""
    if isinstance(value, dict):
        return " ".join(map(texts_of, value.values()))
    if isinstance(value, list):
        return " ".join(map(texts_of, value))
    return "" if value is None or PIXEL in str(value) else str(value)


@pytest.mark.parametrize("kind", WIRES, ids=PATHS)
async def test_thirty_turns_stay_in_the_window_and_nothing_but_the_covered_part_is_changed(
    patient_rig: Rig, kind: Wire
) -> None:
    constants.change(litellm_seconds=10)
    chat = Chat(patient_rig, kind, f"chat on {kind.path}")
    patient_rig.provider.faults.clear()
    summarised = 0

    for number in range(TURNS):
        for as_it_came, sent in await chat.turn(number):
            assert tokens.count(texts_of(sent)) <= WINDOW
            assert beside(sent, kind.items) == beside(as_it_came, kind.items)
            before, after = plain(as_it_came[kind.items]), plain(sent[kind.items])
            if before == after:
                continue
            summarised += 1
            place = next(place for place, one in enumerate(after) if BEGINS in str(one))
            assert NOTED in str(after[place + 1])
            assert after[:place] == before[:place]
            tail = after[place + 2 :]
            assert tail == before[-len(tail) :]

    assert summarised > TURNS // 3
    assert patient_rig.provider.faults == []


@pytest.mark.parametrize("kind", WIRES, ids=PATHS)
@pytest.mark.parametrize(
    "behaviour",
    [HangUp(), Silence(), Answer({"detail": "no"}, 401), Answer({}, 503), Answer("no JSON")],
    ids=["away", "slow", "refuses", "overloaded", "speaks nonsense"],
)
async def test_requests_go_as_they_are_while_precis_cannot_answer(rig: Rig, kind: Wire, behaviour: Behaviour) -> None:
    chat = Chat(rig, kind, "chat")
    chat.items.append(kind.question("Hello.", picture=True))
    as_it_came, _ = await chat.send(**{"X-Precis": "off"})
    asked = len(rig.precis.seen)
    works, rig.precis.behaviour = rig.precis.behaviour, behaviour
    try:
        sent, _ = await chat.send()
    finally:
        rig.precis.behaviour = works

    assert len(rig.precis.seen) > asked
    assert plain(sent) == plain(as_it_came)


async def test_requests_at_once_are_all_answered(rig: Rig) -> None:
    chats = [Chat(rig, kind, f"at once {kind.path}") for kind in WIRES for _ in range(4)]
    for chat in chats:
        chat.items.append(chat.wire.question("Hello.", picture=False))

    await asyncio.gather(*(chat.send() for chat in chats))
