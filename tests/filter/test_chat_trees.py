"""Whatever users do to the tree of a chat, a request shows each part of its branch once: as it is, or in a summary.

Hypothesis writes the scripts: send, regenerate, edit, delete, continue, switch, in any order, with work done in the
background now and then. Each message has a word of its own, and the summariser writes the words that it read. So a
summary tells exactly which texts it is made of, and no word of another branch or of an edited text can hide in it.
"""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from filter_stub import precis_filter
from filter_stub.precis_filter import TOOL_IMAGES
from service.settings import load
from tests.builders import called, returned, said, thought
from tests.conftest import Service, drain, serving
from tests.effort import examples
from tests.fakes.scripted_llm import Message, scripted_llm
from tests.filter.chat import Chat, Json, Turn, filler, filter_of, keyed, native, pairs_are_whole, tool_answer
from tests.filter.host import Host
from tests.filter.wire import wire
from tests.service.talk import opened

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORD = re.compile(r"w\d+w")
DATA = "data:image/png;base64,iVBORw0KGgo="
PICTURE = {"type": "image", "url": DATA, "name": "cat.png"}
DOCUMENT = {"type": "file", "id": "f1", "url": "f1", "name": "plan.pdf"}


def words_in(value: object) -> set[str]:
    return set(WORD.findall(json.dumps(value)))


def echo(messages: list[Message]) -> str:
    """A summariser that writes the words that it read, and nothing else."""
    return "## State\n- " + " ".join(sorted(words_in(messages[-1]), key=lambda word: int(word[1:-1])))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echoing(service: Service) -> AsyncIterator[Service]:
    """A service whose summariser echoes, and has so small a window that it reads in several calls."""
    async with scripted_llm(default=echo) as llm:
        urls = service.runtime.urls
        told = load(
            database_url=urls.database,
            redis_url=urls.redis,
            window=8192,
            summariser="openai",
            summariser_url=llm.openai_url,
            summariser_model="echo",
            summariser_window=4096,
        )
        async with serving(told) as started:
            yield started


@dataclass
class Tree:
    """A chat whose users do as the script says; every request is checked."""

    chat: Chat
    service: Service
    words: int = 0
    served: list[int] = field(default_factory=list)

    def word(self) -> str:
        self.words += 1
        return f"w{self.words}w"

    async def begin(self) -> None:
        """A branch above the window with a summary, and one turn that gets it."""
        for _ in range(9):
            await self.chat.say_nothing_of(filler(self.word(), 350), filler(self.word(), 350))
        await self.send("plain")
        await drain(self.service.runtime)
        await self.send("plain")
        assert self.served

    async def inlet(self, user_message: str | None = None, *more: Json, **metadata: object) -> Turn:
        turn = await self.chat.inlet(user_message, *more, **metadata)
        await self.check(turn)
        return turn

    async def check(self, turn: Turn) -> None:
        path = self.chat.path(turn.metadata["user_message_id"])
        newest = path[-1]["content"]
        assert any(newest in str(one["content"]) for one in turn.tail if one["role"] == "user")
        if not turn.summary:
            assert turn.messages == turn.original
            assert turn.served == 0
            return
        self.served.append(turn.served)
        assert turn.messages[: len(turn.base)] == turn.base
        assert turn.tail == turn.original[-len(turn.tail) :]
        assert turn.tail[0]["role"] == "user"
        assert TOOL_IMAGES not in str(turn.tail[0]["content"]), "which no user wrote"
        assert pairs_are_whole(turn.tail)
        assert sum(one["role"] == "system" for one in turn.messages) == 1
        (made,) = await opened(self.service.runtime, "select * from checkpoints where id = :id", id=turn.served)
        # What is hidden is what the checkpoint covers, as it stands in the chat now, and the summary is made of it.
        covered = path[: made.covered_messages]
        assert covered[-1]["id"] == made.covered_until
        boundary = (made.covered_until, made.covered_digest)
        assert await keyed(self.service, precis_filter.chain(covered)[-1:]) == [boundary]
        assert turn.hidden == native(covered)
        assert turn.summary == made.summary
        words = words_in(native(covered))
        # An interim summary has the state that a model wrote some turns above.
        assert words_in(made.state) <= words
        assert words_in(made.state) == words or made.kind == "interim"
        beside = [made.summary, made.pins, made.talk, made.ledger]
        assert words_in(beside) <= words, "nothing of another branch, or of an edited text"

    def reply(self, kind: str) -> None:
        word = self.word()
        match kind:
            case "tools":
                self.chat.answer(f"The result is {word}.", *tool_answer(word, tokens=200))
            case "photo":
                self.chat.answer(word, called(word, "photo"), returned(word, filler(word, 200), DATA), said(word))
            case "thinking":
                self.chat.answer(f"It is {word}.", thought(f"Is it {self.word()}?"), said(filler(word, 350)))
            case "failed":
                self.chat.answer("", error={"content": "the provider failed"})
            case "stopped":
                self.chat.answer(filler(word, 100), said(filler(word, 100)) | {"status": "incomplete"}, done=False)
            case "old":  # of a version without output items
                self.chat.add("assistant", filler(word, 350), self.chat.leaf)
            case _:
                self.chat.answer(filler(word, 350))

    async def turn(self, kind: str, turn: Turn) -> None:
        self.reply(kind)
        if kind not in ("failed", "stopped"):
            await self.chat.outlet(turn)

    async def send(self, kind: str) -> None:
        files = {"image": [PICTURE], "document": [DOCUMENT]}.get(kind)
        self.chat.ask(filler(self.word(), 350), **({"files": files} if files else {}))
        await self.turn(kind, await self.inlet())

    async def send_to_two_models(self) -> None:
        self.chat.ask(filler(self.word(), 350))
        question = str(self.chat.leaf)
        turns = await asyncio.gather(self.inlet(question), self.inlet(question))
        answers = []
        for _ in turns:
            self.chat.leaf = question
            self.reply("plain")
            answers.append(str(self.chat.leaf))
        await asyncio.gather(*(self.chat.outlet(turn, one) for turn, one in zip(turns, answers, strict=True)))

    async def regenerate(self, kind: str, guided: str) -> None:
        """`guided` by an instruction, which the metadata of Open WebUI 0.12 tell of."""
        if not (old := self.chat.leaf):
            return
        question = str(self.chat.rows[old]["parentId"])
        more: list[Json] = []
        told: dict[str, object] = {}
        if guided:
            more = [*native([self.chat.rows[old]]), {"role": "user", "content": "Make it shorter."}]
            told["regeneration_message_id"] = old if guided == "told" else None
        turn = await self.inlet(question, *more, **told)
        assert turn.messages[len(turn.messages) - len(more) :] == more
        self.chat.leaf = question
        await self.turn(kind, turn)

    async def edit_and_resend(self, place: int, kind: str) -> None:
        questions = [row for row in self.chat.path() if row["role"] == "user"]
        if questions:
            self.chat.leaf = questions[place % len(questions)].get("parentId")
        await self.send(kind)

    async def edit_in_place(self, place: int) -> None:
        path = self.chat.path()
        if not path:
            return
        row = self.chat.rows[path[place % len(path)]["id"]]
        row["content"] = filler(self.word(), 350)
        if row.get("output"):
            row["output"] = [said(row["content"])]

    async def delete(self, place: int) -> None:
        """The message and its children go, its grandchildren get its parent."""
        path = self.chat.path()
        if len(path) < 2:
            return
        rows, gone = self.chat.rows, path[place % (len(path) - 1)]
        children = [row["id"] for row in rows.values() if row.get("parentId") == gone["id"]]
        for row in rows.values():
            if row.get("parentId") in children:
                row.pop("parentId")
                if gone.get("parentId"):
                    row["parentId"] = gone["parentId"]
        for identity in (gone["id"], *children):
            del rows[identity]
        if self.chat.leaf not in rows:
            self.chat.leaf = gone.get("parentId")
        if self.chat.leaf and rows[self.chat.leaf]["role"] == "user":
            self.reply("failed")

    async def go_on(self) -> None:
        """Continue Response: the same answer gets longer."""
        row = self.chat.rows[self.chat.leaf] if self.chat.leaf else {}
        if not row.get("content"):
            return
        part = native([row])
        turn = await self.inlet(row["parentId"], *part, assistant_message_id=row["id"], message_id=row["id"])
        assert turn.messages[-1] == part[-1]
        longer = f" And {self.word()}."
        row["content"] += longer
        row["output"] = [*(row.get("output") or [said(row["content"])]), said(longer)]
        await self.chat.outlet(turn)

    async def switch(self, place: int) -> None:
        parents = {row.get("parentId") for row in self.chat.rows.values()}
        leaves = [one for one, row in self.chat.rows.items() if one not in parents and row["role"] == "assistant"]
        if leaves:
            self.chat.leaf = leaves[place % len(leaves)]

    async def work(self) -> None:
        await drain(self.service.runtime)


