"""One saved chat of a fallback Open WebUI, driven turn by turn through the real filter.

`Chat.say` is a whole turn: inlet and request, an answer, outlet. `Chat.inlet` and `Chat.outlet` are its halves. `Turn`
is what the filter made of one request.
"""

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from filter_stub.precis_filter import METADATA_KEY, find_questions
from service.demo.host import Rows, list_path, load_filter, make_inlet_body, make_outlet_body, pass_hooks
from service.runtime import Runtime
from service.transcript import Native, unfold_messages
from tests.builders import Json, called, returned, said
from tests.conftest import drain
from tests.filter.host import Host

MODEL = "small-model"
SYSTEM = "You are a careful assistant."
PATIENCE = 120.0  # seconds; of a service that answers, and a machine that is busy


@dataclass
class Turn:
    """A request: the list that Open WebUI built, and what the filter left of it for the model."""

    original: list[Native]
    body: Json
    metadata: Json

    @property
    def messages(self) -> list[Native]:
        """What reaches the model."""
        messages: list[Native] = self.body["messages"]
        return messages

    @property
    def served(self) -> int:
        """The checkpoint in the request, 0 for none."""
        return int((self.metadata.get(METADATA_KEY, {}).get("state") or {}).get("served") or 0)

    @property
    def summary(self) -> str:
        """The summary in the request; empty when there is none."""
        if self.messages == self.original:
            return ""
        return str(self.messages[len(self.base)]["content"])

    @property
    def base(self) -> list[Native]:
        """The system message of the request."""
        return [one for one in self.original[:1] if one["role"] == "system"]

    @property
    def tail(self) -> list[Native]:
        """What follows the record and its answer."""
        return self.messages[len(self.base) + 2 :] if self.summary else self.messages[len(self.base) :]

    def is_summarised(self) -> bool:
        """Whether a summary stands for what is hidden; all else has to be as it was sent."""
        if not self.served:
            assert self.messages == self.original
            return False
        place = next(place for place, one in enumerate(self.messages) if one not in self.original)
        assert place >= len(self.base)
        assert self.messages[:place] == self.original[:place]
        tail = self.messages[place + 2 :]
        assert tail == self.original[-len(tail) :]
        assert tail[0]["role"] == "user"
        assert pairs_are_whole(tail)
        return True


@dataclass
class Chat:
    """A chat. `leaf` is where the next turn goes on."""

    host: Host
    filter: Any
    id: str = "chat-1"
    leaf: str | None = None
    user: str = ""
    system: str = SYSTEM
    window: int | None = None
    numbers: int = 0
    wanted: object = None  # the user's own valves of the filter

    def __post_init__(self) -> None:
        self.host.chats.setdefault(self.id, {})
        self.user = self.user or f"user of {self.id}"  # a user's equal chats share their summaries

    @property
    def rows(self) -> Rows:
        return self.host.chats[self.id]

    @property
    def asker(self) -> Json:
        return {"id": self.user, "name": f"Name of {self.user}"} | ({"valves": self.wanted} if self.wanted else {})

    def path(self, leaf: str | None = None) -> list[Json]:
        """The saved messages from the root to `leaf`, or to the leaf."""
        here = leaf or self.leaf
        return list_path(self.rows, here) if here else []

    def add(self, role: str, text: str, parent: str | None, **more: object) -> str:
        """Saves a message; returns its id."""
        self.numbers += 1
        identity = f"{role[0]}{self.numbers}"
        row = {"id": identity, "role": role, "content": text, "timestamp": 1_790_000_000 + self.numbers, **more}
        if parent:
            row["parentId"] = parent
        self.rows[identity] = row
        self.leaf = identity
        return identity

    def ask(self, text: str, **more: object) -> str:
        return self.add("user", text, self.leaf, **more)

    def answer(self, text: str, *output: Json, **more: object) -> str:
        """Saves an answer below the leaf; with `output` items as Open WebUI has them for every streamed answer."""
        items = list(output) or ([said(text)] if text else [])
        return self.add("assistant", text, self.leaf, **({"output": items} if items else {}), **more)

    def grow(self, turns: int, tokens: int = 400) -> None:
        """So many turns that the filter never saw, of texts of about so many tokens."""
        for number in range(turns):
            self.ask(filler(f"q{number}", tokens))
            self.answer(filler(f"a{number}", tokens))

    def request(self, user_message: str, *more: Native, **metadata: object) -> Turn:
        """The request of a turn, before any filter; `more` is what Open WebUI appends to the branch."""
        body = make_inlet_body(self.rows, user_message, chat=self.id, model=MODEL, system=self.system)
        _name_attached_files(body["messages"], list_path(self.rows, user_message))
        body["messages"] += copy.deepcopy(list(more))
        told = {"user_id": self.user, "message_id": f"a{self.numbers + 1}"}
        body["metadata"] |= told | {"user_message_id": user_message} | metadata
        if self.window:
            body["num_ctx"] = self.window
        return Turn(copy.deepcopy(body["messages"]), body, body["metadata"])

    async def inlet(self, user_message: str | None = None, *more: Native, **metadata: object) -> Turn:
        """The filter's `inlet` and `request` for a turn that the leaf, or another user message, opens."""
        here = user_message or self.leaf
        assert here
        return await self.enter(self.request(here, *more, **metadata))

    async def enter(self, turn: Turn) -> Turn:
        """The filter's hooks for a request as it is now, whatever was made of it before."""
        turn.original = copy.deepcopy(turn.messages)
        with self.host.importable():
            await pass_hooks(
                self.filter,
                turn.body,
                __metadata__=turn.metadata,
                __user__=self.asker,
                __model__={},
                __event_emitter__=self.host.emit,
            )
        return turn

    async def outlet(self, turn: Turn, answer: str | None = None) -> None:
        """The filter's `outlet` after an answer, and the hand-over that it began."""
        here = answer or self.leaf
        assert here
        body = make_outlet_body(self.rows, here, chat=self.id, model=MODEL)
        before = copy.deepcopy(body)
        told: Json = {"__metadata__": turn.metadata, "__user__": self.asker}
        with self.host.importable():
            assert await self.filter.outlet(body, **told) is body
            await ingested(self.filter)
        assert body == before

    async def reply(self, turn: Turn, text: str, *output: Json, **more: object) -> None:
        self.answer(text, *output, **more)
        await self.outlet(turn)

    async def say(self, text: str, reply: str, *output: Json, **more: object) -> Turn:
        self.ask(text, **more)
        turn = await self.inlet()
        await self.reply(turn, reply, *output)
        return turn

    async def say_nothing_of(self, text: str, reply: str, *output: Json) -> None:
        """A whole turn that the filter never saw (it was off, or the answer was stopped)."""
        self.ask(text)
        self.answer(reply, *output)


