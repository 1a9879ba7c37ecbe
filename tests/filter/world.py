"""Users who do whatever they like with branches of their chats, and a check of every request that comes of it.

Each text has a word of its own, and the summariser writes the words that it read. So a summary tells exactly which
texts it is made of, and no word of another branch, of an edited text or of another user can hide in it.
"""

import asyncio
import copy
import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from filter_stub.precis_filter import LEFT_OUT, TOOL_IMAGES
from service.request import native
from service.transcript import Native, count_sent_tokens, read_text
from service.usecases import serve
from tests.builders import Json, called, returned, said, thought
from tests.conftest import Service, drain
from tests.fakes.scripted_llm import Message
from tests.filter.chat import Chat, Turn, filler, pairs_are_whole, tool_answer
from tests.filter.chat import native as unfolded
from tests.filter.checks import Call, listen, nobody_waits
from tests.filter.client import step
from tests.filter.host import Host
from tests.service.talk import opened, row

WORD = re.compile(r"w\d+w")
DATA = "data:image/png;base64,iVBORw0KGgo="
PICTURE = {"type": "image", "url": DATA, "name": "cat.png"}
DOCUMENT = {"type": "file", "id": "f1", "url": "f1", "name": "plan.pdf"}
USERS = ("anna", "ben")
WINDOWS = (8192, 16_384, 32_768)
NOWHERE = "http://127.0.0.1:9"
Change = Callable[[list[Native], str], list[Native]]


def words_in(value: object) -> set[str]:
    return set(WORD.findall(json.dumps(value)))


def echo(messages: list[Message]) -> str:
    """A summariser that writes the words that it read, and nothing else."""
    return "## State\n- " + " ".join(sorted(words_in(messages[-1]), key=lambda word: int(word[1:-1])))


def _in_front(messages: list[Native], word: str) -> list[Native]:
    return [messages[0], {"role": "user", "content": f"It is {word}."}, *messages[1:]]


def _behind_each_question(messages: list[Native], word: str) -> list[Native]:
    return [_with_more(one, word) if one["role"] == "user" else one for one in messages]


def _behind_the_first_question(messages: list[Native], word: str) -> list[Native]:
    place = next(place for place, one in enumerate(messages) if one["role"] == "user")
    return [*messages[:place], _with_more(messages[place], word), *messages[place + 1 :]]


def _in_the_prompt(messages: list[Native], word: str) -> list[Native]:
    return [_with_more(messages[0], word), *messages[1:]]


def _in_other_words(messages: list[Native], _word: str) -> list[Native]:
    return [
        {**one, "content": one["content"].replace("the river", "le fleuve")}
        if one["role"] == "user" and isinstance(one["content"], str)
        else one
        for one in messages
    ]


def _with_more(message: Native, word: str) -> Native:
    content = message["content"]
    return {**message, "content": f"{content}\nIt is {word}." if isinstance(content, str) else content}


FILTERS: dict[str, Change] = {
    "in front": _in_front,
    "behind each question": _behind_each_question,
    "behind the first question": _behind_the_first_question,
    "in the prompt": _in_the_prompt,
    "in other words": _in_other_words,
}
"""What another filter makes of a request. What it adds is the same word in all requests, or a new one in each."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same in a world.

    Attributes:
        factor: what the provider counts for one of our tokens; 0 for a provider that tells no usage.
        other: another filter, of `FILTERS`; empty without one.
        changing: whether it adds something new in each turn.
        kind: `saved`, `temporary` or `api` chats.
        waits: whether a request waits until a summary is written.
    """

    factor: float = 0
    other: str = ""
    changing: bool = False
    kind: str = "saved"
    waits: bool = False


