"""Everything that runs together in a scenario: Open WebUI, the model, the summariser, Precis and its filter.

`Rig.long_chat` makes a chat that has a stored summary; `Rig.seen` takes the newest request apart and checks it.
"""

import itertools
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from tests.builders import Json
from tests.e2e import look_up_tool, recorder
from tests.e2e.model import MODELS, Model, Received
from tests.e2e.openwebui import OpenWebUI, User
from tests.e2e.precis import Checkpoint, Precis, fact
from tests.e2e.tab import Tab
from tests.e2e.tab_wire import text_of
from tests.e2e.versions import since
from tests.e2e.view import View, check
from tests.fakes.scripted_llm import ScriptedLLM
from tests.waiting import until

WINDOW = 16_384  # of which Open WebUI's own tool specifications take some 7,000
FILTER = "precis"
_numbers = itertools.count(1)


@dataclass
class Rig:
    """What a scenario has at hand."""

    version: str
    model: Model
    summariser: ScriptedLLM
    precis: Precis
    server: OpenWebUI
    admin: User
    installed: Json = field(default_factory=dict)  # the valves as the installer set them

    async def install(self, *options: str) -> None:
        """The filter, by the installer with these options; the recorder and the tool, by hand."""
        await self.precis.run("install-filter", "--url", self.server.url, "--api-key", self.admin.token, *options)
        self.installed = await self.admin.get(f"/api/v1/functions/id/{FILTER}/valves")
        await install_filter(self.admin, "recorder", source(recorder))
        await self.admin.post("/api/v1/functions/id/recorder/valves/update", {"url": self.model.url, "priority": -1000})
        tool = {"id": "look_up", "name": "look_up", "content": source(look_up_tool)}
        await self.admin.post("/api/v1/tools/create", {**tool, "meta": {"description": "look_up", "manifest": {}}})
        await self.valves()
        await self.window()

    async def valves(self, **changed: object) -> None:
        """Sets the filter's valves: those of these tests, but for what is given."""
        ours = {"timeout": 5.0, "skip_below_chars": 0}  # the machine is busy with tests
        await self.admin.post(f"/api/v1/functions/id/{FILTER}/valves/update", self.installed | ours | changed)

    async def window(self, tokens: int = WINDOW) -> None:
        """Lets the provider tell this window for its models, and waits until Open WebUI knows it."""
        if self.model.window == tokens:
            return
        self.model.window = tokens

        async def known() -> bool:
            models = (await self.admin.get("/api/models?refresh=true"))["data"]
            return all(one["openai"]["max_model_len"] == tokens for one in models if one["id"] in MODELS)

        await until(known)

    async def reach(self) -> Json:
        """What the filter says of the service, asked as the installer asks; after failures it tries again at once."""
        body = {"model": MODELS[0], "messages": [], "chat_id": "", "id": "check", "session_id": "check"}
        answer = await self.admin.post("/api/chat/completed", {**body, "precis_check": True})
        told: Json = answer["precis_check"]
        return told

    async def long_chat(self, tab: Tab, turns: int = 22) -> list[Json]:
        """Opens a chat that is longer than the window and has a stored summary; returns its path.

        The chat comes from elsewhere (it is posted as the page posts an import), and goes on for one turn, after which
        Precis makes a summary.
        """
        await self.open_story(tab, turns)
        await tab.send(question())
        await self.settled(tab)
        assert await self.precis.checkpoints(str(tab.chat_id)), "no summary was made"
        return await self.path(tab)

    async def open_story(self, tab: Tab, turns: int) -> None:
        """Opens a chat of so many turns of some 650 tokens, which Precis does not know."""
        made = await self.admin.post("/api/v1/chats/new", {"chat": story(turns, tab.models[0])})
        await tab.open(made["id"])

    async def settled(self, tab: Tab, leaf: str | None = None) -> None:
        await self.precis.settled(str(tab.chat_id), leaf or tab.current)

    async def forgotten(self, chat_id: str) -> None:
        async def gone() -> bool:
            return await self.precis.show(chat_id) is None

        await until(gone)

    async def saved(self, chat_id: str) -> dict[str, Json]:
        """The chat's messages by id, as Open WebUI has them now; 0.10 keeps an answer's text in its items alone."""
        history = (await self.admin.get(f"/api/v1/chats/{chat_id}"))["chat"]["history"]
        messages: dict[str, Json] = history["messages"]
        for one in messages.values():
            one["content"] = one.get("content") or text_of(one.get("output") or ())
        return messages

    async def path(self, tab: Tab, leaf: str | None = None) -> list[Json]:
        """The saved messages from the root to a leaf, or to the newest one."""
        return path_of(await self.saved(str(tab.chat_id)), leaf or tab.current)

    async def seen(self, received: Received | None = None, stored: Sequence[Checkpoint] | None = None) -> View:
        """The newest request of a saved chat, or another one, taken apart; checks what must hold of any request.

        `stored` are its summaries, while Precis does not run and cannot tell them.
        """
        received = received or self.model.received[-1]
        assert received.built
        told = received.built.metadata
        leaf = told["user_message_id"] or told["parent_message_id"]
        path = path_of(await self.saved(told["chat_id"]), leaf)
        assert path, told
        return check(received, await self.checkpoints(told["chat_id"]) if stored is None else stored, path)

    async def compressed(self) -> View:
        """The newest request, which has a summary in the place of all that it covers, and nothing is left out."""
        seen = await self.seen()
        assert seen.summary, "no summary"
        assert not seen.note, seen.note
        return seen

    def size(self, received: Received) -> int:
        """Tokens of a request. Before the `request` hook no filter sees the tools, so there they do not count."""
        return received.tokens + (received.tool_tokens if since(self.version, "0.11.2") else 0)

    async def checkpoints(self, chat_id: str) -> Sequence[Checkpoint]:
        return await self.precis.checkpoints(chat_id)

    async def lines(self, tab: Tab, answer: str) -> list[str]:
        saved = (await self.saved(str(tab.chat_id)))[answer]
        return [one["description"] for one in saved.get("statusHistory") or []]


