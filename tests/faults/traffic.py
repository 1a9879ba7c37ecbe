"""Chats that go on whatever breaks, and know what has to be true afterwards.

Each chat behaves as the filter does: it asks for the context of a turn, checks what it is served, and hands the turn
over until that is acknowledged. Now and then it edits in place, regenerates, branches off, or goes back to another
branch.

Every message carries a mark, and the model's answers carry a hash over the marks that it has read, in order: the
story. So a summary proves which branch it was made from, and that each message was read once.
"""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

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


def marks_in(texts: Iterable[str]) -> set[str]:
    """The marks of messages in these texts."""
    return set(_MARK.findall("\n".join(texts)))


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
    """A message on a path: what a summary that ends there has to say about itself."""

    id: str
    depth: int
    story: str


@dataclass
class Chat:
    """One chat, with what was handed over and acknowledged of it."""

    talk: Talk
    leaf: str = ""
    acknowledged: dict[str, str] = field(default_factory=dict)  # message → digest
    places: dict[str, Place] = field(default_factory=dict)  # digest → place, of all paths ever

    def compose(self, leaf: str) -> None:
        """The path to `leaf` is about to be shown to the service."""
        above = ""
        for depth, ((identity, _, computed), row) in enumerate(
            zip(self.talk.chain(leaf), self.talk.path(leaf), strict=True), 1
        ):
            above = story(above, [row["content"]])
            self.places[computed] = Place(identity, depth, above)

    def expected(self) -> dict[str, str]:
        """Message → digest of what has to be stored: what was acknowledged and not edited since, nor anything above."""
        now = {identity: computed for leaf in self.leaves() for identity, _, computed in self.talk.chain(leaf)}
        return {identity: was for identity, was in self.acknowledged.items() if now[identity] == was}

    def leaves(self) -> list[str]:
        """Every message that nothing follows."""
        parents = {row["parentId"] for row in self.talk.rows.values()}
        return [identity for identity in self.talk.rows if identity not in parents]

    def answers(self) -> list[str]:
        """Every answer that nothing follows."""
        return [identity for identity in self.leaves() if self.talk.rows[identity]["role"] == "assistant"]

    def fault(self, leaf: str, answer: Json) -> str:
        """What is wrong with a `ready` answer for the path to `leaf`; empty when it fits."""
        chain, depth = self.talk.chain(leaf), answer["covered_messages"]
        boundary = (answer["covered_until"], answer["covered_digest"])
        if not 0 < depth < len(chain) or (chain[depth - 1][0], chain[depth - 1][2]) != boundary:
            return f"{self.talk.chat}: boundary {boundary} at {depth} is not on the path to {leaf}"
        covered = [str(row["content"]) for row in self.talk.path(leaf)[:depth]]
        # An interim summary goes on with the story as a model told it some turns above.
        stories = list(accumulate(covered, lambda above, text: story(above, [text]), initial=""))
        if story_in(answer["summary"]) not in stories or not marks_in([answer["summary"]]) <= marks_in(covered):
            return f"{self.talk.chat}: the summary up to {boundary[0]} tells another story than the path to {leaf}"
        return ""


class Traffic:
    """All chats. What happens is passed through `record`; `faults` are broken promises in words."""

    def __init__(self, client: httpx.AsyncClient, chats: int, seed: int) -> None:
        self.chats = [Chat(Talk(client, f"chaos-{number}", user=f"user-{number}")) for number in range(chats)]
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._allowed = asyncio.Semaphore(0)
        self._stopped = False
        self._users = [_User(self, chat, Random(f"{seed}:{chat}")) for chat in range(chats)]

    def record(self, what: str, *about: Any) -> None:
        """Something happens, and is counted."""
        self.counts[what] += 1
        match what, about:
            case "say", [chat, identity, parent, role, text]:
                mark = f"[[{self.chats[chat].talk.chat} {identity} 0]]"
                self.chats[chat].talk.add(identity, parent, role, f"{mark}\n{prose(text, mark)}")
            case "edit", [chat, identity, version]:
                mark = f"[[{self.chats[chat].talk.chat} {identity} {version}]]"
                self.chats[chat].talk.edit(identity, f"{mark}\n{prose(TURN // 4, mark)}")
            case "hand", [chat, leaf]:
                self.chats[chat].leaf = leaf
                self.chats[chat].compose(leaf)
            case "acknowledged", [chat]:
                one = self.chats[chat]
                one.acknowledged |= {identity: computed for identity, _, computed in one.talk.chain(one.leaf)}
            case "fault", [text]:
                self.faults.append(text)
            case "kill", [kind]:
                self.counts[f"kill {kind}"] += 1

    def allow(self, turns: int) -> None:
        """Lets so many turns happen, of whichever chats come first."""
        for _ in range(turns):
            self._allowed.release()

    async def stop(self) -> None:
        """No new turns; those that have begun are brought to their end."""
        self._stopped = True
        self.allow(len(self.chats))

    async def run(self) -> None:
        """Every chat goes on, turn by turn, until `stop`."""
        async with asyncio.TaskGroup() as group:
            for user in self._users:
                group.create_task(self._go_on(user))

    async def look(self) -> None:
        """Every chat asks one more question, until it is answered: what stands at the end is checked as well."""
        for user in self._users:
            await user.ask()

    async def _go_on(self, user: "_User") -> None:
        await user.begin()
        while True:
            await self._allowed.acquire()
            if self._stopped:
                return
            await user.turn()
            self.record("turn")


