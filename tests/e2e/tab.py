"""A tab of Open WebUI's page, without the page: it keeps the chat, listens to the socket and posts what the page posts.

    async with tab(user, model="scripted") as page:
        first = await page.send("Hello")                # Turn: ids of the message and its answers
        again = await page.regenerate(first.answer)
        assert page.path()[-1]["content"] == "..."

In: a signed-in user. Out: a `Tab`. A method that asks for answers returns when they are there, filters and titles
done, or with `wait=False` at once; `finished` waits then. What differs between the versions is in `tab_wire.Page`.
"""

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import socketio

from tests.builders import Json
from tests.e2e.openwebui import User
from tests.e2e.tab_wire import (
    Ask,
    Choices,
    completion,
    page,
    text_of,
    typed,
    unwritten,
    variables,
    with_text,
)
from tests.waiting import until

_SETTLED = ("chat:message:error", "chat:tasks:cancel", "task-cancelled")


@dataclass
class Turn:
    """A message and the answers that were asked for."""

    user: str
    answers: list[str]

    @property
    def answer(self) -> str:
        return self.answers[0]


class Tab:
    """One tab. `messages` and `current` are the page's history; `events` all that the socket brought."""

    def __init__(self, user: User, models: Sequence[str]) -> None:
        self.user = user
        self.models = list(models)
        self.page = page(user.server.version)
        self.events: list[Json] = []
        self.dialogs: list[Json] = []
        self._says: list[object] = []  # to the dialogs to come
        self.new_chat()
        self._socket = socketio.AsyncClient(reconnection=False)
        self._socket.on("events", self._hear)
        self._settled: set[str] = set()
        self._known: dict[str, Json] = {}

    def new_chat(self, *, temporary: bool = False) -> None:
        """New Chat, or Temporary Chat."""
        self.chat_id: str | None = None
        self.temporary = temporary
        self.messages: dict[str, Json] = {}
        self.current: str | None = None
        self.choices = Choices()

    async def connect(self) -> None:
        await self._socket.connect(
            self.user.server.url,
            socketio_path="/ws/socket.io",
            auth={"token": self.user.token},
            transports=["websocket"],
        )
        await self._socket.call("user-join", {"auth": {"token": self.user.token}}, timeout=30)
        self._known = {one["id"]: one for one in (await self.user.get("/api/models"))["data"]}

    async def close(self) -> None:
        await self._socket.disconnect()

    # Asking for answers

    async def send(self, text: str, *, files: Sequence[Json] = (), wait: bool = True) -> Turn:
        """Types a message below the current one and sends it."""
        return await self._ask(self._typed(text, self.current, files), wait=wait)

    async def edit_and_send(self, message: str, text: str) -> Turn:
        """Edits a message of the user's and sends it: a new message beside the old one."""
        return await self._ask(self._typed(text, self.messages[message]["parentId"], ()))

    async def regenerate(self, answer: str, instruction: str | None = None) -> Turn:
        """Try Again, or with an instruction: another answer beside this one."""
        old = self.messages[answer]
        return await self._ask(self.messages[old["parentId"]], instruction, old if instruction else None)

    async def go_on(self, answer: str) -> Turn:
        """Continue Response: more of the same answer."""
        message = self.messages[answer]
        message["done"] = False
        ask = Ask(self.messages[message["parentId"]], [message], self.path(answer), continued=True)
        return await self._request(ask)

    async def stop(self, turn: Turn) -> None:
        await self.user.post(f"/api/tasks/chat/{self.chat_id}/stop")
        await self.finished(turn)
        for answer in turn.answers:
            self.messages[answer]["done"] = True

    async def finished(self, turn: Turn) -> None:
        """Waits until nothing is done for this turn any more, outlet filters and titles included."""
        await until(self._idle, 120, every=0.05)
        if self.temporary:
            await until(lambda: self._settled.issuperset(turn.answers), 120)
        else:
            await self._load(self.current)

    async def click(self, action: str, *says: object) -> list[Json]:
        """Clicks a button of an action under the current answer, and answers its dialogs; what they showed."""
        self.dialogs, self._says = [], list(says)
        answer = self.messages[str(self.current)]
        messages = [{name: one[name] for name in ("id", "role", "content")} for one in self.path()]
        body = {"model": answer["model"], "messages": messages, "chat_id": self.chat_id, "id": answer["id"]}
        await self.user.post(f"/api/chat/actions/{action}", body | self._who(answer))
        return self.dialogs

    async def edit(self, message: str, text: str) -> None:
        """Edits a message in place: Save."""
        edited = self.messages[message]
        if edited["role"] == "assistant":
            edited["originalContent"] = edited["content"]
            if edited.get("output"):
                edited["output"] = with_text(edited["output"], text)
        edited["content"] = text
        await self._save()

    async def delete(self, message: str) -> None:
        """Deletes a message and what answers it; what comes below moves up."""
        gone = self.messages[message]
        parent, children = gone["parentId"], gone["childrenIds"]
        below = [one for child in children for one in self.messages[child]["childrenIds"]]
        if parent:
            siblings = self.messages[parent]["childrenIds"]
            self.messages[parent]["childrenIds"] = [*(one for one in siblings if one != message), *below]
        for one in below:
            self.messages[one]["parentId"] = parent
        for one in (message, *children):
            del self.messages[one]
        self.current = self._deepest(parent)
        if self.page.asks_to_delete:
            await self.user.call("DELETE", f"/api/v1/chats/{self.chat_id}/messages/{message}")
            await self._load(self.current)
        else:
            await self._save()

    async def open(self, chat_id: str) -> None:
        """Opens a saved chat; its system prompt and parameters, if it has any, are those of the tab from now on."""
        choices = self.choices
        self.new_chat()
        self.chat_id = chat_id
        chat = await self._load(None)
        params: Json = dict(chat.get("params") or {})
        self.choices = replace(choices, system=params.pop("system", None), params=params) if params else choices

    async def fork(self, message: str) -> str:
        made = await self.user.post(f"/api/v1/chats/{self.chat_id}/fork", {"message_id": message})
        return str(made["id"])

    async def clone(self) -> str:
        return str((await self.user.post(f"/api/v1/chats/{self.chat_id}/clone", {}))["id"])

    async def export_and_import(self) -> str:
        saved = await self.user.get(f"/api/v1/chats/{self.chat_id}")
        made = await self.user.post("/api/v1/chats/import", {"chats": [{"chat": saved["chat"], "meta": {}}]})
        return str(made[0]["id"])

    async def upload(self, name: str, content: bytes, kind: str = "text/plain") -> Json:
        """Attaches a file, for `send`; an image when its kind says so."""
        image = kind.startswith("image/")
        item: Json = {"type": "file", "name": name, "size": len(content), "status": "uploaded", "error": ""}
        item |= {"itemId": str(uuid.uuid4()), "collection_name": ""}
        path = f"/api/v1/files/?process={'false' if image else 'true'}"
        made = await self.user.call("POST", path, files={"file": (name, content, kind)})
        await self.user.get(f"/api/v1/files/{made['id']}/process/status?stream=true")  # ends when it was read
        item |= {"file": made, "id": made["id"], "url": made["id"]}
        return item | {"collection_name": made["meta"].get("collection_name"), "content_type": kind}

    # Looking

    def path(self, leaf: str | None = None) -> list[Json]:
        """The messages from the root to `leaf`, or to the current one."""
        path: list[Json] = []
        step = leaf or self.current
        while step:
            path.insert(0, self.messages[step])
            step = self.messages[step].get("parentId")
        return path

    def statuses(self, answer: str) -> list[str]:
        """The status lines that a filter showed at this answer."""
        heard = [one["data"] for one in self.events if one.get("message_id") == answer]
        return [one["data"].get("description", "") for one in heard if one.get("type") == "status"]

    # How the page does it

    def _typed(self, text: str, parent: str | None, files: Sequence[Json]) -> Json:
        message = typed(text, parent, files, self.models)
        if self.page.names_user:
            message |= {"user": {"id": self.user.id, "name": self.user.name}, "user_id": self.user.id}
        return self._add(message)

    def _add(self, message: Json) -> Json:
        self.messages[message["id"]] = message
        if message["parentId"]:
            self.messages[message["parentId"]]["childrenIds"].append(message["id"])
        self.current = message["id"]
        return message

    async def _ask(
        self,
        user: Json,
        instruction: str | None = None,
        replaced: Json | None = None,
        *,
        wait: bool = True,
    ) -> Turn:
        if self.chat_id is None and self.temporary:
            self.chat_id = f"{self.page.temporary}{self._socket.get_sid()}"
        answers = [self._add(unwritten(user["id"], model, index)) for index, model in enumerate(self.models)]
        path = self.path(replaced["id"] if replaced else answers[0]["id"])
        return await self._request(Ask(user, answers, path, instruction, replaced), wait=wait)

    async def _request(self, ask: Ask, *, wait: bool = True) -> Turn:
        turn = Turn(ask.user["id"], [one["id"] for one in ask.answers])
        for answer in turn.answers:
            self._settled.discard(answer)
        new = ask.user["parentId"] is None and not ask.continued
        body = completion(self.page, ask, self.choices, chat_id=self.chat_id, new=new, temporary=self.temporary)
        answered = await self.user.post("/api/chat/completions", body | self._who(ask.answers[0]))
        await self._named(answered.get("chat_id"))
        if wait:
            await self.finished(turn)
        return turn

    def _who(self, answer: Json) -> Json:
        return {
            "session_id": self._socket.get_sid(),
            "model_item": self._known.get(answer["model"], {}),
            "variables": variables(self.user.name, self.user.email),
        }

    async def _named(self, chat_id: str | None) -> None:
        """The server has made a chat of this id: its system prompt and parameters are saved now."""
        if chat_id and self.chat_id is None:
            self.chat_id = chat_id
            if params := self._params():
                await self.user.post(f"/api/v1/chats/{chat_id}", {"chat": {"params": params}})

    async def _save(self) -> None:
        """`saveChatHandler`, `updateChat`."""
        if not self.temporary:
            await self.user.post(f"/api/v1/chats/{self.chat_id}", {"chat": self._chat()})

    def _chat(self) -> Json:
        return {
            "models": self.models,
            "params": self._params(),
            "history": {"messages": self.messages, "currentId": self.current},
            "messages": self.path(),
        }

    def _params(self) -> Json:
        return (self.choices.params or {}) | ({"system": self.choices.system} if self.choices.system else {})

    async def _load(self, current: str | None) -> Json:
        chat: Json = (await self.user.get(f"/api/v1/chats/{self.chat_id}"))["chat"]
        self.messages = chat["history"]["messages"]
        self.current = current if current in self.messages else chat["history"]["currentId"]
        return chat

    async def _idle(self) -> bool:
        tasks = await self.user.get(f"/api/tasks/chat/{self.chat_id}")
        return not tasks["task_ids"]

    def _deepest(self, message: str | None) -> str | None:
        roots = [one["id"] for one in self.messages.values() if not one.get("parentId")]
        children = self.messages[message]["childrenIds"] if message else roots
        while children:
            message = children[-1]
            children = self.messages[message]["childrenIds"]
        return message

    async def _hear(self, event: Json) -> object:
        """`chatEventHandler`; what it returns is a user's answer to a dialog."""
        self.events.append(event)
        if event["data"].get("type") in ("confirmation", "input"):
            self.dialogs.append(event["data"])
            return self._says.pop(0)
        self._note(event)
        return None

    def _note(self, event: Json) -> None:
        message = self.messages.get(event.get("message_id") or "")
        if message is None or (self.chat_id and event.get("chat_id") != self.chat_id):
            return
        kind, data = event["data"].get("type"), event["data"].get("data") or {}
        if kind == "chat:completion":
            self._written(message, data)
        elif kind == "status":
            message.setdefault("statusHistory", []).append(data)
        elif kind == "source":
            message.setdefault("sources", []).append(data)
        elif kind == "chat:message:error":
            message["error"] = data["error"]
        if kind in _SETTLED:
            message["done"] = True
            self._settled.add(message["id"])

    def _written(self, message: Json, data: Json) -> None:
        """`chatCompletionEventHandler`."""
        message |= {key: data[key] for key in ("content", "output", "usage", "sources", "error") if data.get(key)}
        if data.get("output") and not data.get("content"):
            message["content"] = text_of(data["output"])
        for choice in data.get("choices") or []:
            message["content"] += (choice.get("message") or choice.get("delta") or {}).get("content") or ""
        if data.get("done") or data.get("error"):
            message["done"] = True
            self._settled.add(message["id"])


@asynccontextmanager
async def tab(user: User, *models: str) -> AsyncIterator[Tab]:
    """An open tab, with these models chosen ("scripted" when none is named)."""
    opened = Tab(user, models or ("scripted",))
    await opened.connect()
    try:
        yield opened
    finally:
        await opened.close()
