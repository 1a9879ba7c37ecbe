"""LiteLLM's own proxy with our guardrail before the real service, on each of its three wires."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio

from service.summarising.message import BEGINS, NOTED
from service.text import tokens
from tests import constants
from tests.builders import Json
from tests.conftest import Service
from tests.filter.chat import working
from tests.filter.wire import Answer, Behaviour, HangUp, Scripted, Silence, wire
from tests.filter.wire import Wire as Tap
from tests.hosts.litellm_proxy import MASTER_KEY, litellm
from tests.hosts.wires import LOOK_UP, PIXEL, WIRES, Provider, Wire
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(
    request: pytest.FixtureRequest, shared_service: Service, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    """A rig whose proxy waits for Precis for so many seconds."""
    provider, folder = Provider(), tmp_path_factory.mktemp("litellm")
    async with (
        wire(Scripted(provider.answer)) as model,
        wire(shared_service.url) as precis,
        litellm(folder, model.url, precis.url, shared_service.filter_key, request.param) as url,
        working(shared_service.runtime),
        httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {MASTER_KEY}"}, timeout=60) as http,
    ):
        yield Rig(http, provider, precis, shared_service)


@dataclass
class Chat:
    """A client's chat on one wire."""

    rig: Rig
    wire: Wire
    name: str
    items: list[Json] = field(default_factory=list)

    async def send(self, **headers: str) -> tuple[Json, Json]:
        """Sends a request; returns what the provider was sent, and what the client got."""
        named = {"X-Precis-Chat": self.name} | headers
        response = await self.rig.http.post(self.wire.path, json=self.wire.make_body(self.items), headers=named)
        assert response.status_code == 200, response.text
        return self.rig.provider.bodies[-1], response.json()

    async def call(self) -> tuple[Json, Json]:
        """Sends one request twice; returns how the provider gets it without us, and with us."""
        without, _ = await self.send(**{"X-Precis": "off"})
        sent, answer = await self.send()
        self.items += self.wire.keep_items(answer)
        await self.rig.service.stored()
        return without, sent

    async def turn(self, number: int) -> list[tuple[Json, Json]]:
        """Takes a turn. In every third one the model calls a tool, in every fifth one the user shows a picture."""
        text = f"{LOOK_UP}." if number % 3 == 1 else "And?"
        question = f"{prose(120, f'{self.name} {number}')} {text}"
        self.items.append(self.wire.make_question(question, picture=number % 5 == 2))
        calls = [await self.call()]
        if number % 3 == 1:
            called = f"call{len(self.rig.provider.bodies)}"
            self.items.append(self.wire.make_result(called, prose(400, f"result {number}")))
            calls.append(await self.call())
        return calls


LOST_KEYS = ("id", "status", "annotations")
"""LiteLLM drops these of the items of `responses` as soon as the number of items changes, and all reasoning."""


def normalise(value: Any) -> Any:
    """Leaves out in what two spellings of the same messages differ."""
    if isinstance(value, list):
        return [normalise(one) for one in value if not (isinstance(one, dict) and one.get("type") == "reasoning")]
    if not isinstance(value, dict):
        return value
    is_text = isinstance(value.get("text"), str)
    left_out = (*LOST_KEYS, "type") if is_text or value.get("type") == "message" else LOST_KEYS
    kept = {key: normalise(one) for key, one in value.items() if one is not None and key not in left_out}
    for name in ("content", "output"):
        if isinstance(kept.get(name), str):
            kept[name] = [{"text": kept[name]}]
    return kept


def fields_beside(body: Json, items: str) -> Json:
    return {key: value for key, value in body.items() if key not in (items, "stream")}


def collect_texts(value: Any) -> str:
    """Joins all texts of a request; pictures are left out."""
    if isinstance(value, dict):
        return " ".join(map(collect_texts, value.values()))
    if isinstance(value, list):
        return " ".join(map(collect_texts, value))
    return "" if value is None or PIXEL in str(value) else str(value)


@pytest.mark.parametrize("rig", [60], indirect=True, ids=["a busy machine changes nothing"])
@pytest.mark.parametrize("kind", WIRES, ids=PATHS)
async def test_thirty_turns_stay_in_the_window_and_nothing_but_the_covered_part_is_changed(
    rig: Rig, kind: Wire
) -> None:
    constants.change(litellm_seconds=10)
    chat = Chat(rig, kind, f"chat on {kind.path}")
    rig.provider.faults.clear()
    summarised = 0

    for number in range(TURNS):
        for as_it_came, sent in await chat.turn(number):
            assert tokens.count(collect_texts(sent)) <= WINDOW
            assert fields_beside(sent, kind.items) == fields_beside(as_it_came, kind.items)
            before, after = normalise(as_it_came[kind.items]), normalise(sent[kind.items])
            if before == after:
                continue
            summarised += 1
            place = next(place for place, one in enumerate(after) if BEGINS in str(one))
            assert NOTED in str(after[place + 1])
            assert after[:place] == before[:place]
            tail = after[place + 2 :]
            assert tail == before[-len(tail) :]

    assert summarised > TURNS // 3
    assert rig.provider.faults == []


@pytest.mark.parametrize("rig", [1], indirect=True, ids=["as the page says"])
@pytest.mark.parametrize("kind", WIRES, ids=PATHS)
@pytest.mark.parametrize(
    "behaviour",
    [HangUp(), Silence(), Answer({"detail": "no"}, 401), Answer({}, 503), Answer("no JSON")],
    ids=["away", "slow", "refuses", "overloaded", "speaks nonsense"],
)
async def test_requests_go_as_they_are_while_precis_cannot_answer(rig: Rig, kind: Wire, behaviour: Behaviour) -> None:
    chat = Chat(rig, kind, "chat")
    chat.items.append(kind.make_question("Hello.", picture=True))
    as_it_came, _ = await chat.send(**{"X-Precis": "off"})
    asked = len(rig.precis.seen)
    works, rig.precis.behaviour = rig.precis.behaviour, behaviour
    try:
        sent, _ = await chat.send()
    finally:
        rig.precis.behaviour = works

    assert len(rig.precis.seen) > asked
    assert normalise(sent) == normalise(as_it_came)
