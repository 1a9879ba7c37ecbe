"""All that a request carries is counted once: no request is above the window, and none that fits is cut.

The real filter and the real service, and an Open WebUI that adds after `inlet` what the real one adds: retrieved texts,
tools, and the prompt of a workspace model, which no hook sees. Sizes are those of the service's tokenizer.
"""

import base64
import copy
import json
import uuid
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filter_stub.precis_filter import METADATA_KEY
from service.text import tokens
from service.transcript.steps import count_sent_tokens
from tests.builders import Json
from tests.conftest import Service, drain
from tests.effort import examples
from tests.filter.chat import Chat, Turn, filter_of, no_log, working
from tests.filter.host import Host
from tests.service.talk import prose

PICTURE = {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo=", "name": "p.png"}
TURNS = 16
ADDED = {
    "spoken answers": ("assistant", "spoken"),
    "skills": ("user", "skill"),
    "another filter": ("user", "reminder"),
}
"""What is added to earlier messages at each request: to whose, and a word of it. `file` and `base64` are in texts."""


@dataclass
class Scene:
    """A chat, and what goes along with its messages, as shares of the smallest window."""

    usage: str  # of the provider: honest, without tools, absent
    windows: list[int]  # one for some turns each, in a circle
    system: float
    workspace: float
    retrieved: float  # in each question, from some turn on
    tools: float  # in some turns, or in all of them
    pictures: int
    reasoning: bool
    said: int  # tokens of a question or answer
    always: bool = False  # tools are there from the first turn on
    added: str = ""  # what Open WebUI or another filter adds to texts, of `ADDED`
    cut: list[tuple[int, int]] = field(default_factory=list)  # sizes before, and what they might have had

    def share(self, part: float) -> int:
        return int(min(self.windows) * part)


class Play:
    def __init__(self, scene: Scene, chat: Chat) -> None:
        self.scene, self.chat = scene, chat
        chat.system = prose(scene.share(scene.system), "system") or "Be brief."
        self.workspace = prose(scene.share(scene.workspace), "workspace")

    def size(self, body: Json) -> int:
        """Tokens of a request as the model gets it."""
        thoughts = sum(tokens.count(str(one.get("reasoning_content") or "")) for one in body["messages"])
        tools = tokens.count(json.dumps(body["tools"])) if body.get("tools") else 0
        return count_sent_tokens(body["messages"]) + thoughts + tools + tokens.count(self.workspace)

    async def turn(self, number: int) -> Turn:
        scene, chat = self.scene, self.chat
        chat.window = window = scene.windows[number // 4 % len(scene.windows)]
        files: list[Json] = [PICTURE] * scene.pictures if number % 2 else []
        if scene.added == "file":
            files = [*files, {"type": "file", "url": f"file-{number}", "name": "report.pdf"}]
        text = prose(scene.said, f"question {number}")
        if scene.added == "base64":
            text += f"\n![](data:image/png;base64,{base64.b64encode(text.encode()).decode()})"
        chat.ask(text, **({"files": files} if files else {}))
        turn = chat.request(str(chat.leaf))
        self.add_to(turn.messages)
        model = {"info": {"params": {"system": self.workspace}}}
        told = {"__metadata__": turn.metadata, "__user__": chat.asker, "__model__": model}
        if scene.reasoning:
            for one in turn.messages:
                if one["role"] == "assistant":
                    one["reasoning_content"] = prose(scene.said // 3, "thinking")
        with chat.host.importable():
            await chat.filter.inlet(turn.body, **told, __event_emitter__=chat.host.emit)
            if number >= 3 and scene.retrieved:
                question = turn.messages[-1]
                text = prose(scene.share(scene.retrieved), "retrieved")
                if isinstance(question["content"], list):
                    question["content"].append({"type": "text", "text": text})
                else:
                    question["content"] = f"{text}\n{question['content']}"
            if scene.tools and (scene.always or number % 6 > 1):
                function = {"name": "f", "description": prose(scene.share(scene.tools), "tool")}
                turn.body["tools"] = [{"type": "function", "function": function}]
            turn.original = copy.deepcopy(turn.messages)
            await chat.filter.request(turn.body, **told, __event_emitter__=chat.host.emit)
        sent = self.size(turn.body)
        assert sent <= window, (number, sent, window)
        if (turn.metadata[METADATA_KEY]["state"] or {}).get("cut"):
            scene.cut.append((self.size({**turn.body, "messages": turn.original}), window - window // 8))
        chat.answer(prose(scene.said, f"answer {number}"), **self.counted(turn.body, sent))
        await chat.outlet(turn)
        return turn

    def add_to(self, messages: list[Json]) -> None:
        """Adds to earlier messages what is not stored with them, and to the newest question too."""
        for place, one in enumerate(messages):
            added = ADDED.get(self.scene.added)
            if added and isinstance(one["content"], str) and one["role"] == added[0]:
                one["content"] += "\n" + prose(self.scene.said // 2, f"{added[1]} {place}")

    def counted(self, body: Json, sent: int) -> Json:
        match self.scene.usage:
            case "honest":
                return {"usage": {"prompt_tokens": sent, "completion_tokens": 9}}
            case "too small":  # as of a provider that leaves out what it has cached
                return {"usage": {"prompt_tokens": sent // 3, "completion_tokens": 9}}
            case "without tools":
                return {"usage": {"prompt_tokens": self.size(body | {"tools": []}), "completion_tokens": 9}}
        return {}


SCENES = st.builds(
    Scene,
    usage=st.sampled_from(["honest", "without tools", "absent", "too small"]),
    windows=st.sampled_from([[8192], [16_384], [32_768], [16_384, 8192], [8192, 16_384], [32_768, 8192]]),
    system=st.sampled_from([0, 0.1, 0.25]),
    workspace=st.sampled_from([0, 0, 0.2]),
    retrieved=st.sampled_from([0, 0, 0.2, 0.3]),
    tools=st.sampled_from([0, 0, 0.15]),
    pictures=st.sampled_from([0, 0, 1]),
    reasoning=st.booleans(),
    said=st.sampled_from([150, 400]),
    added=st.sampled_from(["", "", "file", "base64", *ADDED]),
)


async def played(service: Service, scene: Scene) -> Scene:
    async with filter_of(service.url, service.filter_key) as loaded:
        play = Play(scene, Chat(Host(), loaded, f"account-{uuid.uuid4()}"))
        async with working(service.runtime):
            for number in range(TURNS):
                await play.turn(number)
                await drain(service.runtime)
    return scene


@settings(max_examples=examples(40), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(scene=SCENES)
async def test_nothing_above_the_window_is_sent_and_nothing_that_fits_is_cut(service: Service, scene: Scene) -> None:
    with no_log():
        await played(service, scene)
    assert not [(before, most) for before, most in scene.cut if before <= 0.98 * most]


@pytest.mark.parametrize("usage", ["honest", "without tools", "absent"])
@pytest.mark.parametrize("least", [0, 24_000], ids=["every turn is looked at", "a short first turn is not"])
async def test_beside_many_tools_every_long_chat_has_a_summary(service: Service, usage: str, least: int) -> None:
    """The tools of Open WebUI's page take three quarters of a window of 8,192, and the first question is short."""
    scene = Scene(usage, [8192], 0, 0, 0, tools=0.75, pictures=0, reasoning=False, said=150, always=True)
    without, untold = [], []
    async with filter_of(service.url, service.filter_key, skip_below_chars=least) as loaded:
        play = Play(scene, Chat(Host(), loaded, f"tools-{uuid.uuid4()}"))
        async with working(service.runtime):
            for number in range(20):
                turn = await play.turn(number)
                await drain(service.runtime)
                if number >= 8 and not turn.served:
                    without.append(number)
                if turn.served and not play.chat.host.statuses[-1].startswith("Summarised "):
                    untold.append(number)
    assert not without
    assert not untold