@contextlib.asynccontextmanager
async def working(runtime: Runtime | None) -> AsyncIterator[None]:
    """Work is done as soon as it is due, as beside a worker; without a runtime there is none."""

    is_over = asyncio.Event()

    async def work() -> None:
        while runtime and not is_over.is_set():
            await drain(runtime)
            await asyncio.sleep(0.01)  # between two looks: nothing tells that work became due

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        # A round that is cut off keeps its chat from the next worker until its lease is over.
        is_over.set()
        await task


async def ingested(loaded: Any) -> None:
    """Waits until the filter's background work is done."""
    while tasks := list(loaded._in_background):
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def filter_of(url: str, key: str = "key", **valves: object) -> AsyncIterator[Any]:
    """The real filter file, loaded as Open WebUI loads it; its connections are closed at the end."""
    loaded = load_filter(url, key, **{"skip_below_chars": 0, "timeout": PATIENCE} | valves)
    loaded._http = httpx.AsyncClient(verify=False, timeout=None)  # reading certificates takes longer than most tests
    try:
        yield loaded
    finally:
        for task in list(loaded._in_background):
            task.cancel()
        await asyncio.gather(*loaded._in_background, return_exceptions=True)
        await loaded._http.aclose()


def never_cuts(loaded: Any) -> None:
    """Lets the filter cut no request, as if all windows had no end."""
    loaded._cut = lambda *_: []


@contextlib.contextmanager
def no_log() -> Iterator[None]:
    """Keeps the filter's warnings out of a report of hundreds of examples."""
    logging.getLogger("precis").disabled = True
    try:
        yield
    finally:
        logging.getLogger("precis").disabled = False


def filler(word: str, tokens: int = 400) -> str:
    """A text of about so many tokens, in which `word` stands once."""
    return f"{word} is what this is about. " + "Then the river went on and on between the hills. " * (tokens // 11)


def tool_answer(word: str) -> list[Json]:
    """The items of an answer that calls tools twice over before it says `word`."""
    items: list[Json] = [said("Let me look.")]
    for number in range(2):
        items.append(called(f"{word}-{number}", "query", '{"sql": "select 1"}'))
        items.append(returned(f"{word}-{number}", filler(f"{word}r{number}", 200)))
    return [*items, said(f"The result is {word}.")]


def pairs_are_whole(messages: Sequence[Native]) -> bool:
    """Whether every tool result follows its call, and every call has its result."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return False
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            return False
        open_calls |= {call["id"] for call in message.get("tool_calls") or ()}
    return not open_calls


def _name_attached_files(messages: list[Native], rows: Sequence[Json]) -> None:
    """Names a question's documents in front of it, as Open WebUI does (utils/middleware.py: add_file_context)."""
    questions = (messages[place] for place in sorted(find_questions(messages)))
    asked = (row for row in rows if row["role"] == "user")
    for message, row in zip(questions, asked, strict=True):
        attached = row.get("files")
        listed = attached if isinstance(attached, list) else []
        files = [file for file in listed if isinstance(file, dict) and file.get("type") == "file"]
        note = "".join(f'<file url="{file.get("url")}"/>\n' for file in files)
        if note and isinstance(message["content"], str):
            message["content"] = f"<attached_files>\n{note}</attached_files>\n\n{message['content']}"


def native(rows: Sequence[Json]) -> list[Native]:
    return unfold_messages(copy.deepcopy(list(rows)))