class _User:
    """Who writes one chat."""

    def __init__(self, traffic: Traffic, number: int, rng: Random) -> None:
        self._traffic = traffic
        self._number = number
        self._rng = rng
        self._said = 0

    @property
    def _chat(self) -> Chat:
        return self._traffic.chats[self._number]

    async def begin(self) -> None:
        """A chat of some turns, handed over at once: Precis has just been installed."""
        leaf: str | None = None
        for _ in range(6):
            leaf = self._say(self._say(leaf, "user"), "assistant")
        assert leaf
        await self._ingest(leaf, None)

    async def turn(self) -> None:
        """One turn of any kind."""
        (what,) = self._rng.choices(list(ACTIONS), list(ACTIONS.values()))
        path = self._chat.talk.path(self._chat.leaf)
        match what:
            case "regenerate":
                await self._answer(path[-2]["id"])
                return
            case "branch off":
                leaf = self._rng.choice([row["id"] for row in path if row["role"] == "assistant"])
            case "go back":
                leaf = self._rng.choice(
                    [one for one in self._chat.leaves() if self._chat.talk.rows[one]["role"] != "user"]
                )
            case _:
                leaf = self._chat.leaf
        if what == "edit":
            self._traffic.record("edit", self._number, self._rng.choice(path)["id"], str(self._said))
        await self._answer(self._say(leaf, "user"))

    async def ask(self) -> None:
        """Asks for the context of one more question, until it is answered; nothing is handed over."""
        question = self._say(self._chat.leaf, "user")
        await until(lambda: self._answered(question), every=0.5)

    async def _answered(self, question: str) -> bool:
        unanswered = self._traffic.counts["unanswered"]
        await self._context(question)
        return self._traffic.counts["unanswered"] == unanswered

    def _say(self, parent: str | None, role: str) -> str:
        self._said += 1
        identity = f"{role[0]}{self._said}"
        self._traffic.record("say", self._number, identity, parent, role, TURN // 10 if role == "user" else TURN)
        return identity

    async def _answer(self, question: str) -> None:
        """Asks for the context of a question, checks it, and hands the answer over."""
        known = await self._context(question)
        await self._ingest(self._say(question, "assistant"), known)

    async def _context(self, leaf: str) -> str | None:
        """The newest message that the service knows. A request goes on without an answer, so there is no second try."""
        answer = await self._send("POST", "context", self._chat.talk.question(leaf, pairs=1000))
        if answer is None or answer.status_code == 503:
            self._traffic.counts["unanswered"] += 1
            return None
        if answer.status_code != 200:
            self._traffic.record("fault", f"context: {answer.status_code} {answer.text}")
            return None
        body: Json = with_texts(answer.json())
        self._traffic.record(body["status"])
        if body["status"] == "ready" and (fault := self._chat.fault(leaf, body)):
            self._traffic.record("mismatch")
            self._traffic.record("fault", fault)
        return body.get("known")

    async def _ingest(self, leaf: str, known: str | None) -> None:
        """Hands over what follows `known` until it is acknowledged."""
        self._traffic.record("hand", self._number, leaf)
        talk, after = self._chat.talk, known
        while True:
            answer = await self._send("PUT", "transcript", talk.transcript(leaf, after))
            if answer is not None and answer.status_code == 202:
                break
            if answer is not None and answer.status_code == 409:
                after = None
                continue
            if answer is not None and answer.status_code != 503:
                assert answer.status_code >= 500, answer.text
                self._traffic.record("fault", f"transcript: {answer.status_code} {answer.text}")
            self._traffic.counts["retries"] += 1
            # A client's own back-off, as the filter has one; the traffic goes on until it is stopped.
            await asyncio.sleep(self._rng.uniform(0.2, 0.6))
        self._traffic.record("acknowledged", self._number)

    async def _send(self, method: str, what: str, body: Json) -> httpx.Response | None:
        """The answer; None when there is none."""
        talk = self._chat.talk
        try:
            return await talk.client.request(method, f"/v1/chats/{talk.chat}/{what}", json=body)
        except httpx.TransportError:
            return None