async def install_filter(admin: User, identity: str, content: str) -> None:
    form = {"id": identity, "name": identity, "content": content}
    await admin.post("/api/v1/functions/create", {**form, "meta": {"description": identity, "manifest": {}}})
    await admin.post(f"/api/v1/functions/id/{identity}/toggle")
    await admin.post(f"/api/v1/functions/id/{identity}/toggle/global")


def source(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text("utf-8")


def question() -> str:
    """A question that is different from all others, with a fact in it."""
    number = next(_numbers)
    return f"Please note this for later, as number {number}. {fact(f'q{number}')}"


def story(turns: int, model: str, answer_tokens: int = 600) -> Json:
    """A chat as the page posts it: turns of a question with a fact and an answer without one."""
    name = uuid.uuid4().hex[:8]
    told = [(question(), filler(f"Answer {number} of {name}", answer_tokens)) for number in range(turns)]
    return as_posted("A story", model, told)


def as_posted(title: str, model: str, turns: Sequence[tuple[str, str]]) -> Json:
    """A chat of these questions and answers, a minute each, as the page posts it."""
    messages: dict[str, Json] = {}
    parent: str | None = None
    for number, (asked, answered) in enumerate(turns):
        written = {"model": model, "modelName": model, "modelIdx": 0, "done": True}
        for role, text, more in (("user", asked, {"models": [model]}), ("assistant", answered, written)):
            identity = str(uuid.uuid4())
            place: Json = {"id": identity, "parentId": parent, "childrenIds": [], "role": role}
            at = int(time.time()) - 60 * (len(turns) - number)
            messages[identity] = {**place, "content": text, "timestamp": at, **more}
            if parent:
                messages[parent]["childrenIds"] = [identity]
            parent = identity
    history = {"messages": messages, "currentId": parent}
    return {"title": title, "models": [model], "history": history, "messages": list(messages.values())}


def filler(beginning: str, tokens: int) -> str:
    """About so many tokens without a fact."""
    return f"{beginning}: " + "then the river went on and on between the hills. " * (tokens // 10)


def path_of(messages: dict[str, Json], leaf: str | None) -> list[Json]:
    path: list[Json] = []
    while leaf and leaf in messages:
        path.append({**messages[leaf], "id": leaf})
        leaf = messages[leaf].get("parentId")
    return path[::-1]
