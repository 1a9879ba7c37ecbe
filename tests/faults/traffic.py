"""Chats that go on whatever breaks, and know what has to be true afterwards.

Each chat behaves as the filter does: it has the request of a turn compressed, checks what it is served, and hands the
turn over until that is acknowledged. Now and then it edits in place, regenerates, branches off, or goes back to another
branch.

Every message carries a mark, and the model's answers carry a hash over the marks that it has read, in order: the
story. So a summary proves which branch it was made from, and that each message was read once.
"""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from random import Random
from typing import NamedTuple

import httpx

from tests.service.talk import Json, Talk, prose, with_texts
from tests.waiting import until

TURN = 1000  # tokens, about: a window of 8192 tokens needs a summary every three or four turns
ACTIONS = {"go on": 70, "regenerate": 8, "branch off": 8, "go back": 6, "edit": 8}

_MARK = re.compile(r"\[\[\S+ \S+ \S+\]\]")
_STORY = re.compile(r"Story ([a-p]{16})")
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")  # the gate drops numbers that nobody said


def story(above: str, texts: Iterable[str]) -> str:
    """The hash of `above`, the story so far, and the marks in these texts."""
    for mark in _MARK.findall("\n".join(texts)):
        above = hashlib.sha256(f"{above}{mark}".encode()).hexdigest()[:16].translate(_LETTERS)
    return above


def story_in(text: str) -> str:
    """The story that a summary tells; empty for none."""
    found = _STORY.search(text)
    return found[1] if found else ""


def narrate(messages: list[Json]) -> str:
    """What the scripted model answers: the story so far, continued with what it has read."""
    record, _, read = str(messages[-1]["content"]).partition(" messages that followed")
    chats = sorted({mark[2:].split()[0] for mark in _MARK.findall(read)})
    return f"## State\n- Story {story(story_in(record), [read])}, of {', '.join(chats)}."


class Place(NamedTuple):
    """A node on a path: what a summary that ends there has to say about itself."""

    depth: int
    story: str