@dataclass
class World:
    """The chats of two users on one service. Actions are of `here`, the chat that was looked at last."""

    service: Service
    filter: Any
    setting: Setting
    here: Chat = field(init=False)
    chats: list[Chat] = field(default_factory=list)
    window: int = 8192
    tools: float = 0.0  # of the window
    words: int = 0
    served: list[int] = field(default_factory=list)
    requests: int = 0
    answers: dict[str, list[Json]] = field(init=False)  # of the service, by turn
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    openwebui: Callable[..., list[Native]] | None = None  # its own functions make the requests: `tests/e2e/native.py`

    def __post_init__(self) -> None:
        self.answers = listen(self.filter)
        self.constant = self.word()
        for user in USERS:
            identity = {"saved": f"chat-{user}-{self.name}", "temporary": "temporary:a-tab", "api": ""}
            chat = Chat(Host(), self.filter, identity[self.setting.kind], user=f"{user}-{self.name}")
            self.chats.append(chat)
        self.here = self.chats[0]

    def word(self) -> str:
        self.words += 1
        return f"w{self.words}w"

    async def begin(self, turns: int, size: int) -> None:
        """A branch of so many turns for each user; the users say other things."""
        for chat in self.chats:
            for _ in range(turns):
                await chat.say_nothing_of(filler(self.word(), size), filler(self.word(), size))

    # Requests

    def added(self, messages: list[Native]) -> list[Native]:
        change = FILTERS.get(self.setting.other)
        word = self.word() if self.setting.changing else self.constant
        return change(messages, word) if change else messages

    def request(self, question: str, answer: str | None, instruction: str, **metadata: object) -> Turn:
        """The request of a turn, whose list ends with an answer that is continued or, as instructed, written again."""
        chat = self.here
        chat.window = self.window
        more = unfolded([chat.rows[answer]]) if answer else []
        if instruction:
            more.append({"role": "user", "content": instruction})
        turn = chat.request(question, *more, **metadata)
        if self.openwebui:
            told = {"appended": answer, "instruction": instruction or None, "system": chat.system}
            turn.body["messages"] = self.openwebui("build", rows=chat.rows, leaf=question, **told)
        turn.body["messages"] = self.added(turn.messages)
        return turn

    async def inlet(self, question: str, answer: str | None = None, instruction: str = "", **metadata: object) -> Turn:
        chat = self.here
        turn = self.request(question, answer, instruction, **metadata)
        turn.body["model"] = f"model-{self.window}"
        if self.tools:
            function = {"name": "f", "description": filler("tool", int(self.window * self.tools))}
            turn.body["tools"] = [{"type": "function", "function": function}]
        await chat.enter(turn)
        await self.service.stored()
        call = await self.check(turn, turn.original, turn.messages)
        assert read_text(call.given[-1])[:8] in read_text(call.sent[-1]), "the newest message is sent"
        return turn

    async def loop(self, turn: Turn, calls: int, size: int) -> list[Json]:
        """Later calls of the turn, each after another use of a tool; the items of its answer."""
        items: list[Json] = []
        steps: list[Native] = []
        for _ in range(calls):
            word = self.word()
            steps += step(word, filler(word, size))
            items += [called(word, "query", '{"sql": "select 1"}'), returned(word, filler(word, size))]
            given = [*turn.messages, *copy.deepcopy(steps)]
            if self.openwebui:
                first = self.openwebui("sent", messages=turn.messages)
                given = self.openwebui("follow", messages=first, output=items, system=None)
            await self.call(turn, given)
        return items

    async def call(self, turn: Turn, given: list[Native]) -> list[Native]:
        """A later call: Open WebUI hands on the list of the first one, and all steps so far."""
        body = {**turn.body, "messages": given}
        before = copy.deepcopy(given)
        with self.here.host.importable():
            told = {"__metadata__": turn.metadata, "__user__": self.here.asker, "__model__": {}}
            await self.filter.request(body, **told, __event_emitter__=self.here.host.emit)
        assert given == before, "what Open WebUI saves of the turn stays whole"
        sent: list[Native] = body["messages"]
        call = await self.check(turn, given, sent)
        assert read_text(call.given[-1])[:8] in read_text(call.sent[-1]), "the newest result is sent"
        assert turn.summary in [read_text(one) for one in sent] or not turn.served, "the summary stays"
        turn.body["usage"] = call.size(sent)
        return sent

    @contextmanager
    def working(self) -> Iterator[None]:
        """Nobody waits for a summary; or who does finds the work done at the first look."""

        async def done(*_: object) -> bool:
            await drain(self.service.runtime)
            return False

        with nobody_waits(), patch.object(serve, "is_worked_on", done) if self.setting.waits else nullcontext():
            yield

    async def check(self, turn: Turn, given: list[Native], sent: list[Native]) -> Call:
        self.requests += 1
        answers = self.answers[turn.metadata["precis"]["id"]]
        missed = answers[0]["left_out"] if len(answers) > 1 else 0
        tools = turn.body.get("tools") or []
        call = Call(given, answers[-1], sent, tools, self.window, self.setting.factor or 1.0, missed)
        call.check()
        turn.body["usage"] = call.size(sent)
        believed = answers[-1]["state"].get("factor", 1.0)
        assert believed <= (self.setting.factor or 1.0) * 1.01, "more than the provider counts"
        if call.record is not None:
            await self.check_summary(turn, call)
        return call

    async def check_summary(self, turn: Turn, call: Call) -> None:
        """It has read what is hidden, which the user's own branch says now, and nothing else."""
        number = call.answer["checkpoint"]
        self.served.append(number)
        query = "select user_id from chats where id = (select chat_id from checkpoints where id = :id)"
        owner = (await row(self.service.runtime, query, id=number)).user_id
        assert owner == self.here.user, "a leak: the summary is another user's"
        (made,) = await opened(self.service.runtime, "select * from checkpoints where id = :id", id=number)
        assert call.record is not None
        assert read_text(call.sent[call.record]) == made.summary
        assert TOOL_IMAGES not in read_text(call.sent[call.record + 2]), "which no user wrote"
        hidden = list(call.covered)
        prints = [native.hash_message(one) for one in hidden]
        nodes = native.cut_path(hidden, prints, 0, len(hidden))
        cipher = await self.service.runtime.database.keyring.find_cipher(1)
        assert cipher.keyed_hash(nodes[-1].id) == made.covered_until, "stale: what is hidden was said otherwise"
        if not self.setting.other:
            path = self.here.path(turn.metadata["user_message_id"])
            # What stands before it is sent as it is: the service begins at the third question at the latest.
            runs = (path[begin:end] for begin in range(len(path)) for end in range(begin + 1, len(path)))
            assert any(unfolded(run) == _bare(hidden) for run in runs), "hidden is no part of the branch"
        words = words_in(hidden)
        beside = [made.state, made.summary, made.pins, made.talk, made.ledger]
        strange = words_in(beside) - words
        assert not strange, f"of another branch, of an edited text, or of another user: {strange}"
        twice = (words & words_in(call.sent[call.record + 2 :])) - words_in(list(call.uncut[call.record + 2 :]))
        assert not twice, f"covered, and sent all the same: {twice}"

    # What users do

    def _usage(self, tokens: int) -> Json:
        return {"usage": {"prompt_tokens": tokens}} if tokens and self.setting.factor else {}

    def reply(self, kind: str, size: int, items: list[Json], usage: int = 0) -> None:
        chat, word = self.here, self.word()
        told = self._usage(usage)
        match kind:
            case "tools":
                chat.answer(f"The result is {word}.", *items, *tool_answer(word), **told)
            case "photo":
                photo = called(word, "photo"), returned(word, filler(word, 200), DATA)
                chat.answer(word, *items, *photo, said(word), **told)
            case "thinking":
                thoughts = thought(f"Is it {self.word()}?")
                chat.answer(f"It is {word}.", *items, thoughts, said(filler(word, size)), **told)
            case "failed":
                chat.answer("", error={"content": "the provider failed"})
            case "stopped":
                chat.answer(filler(word, 100), said(filler(word, 100)) | {"status": "incomplete"}, done=False)
            case "old":  # of a version without output items
                chat.add("assistant", filler(word, size), chat.leaf)
            case _:
                chat.answer(filler(word, size), *items, said(filler(word, size)), **told)

    async def finish(self, kind: str, turn: Turn, size: int = 300, items: list[Json] | None = None) -> None:
        self.reply(kind, size, items or [], turn.body["usage"])
        if kind not in ("failed", "stopped"):
            await self.here.outlet(turn)

    async def send(self, kind: str = "plain", size: int = 300, calls: int = 0) -> None:
        files = {"image": [PICTURE], "document": [DOCUMENT]}.get(kind)
        question = self.here.ask(filler(self.word(), size), **({"files": files} if files else {}))
        turn = await self.inlet(question)
        items = await self.loop(turn, calls, size)
        await self.finish(kind, turn, min(size, 600), items)

    async def send_to_two_models(self) -> None:
        question = self.here.ask(filler(self.word(), 300))
        with self.here.host.importable():
            turns = await asyncio.gather(self.inlet(question), self.inlet(question))
        answers = []
        for turn in turns:
            self.here.leaf = question
            self.reply("plain", 300, [], turn.body["usage"])
            answers.append(str(self.here.leaf))
        pairs = zip(turns, answers, strict=True)
        with self.here.host.importable():
            await asyncio.gather(*(self.here.outlet(turn, one) for turn, one in pairs))

    async def regenerate(self, kind: str, guided: str) -> None:
        """`guided` by an instruction, which the metadata of Open WebUI 0.12 tell of."""
        chat = self.here
        if not (old := chat.leaf):
            return
        question = str(chat.rows[old]["parentId"])
        told: dict[str, object] = {}
        if guided:
            told["regeneration_message_id"] = old if guided == "told" else None
            turn = await self.inlet(question, old, f"Make it shorter, {self.word()}.", **told)
        else:
            turn = await self.inlet(question)
        chat.leaf = question
        await self.finish(kind, turn)

    async def edit_and_resend(self, place: int, kind: str) -> None:
        questions = [one for one in self.here.path() if one["role"] == "user"]
        if questions:
            self.here.leaf = questions[place % len(questions)].get("parentId")
        await self.send(kind)

    async def edit_in_place(self, place: int) -> None:
        path = self.here.path()
        if not path:
            return
        edited = self.here.rows[path[place % len(path)]["id"]]
        edited["content"] = filler(self.word(), 300)
        if edited.get("output"):
            edited["output"] = [said(edited["content"])]

    async def delete(self, place: int) -> None:
        """The message and its children go, its grandchildren get its parent."""
        chat, path = self.here, self.here.path()
        if len(path) < 2:
            return
        rows, gone = chat.rows, path[place % (len(path) - 1)]
        children = [one["id"] for one in rows.values() if one.get("parentId") == gone["id"]]
        for one in rows.values():
            if one.get("parentId") in children:
                one.pop("parentId")
                if gone.get("parentId"):
                    one["parentId"] = gone["parentId"]
        for identity in (gone["id"], *children):
            del rows[identity]
        if chat.leaf not in rows:
            chat.leaf = gone.get("parentId")
        if chat.leaf and rows[chat.leaf]["role"] == "user":
            self.reply("failed", 0, [])

    async def go_on(self) -> None:
        """Continue Response: the same answer gets longer."""
        chat = self.here
        last = chat.rows[chat.leaf] if chat.leaf else {}
        if not last.get("content"):
            return
        turn = await self.inlet(last["parentId"], last["id"], assistant_message_id=last["id"], message_id=last["id"])
        longer = f" And {self.word()}."
        last["content"] += longer
        last["output"] = [*(last.get("output") or [said(last["content"])]), said(longer)]
        last |= self._usage(turn.body["usage"])
        await chat.outlet(turn)

    async def switch_branch(self, place: int) -> None:
        rows = self.here.rows
        parents = {one.get("parentId") for one in rows.values()}
        leaves = [one for one, found in rows.items() if one not in parents and found["role"] == "assistant"]
        if leaves:
            self.here.leaf = leaves[place % len(leaves)]

    async def switch_chat(self, place: int) -> None:
        self.here = self.chats[place % len(self.chats)]

    async def switch_model(self, window: int) -> None:
        self.window = window

    async def switch_tools(self, share: float) -> None:
        self.tools = share

    async def fork(self, user: int) -> None:
        """The branch is cloned into a new chat: the user's own, or another user's."""
        here, owner = self.here, self.chats[user].user
        identity = here.id if self.setting.kind != "saved" else f"chat-{len(self.chats)}-{self.name}"
        host = Host({identity: copy.deepcopy(here.rows)})
        clone = replace(here, host=host, id=identity, user=owner)
        self.chats.append(clone)
        self.here = clone

    async def restart(self) -> None:
        """Service and filter forget what they keep in memory."""
        counts = self.service.app.state.serving.counts
        counts._new, counts._old = {}, {}
        self.filter._windows.clear()

    async def send_while_away(self, size: int) -> None:
        """The filter does not reach the service: it leaves out the oldest turns by its own estimate, and says so."""
        chat, valves = self.here, self.filter.valves
        turn = self.request(chat.ask(filler(self.word(), size)), None, "")
        lines, reached = len(chat.host.statuses), valves.service_url
        valves.service_url = NOWHERE
        try:
            await chat.enter(turn)
        finally:
            valves.service_url, self.filter._failures = reached, 0
        given, sent = turn.original, turn.messages
        said_of = chat.host.statuses[lines:]
        left_out = len(given) - len(sent) + (sent[0]["role"] == "system" != given[0]["role"])
        if left_out:
            assert said_of == [f"Left out {left_out} older messages to make room"]
            assert LEFT_OUT in read_text(sent[0])
            assert sent[1:] == given[-len(sent) + 1 :]
            assert sent[1]["role"] == "user"
        else:
            assert (sent, said_of) == (given, [])
        questions = sum(one["role"] == "user" for one in sent)
        assert count_sent_tokens(sent) <= self.window or questions == 1, "above the window"
        assert pairs_are_whole(sent), "broken pairs"
        turn.body["usage"] = count_sent_tokens(sent)
        await self.finish("plain", turn)

    async def work(self) -> None:
        await drain(self.service.runtime)


def _bare(messages: list[Native]) -> list[Native]:
    """Without Open WebUI's list of attached files."""
    end = "</attached_files>\n\n"
    return [
        {**one, "content": one["content"].partition(end)[2]}
        if isinstance(one["content"], str) and one["content"].startswith("<attached_files>")
        else one
        for one in messages
    ]