KINDS = st.sampled_from(
    ["plain", "plain", "tools", "photo", "thinking", "failed", "stopped", "old", "image", "document"]
)
PLACES = st.integers(0, 40)
STEPS = st.one_of(  # methods of Tree
    st.tuples(st.just("send"), KINDS),
    st.just(("send_to_two_models",)),
    st.tuples(st.just("regenerate"), KINDS, st.sampled_from(["", "told", "untold"])),
    st.tuples(st.just("edit_and_resend"), PLACES, KINDS),
    st.tuples(st.just("edit_in_place"), PLACES),
    st.tuples(st.just("delete"), PLACES),
    st.just(("go_on",)),
    st.tuples(st.just("switch"), PLACES),
    st.just(("work",)),
)


async def play(service: Service, steps: list[tuple[Any, ...]]) -> Tree:
    async with filter_of(service.url, service.filter_key, cuts=False) as loaded:
        tree = Tree(Chat(Host(), loaded, f"tree-{uuid.uuid4()}"), service)
        await tree.begin()
        for action, *told in steps:
            await getattr(tree, action)(*told)
        await drain(service.runtime)
        await tree.send("plain")
        return tree


@settings(
    max_examples=examples(30),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=st.lists(STEPS, min_size=4, max_size=14))
async def test_every_request_shows_its_whole_branch_and_nothing_else(
    echoing: Service, steps: list[tuple[Any, ...]]
) -> None:
    tree = await play(echoing, steps)
    event(f"{len(set(tree.served))} summaries")


async def test_a_boundary_above_the_newest_messages_is_shown_when_the_answer_says_so_and_then_at_once(
    echoing: Service,
) -> None:
    async with wire(echoing.url) as tap, filter_of(tap.url, echoing.filter_key, cuts=False) as loaded:
        tree = Tree(Chat(Host(), loaded, f"tree-{uuid.uuid4()}"), echoing)
        await tree.begin()
        for number in range(9):
            await tree.chat.say(f"Question {number}", "Yes.")
        loaded._last.clear()  # as after a restart of Open WebUI
        tap.seen.clear()
        for _ in range(2):
            tree.chat.ask("Go on, please.")
            turn = await tree.inlet()
            assert turn.summary
            uncovered = len(turn.tail)
            await tree.chat.reply(turn, "Done.")

        shown = [len(body["path"]) for body in tap.bodies("POST")]
        assert uncovered > 16
        assert shown == [16, len(tree.chat.path()) - 3, uncovered + 1]