class Chat:
    """One chat, whoever writes it, and what was handed over and acknowledged of it."""

    def __init__(self, traffic: "Traffic", client: httpx.AsyncClient, name: str, rng: Random) -> None:
        self.talk = Talk(client, name, user=f"user of {name}")
        self.leaf = ""
        self.acknowledged: set[str] = set()  # nodes
        self.places: dict[str, Place] = {}  # node → place, of all paths ever
        self._traffic = traffic
        self._rng = rng
        self._said = 0

    def expected(self) -> dict[str, str]:
        """Node → message of what has to be stored: what was acknowledged and not edited since, nor anything above."""
        now: dict[str, str] = {}
        for leaf in self._leaves():
            names = [row["id"] for row in self.talk.path(leaf)]
            now |= dict(zip(self.talk.ids(leaf), names, strict=True))
        return {node: name for node, name in now.items() if node in self.acknowledged}

    async def begin(self) -> None:
        """Some turns, handed over at once: Precis has just been installed."""
        leaf: str | None = None
        for _ in range(6):
            leaf = self._say(self._say(leaf, "user"), "assistant")
        assert leaf
        await self._hand_over(leaf, None)

    async def turn(self) -> None:
        """One turn of any kind."""
        (what,) = self._rng.choices(list(ACTIONS), list(ACTIONS.values()))
        path = self.talk.path(self.leaf)
        if what == "regenerate":
            await self._answer(path[-2]["id"])
            return
        leaf = self.leaf
        if what == "branch off":
            leaf = self._rng.choice([row["id"] for row in path if row["role"] == "assistant"])
        elif what == "go back":
            leaf = self._rng.choice([one for one in self._leaves() if self.talk.rows[one]["role"] != "user"])
        elif what == "edit":
            edited = self._rng.choice(path)["id"]
            self.talk.edit(edited, self._text(edited, TURN // 4))
        await self._answer(self._say(leaf, "user"))

    async def ask(self) -> None:
        """Sends one more question, until it is answered; nothing is handed over."""
        question = self._say(self.leaf, "user")

        async def answered() -> bool:
            unanswered = self._traffic.counts["unanswered"]
            await self._compressed(question)
            return self._traffic.counts["unanswered"] == unanswered

        await until(answered, every=0.5)

    def _leaves(self) -> list[str]:
        """Every message that nothing follows."""
        parents = {row["parentId"] for row in self.talk.rows.values()}
        return [identity for identity in self.talk.rows if identity not in parents]

    def _say(self, parent: str | None, role: str) -> str:
        identity = f"{role[0]}{self._said}"
        tokens = TURN // 10 if role == "user" else TURN
        return self.talk.add(identity, parent, role, self._text(identity, tokens))

    def _text(self, identity: str, tokens: int) -> str:
        """A text with a mark that tells it from every other, also from what an edit replaces."""
        self._said += 1
        mark = f"[[{self.talk.chat} {identity} {self._said}]]"
        return f"{mark}\n{prose(tokens, mark)}"

    async def _answer(self, question: str) -> None:
        """Has the request of a question compressed, checks it, and hands the turn over."""
        answer = await self._compressed(question)
        await self._hand_over(self._say(question, "assistant"), answer)

    async def _compressed(self, leaf: str) -> Json | None:
        """What a request is sent as. It goes on without an answer, so there is no second try."""
        answer = await self._send("compress", self.talk.request(leaf, seconds=0.6))
        if answer is None or answer.status_code == 503:
            self._traffic.counts["unanswered"] += 1
            return None
        if answer.status_code != 200:
            self._traffic.faults.append(f"compress: {answer.status_code} {answer.text}")
            return None
        body: Json = with_texts(answer.json())
        self._traffic.counts[body["status"]] += 1
        if body["status"] == "ready" and (fault := self._fault(leaf, body)):
            self._traffic.counts["mismatch"] += 1
            self._traffic.faults.append(fault)
        return body

    def _fault(self, leaf: str, answer: Json) -> str:
        """What is wrong with a `ready` answer for the path to `leaf`; empty when it fits."""
        path, depth, boundary = self.talk.path(leaf), answer["covered_messages"], answer["covered_until"]
        # Until the service is told an id, it has its own.
        if not 0 < depth < len(path) or (boundary in self.talk.rows and boundary != path[depth - 1]["id"]):
            return f"{self.talk.chat}: boundary {boundary} at {depth} is not on the path to {leaf}"
        system, _, _, *tail = answer["messages"]
        if not answer["left_out"] and (system, *tail) != (0, *range(depth + 1, len(path) + 1)):
            return f"{self.talk.chat}: {tail} does not follow what the summary up to {boundary} covers"
        covered = [str(row["content"]) for row in path[:depth]]
        # An interim summary goes on with the story as a model told it some turns above.
        stories = list(accumulate(covered, lambda above, text: story(above, [text]), initial=""))
        marks = set(_MARK.findall(answer["summary"]))
        if story_in(answer["summary"]) not in stories or not marks <= set(_MARK.findall("\n".join(covered))):
            return f"{self.talk.chat}: the summary up to {boundary} tells another story than the path to {leaf}"
        return ""

    async def _hand_over(self, leaf: str, asked: Json | None) -> None:
        """Hands the turn over until it is acknowledged; the whole branch, where nobody has answered its request."""
        self.leaf = leaf
        nodes, above = self.talk.ids(leaf), ""
        for depth, (node, row) in enumerate(zip(nodes, self.talk.path(leaf), strict=True), 1):
            above = story(above, [row["content"]])
            self.places[node] = Place(depth, above)
        body = self.talk.finished(asked, leaf) if asked else self.talk.turn(leaf)
        while True:
            answer = await self._send("turns", body)
            if answer is not None and answer.status_code == 202:
                break
            if answer is not None and answer.status_code == 409:
                body = self.talk.turn(leaf)
                continue
            if answer is not None and answer.status_code not in (429, 503):
                assert answer.status_code >= 500, answer.text
                self._traffic.faults.append(f"turns: {answer.status_code} {answer.text}")
            # A client's own back-off, as the filter has one; the traffic goes on until it is stopped.
            await asyncio.sleep(self._rng.uniform(0.2, 0.6))
        self.acknowledged.update(nodes)

    async def _send(self, what: str, body: Json) -> httpx.Response | None:
        """The answer; None when there is none."""
        try:
            return await self.talk.client.post(f"/v1/{what}", json=body)
        except httpx.TransportError:
            return None


class Traffic:
    """All chats. `faults` are broken promises in words."""

    def __init__(self, client: httpx.AsyncClient, chats: int, seed: int) -> None:
        self.chats = [Chat(self, client, f"chaos-{chat}", Random(f"{seed}:{chat}")) for chat in range(chats)]
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._allowed = asyncio.Semaphore(0)
        self._stopped = False

    def allow(self, turns: int) -> None:
        """Lets so many turns happen, of whichever chats come first."""
        for _ in range(turns):
            self._allowed.release()

    def stop(self) -> None:
        """No new turns; those that have begun are brought to their end."""
        self._stopped = True
        self.allow(len(self.chats))

    async def run(self) -> None:
        """Every chat goes on, turn by turn, until `stop`."""
        async with asyncio.TaskGroup() as group:
            for chat in self.chats:
                group.create_task(self._go_on(chat))

    async def look(self) -> None:
        """Every chat asks one more question: what stands at the end is checked as well."""
        for chat in self.chats:
            await chat.ask()

    async def _go_on(self, chat: Chat) -> None:
        await chat.begin()
        while True:
            await self._allowed.acquire()
            if self._stopped:
                return
            await chat.turn()
            self.counts["turn"] += 1
