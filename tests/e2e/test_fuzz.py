"""A random walk over chats, in which nothing of `oracle` is ever wrong.

Questions, tool loops, edits, forks, clones, regenerations, guided ones, continues, two models for a question, other
windows, filters before ours, answers that fail or are stopped, and restarts of filter and service. Open WebUI's own
functions make each request of the saved messages; the real filter and a real service do the rest.

    scripts/e2e -k fuzz --fuzz-turns 10000 [--fuzz-seed 7]      # a minute of it without options
"""

import contextlib
import copy
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.demo.host import Rows, list_path, make_outlet_body
from service.request import native
from service.transcript import count_sent_tokens, unfold_messages
from tests.builders import Json, called, returned, said
from tests.e2e.oracle import Call, findings, is_question, place_of_record, plain
from tests.e2e.precis import Precis, precis
from tests.e2e.versions import HERE, installed
from tests.filter.chat import SYSTEM, filter_of, ingested, no_log
from tests.filter.host import Host
from tests.service.talk import prose

pytestmark = pytest.mark.since("0.12.0", "its functions are taken as they are there")


WINDOWS = {"small": 4096, "middle": 6144, "large": 8192}
NOWHERE = "http://127.0.0.1:9"
PICTURE = {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo="}
PAPER = {"type": "file", "id": "f1", "url": "/api/v1/files/f1", "name": "paper.pdf"}
REWRITES: dict[str, Callable[[str], str]] = {  # what a filter before ours makes of users' words
    **{"": str, "before": "In short: {}".format, "strip": str.strip},
    "words": lambda text: text.replace("pump", "pompe").replace("showed", "a montré"),
}
TALKS = 8  # at a time
LONGEST = 70  # messages of a branch
ENVIRONMENT = {"USE_SLIM_DOCKER": "true", "FROM_INIT_PY": "true", "OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1"}
ENVIRONMENT |= {"WEBUI_SECRET_KEY": "not-a-secret-of-tests", "ENABLE_DB_MIGRATIONS": "false"}


@contextlib.contextmanager
def functions_of(version: str, folder: Path) -> Iterator[Callable[..., list[Json]]]:
    """Open WebUI's own functions, in a process of its own: `native`."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "DATA_DIR": str(folder), **ENVIRONMENT}
    command = [installed(version) / "bin" / "python", HERE / "native.py"]
    pipes: Json = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, env=variables, **pipes) as process:

        def call(name: str, **given: object) -> list[Json]:
            assert process.stdin
            assert process.stdout
            process.stdin.write(json.dumps([name, given]) + "\n")
            process.stdin.flush()
            made: list[Json] = json.loads(process.stdout.readline())
            return made

        yield call
        process.kill()


@dataclass
class Talk:
    """A chat. `sources` are the chats that it was copied from."""

    id: str
    user: str
    rows: Rows = field(default_factory=dict)
    leaf: str | None = None
    sources: list[str] = field(default_factory=list)
    usage: str = "absent"
    model: str = "large"
    rewrites: str = ""  # of `REWRITES`


@dataclass
class Walk:
    """The walk. `found` are the findings."""

    dice: random.Random
    openwebui: Callable[..., list[Json]]
    precis: Precis
    operator: httpx.AsyncClient
    filters: contextlib.AsyncExitStack
    host: Host = field(default_factory=Host)
    talks: list[Talk] = field(default_factory=list)
    known: dict[str, tuple[str, int]] = field(default_factory=dict)  # where each summary ends, by its text
    read: set[int] = field(default_factory=set)  # the checkpoints that these are of
    found: list[tuple[str, str]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)  # what has happened
    numbers: int = 0
    answers: int = 0  # of the service to the filter
    away: int = 0  # turns for which the filter does not reach the service
    filter: Any = None

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def text(self, most: int) -> str:
        """A text of up to so many tokens with a new mark."""
        self.numbers += 1
        return prose(self.dice.randint(20, most), f"z{self.numbers:06}")

    async def new_filter(self) -> None:
        """As after a restart of Open WebUI."""
        await self.filters.aclose()
        filtering = filter_of(self.precis.url, self.precis.keys["filter"], timeout=1)
        self.filter = await self.filters.enter_async_context(filtering)

        async def note(response: httpx.Response) -> None:
            self.answers += response.is_success and response.url.path.endswith("/compress")

        self.filter._http.event_hooks = {"response": [note]}

    async def step(self) -> None:
        """Something may happen, and then there is a turn."""
        if self.chance(0.002):
            self.seen["service restarted"] += 1
            await self.precis.kill() if self.chance(0.5) else await self.precis.end()
            await self.precis.start()
        if self.chance(0.005):
            self.away = self.dice.randint(1, 8)
        if self.chance(0.01) or self.filter is None:
            await self.new_filter()
        self.filter.valves.service_url = NOWHERE if self.away else self.precis.url
        self.seen["turns away"] += self.away > 0
        self.away = max(self.away - 1, 0)
        talk = self.choose()
        if talk.leaf and self.chance(0.06):
            self.edit(talk)
        if self.chance(0.1):
            talk.model = self.dice.choice(list(WINDOWS))
        await self.move(talk)

    def choose(self) -> Talk:
        """A chat: one of those that there are, a copy of one, or a new one."""
        self.talks = [talk for talk in self.talks if len(self.path(talk)) < LONGEST][-TALKS:]
        self.host.chats = {talk.id: talk.rows for talk in self.talks}
        if self.talks and not self.chance(0.03):
            return self.dice.choice(self.talks)
        self.numbers += 1
        identity = f"chat-{self.numbers}"
        if self.talks and self.chance(0.5):
            source = self.dice.choice(self.talks)
            talk = copy.deepcopy(source)
            talk.id, talk.sources = identity, [source.id, *source.sources]
        else:
            talk = Talk(identity, self.dice.choice(["anna", "ben"]))
            talk.usage = self.dice.choice(["absent", "honest", "without tools"])
            talk.rewrites = self.dice.choice(["", "", "", "before", "strip", "words"])
        self.talks.append(talk)
        self.host.chats[talk.id] = talk.rows
        return talk

    def path(self, talk: Talk, leaf: str | None = None) -> list[Json]:
        here = leaf or talk.leaf
        return list_path(talk.rows, here) if here else []

    def edit(self, talk: Talk) -> None:
        """Saves other words in place of a message's."""
        row = self.dice.choice(self.path(talk))
        row["content"] = self.text(300)
        if row.get("output"):
            row["output"] = [said(row["content"])]
        self.seen["edits"] += 1

    async def move(self, talk: Talk) -> None:
        """One turn, of a kind that is possible."""
        answered = [row["id"] for row in self.path(talk) if row["role"] == "assistant" and row["content"]]
        kind = self.dice.choice(["ask"] * 11 + ["fork", "fork", "again", "guided", "continue", "two"] * bool(answered))
        self.seen[kind] += 1
        if kind in ("again", "guided", "continue"):
            newest = answered[-1]
            await self.turn(talk, talk.rows[newest]["parentId"], talk.model, kind, newest)
            return
        question = self.ask(talk, self.dice.choice(answered) if kind == "fork" else talk.leaf)
        models = self.dice.sample(list(WINDOWS), 2) if kind == "two" else [talk.model]
        for model in models:  # one after the other, so that a seed gives the same walk
            await self.turn(talk, question, model, kind)

    def ask(self, talk: Talk, parent: str | None) -> str:
        files = [PICTURE] * self.chance(0.04) + [PAPER] * self.chance(0.05)
        blank = " \n" if talk.rewrites == "strip" else ""
        return self.add(talk, "user", parent, content=blank + self.text(250), **({"files": files} if files else {}))

    def add(self, talk: Talk, role: str, parent: str | None, **more: object) -> str:
        self.numbers += 1
        identity = f"{role[0]}{self.numbers}"
        row: Json = {"id": identity, "role": role, "timestamp": 1_790_000_000 + self.numbers, **more}
        talk.rows[identity] = row | ({"parentId": parent} if parent else {})
        talk.leaf = identity
        return identity

    async def turn(self, talk: Talk, question: str, model: str, kind: str, newest: str = "") -> None:
        """From the question to the answer, and what the filter makes of it; `newest` is the answer before."""
        again, continued = newest if kind == "guided" else None, newest if kind == "continue" else None
        instruction = f"Once more, please. {self.text(40)}" if again else None
        appended = again or continued
        branch = [*self.path(talk, question), *([talk.rows[appended]] if appended else [])]
        answer = continued or self.add(talk, "assistant", question, content="", model=model, done=False)
        built = self.openwebui(
            "build", rows=talk.rows, leaf=question, system=SYSTEM, appended=appended, instruction=instruction
        )
        rewritten(built, talk.rewrites)
        metadata: Json = {"user_id": talk.user, "chat_id": talk.id, "message_id": answer, "user_message_id": question}
        metadata |= {"user_message": copy.deepcopy(talk.rows[question]), "include_file_context": True}
        metadata |= {"regeneration_message_id": again, "assistant_message_id": continued}
        lines: list[str] = [""]

        async def emit(event: Json) -> None:
            lines.append(event["data"]["description"])

        told: Json = {"__metadata__": metadata, "__user__": {"id": talk.user}, "__event_emitter__": emit}
        told["__model__"] = {"openai": {"max_model_len": WINDOWS[model]}}
        body: Json = {"stream": True, "model": model, "metadata": metadata, "messages": copy.deepcopy(built)}
        output: list[Json] = []
        first, answers = list[Json](), self.answers
        await self.filter.inlet(body, **told)
        tools = self.tools(model)
        if tools:
            body["tools"] = tools
        loops = self.dice.choice([0, 0, 0, 1, 2, 3])
        for number in range(loops + 1):
            whole = built
            if number:
                cited = SYSTEM if self.chance(0.2) else None
                body["messages"] = self.openwebui("follow", messages=first, output=output, system=cited)
                whole = [*built, *copy.deepcopy(body["messages"][len(first) :])]
            await self.filter.request(body, **told)
            sent = self.openwebui("sent", messages=body["messages"])
            first = first or copy.deepcopy(sent)
            ends = await self.boundary(talk, branch, sent)
            told_of = (lines[-1], bool(again), self.answers > answers, *ends)
            self.judge(talk, Call(whole, sent, branch, tools, WINDOWS[model], *told_of))
            if number < loops:
                output += self.look_up(model)
        await self.reply(talk, answer, output, self.counted(talk, sent, tools), metadata)

    def tools(self, model: str) -> list[Json]:
        if self.chance(0.5):
            return []
        description = prose(WINDOWS[model] // 8, "tool")
        return [{"type": "function", "function": {"name": "query", "description": description}}]

    def look_up(self, model: str) -> list[Json]:
        """A step of a tool loop."""
        words = [said(self.text(40))] if self.chance(0.5) else []
        calls = [f"call-{self.numbers}-{number}" for number in range(self.dice.choice([1, 1, 2]))]
        asked = [called(call, arguments=json.dumps({"sql": f"select {self.text(20)}"})) for call in calls]
        pictures = [PICTURE["url"]] * (model == "large" and self.chance(0.03))
        return [*words, *asked, *(returned(call, self.text(600), *pictures) for call in calls)]

    def counted(self, talk: Talk, sent: list[Json], tools: list[Json]) -> Json:
        """The provider's usage, if it tells any."""
        beside = count_sent_tokens([{"role": "user", "content": json.dumps(tools)}]) if talk.usage == "honest" else 0
        usage = {"prompt_tokens": count_sent_tokens(sent) + beside, "completion_tokens": 9}
        return {} if talk.usage == "absent" else {"usage": usage}

    async def reply(self, talk: Talk, answer: str, output: list[Json], usage: Json, metadata: Json) -> None:
        """Saves the answer: a whole one, one that was stopped, or none."""
        row = talk.rows[answer]
        fate = self.dice.choices(["whole", "stopped", "failed"], [92, 4, 4])[0]
        if fate != "failed":
            row["output"] = [*row.get("output", []), *output, said(self.text(400))]
            texts = (one["content"][0]["text"] for one in row["output"] if one["type"] == "message")
            row["content"] = "\n".join(texts)
            row |= usage
        row["done"] = True
        if fate == "whole":
            shown = make_outlet_body(talk.rows, answer, chat=talk.id, model=str(row.get("model")))
            await self.filter.outlet(shown, __metadata__=metadata, __user__={"id": talk.user})
            await ingested(self.filter)

    async def boundary(self, talk: Talk, branch: list[Json], sent: list[Json]) -> tuple[str | None, int, int]:
        """The saved message with which the summary in a request ends, how many are there, and how many before it."""
        said = [one for one in sent if one["role"] != "system"]
        front = place_of_record(said)
        if front is None:
            return None, 0, 0
        text = plain(said[front])
        for chat in (talk.id, *talk.sources):
            if text not in self.known:
                await self.find(f"/v1/chats/{chat}")
        told, nodes = self.known.get(text, (None, 0))
        # The service counts what a model is sent: an answer that failed is nothing of that.
        places = places_of(branch)
        first = sum(begin < front for begin, _ in places)
        if told is None or first + nodes > len(places):
            return None, 0, 0
        covered = places[first + nodes - 1][1] + 1
        # Where a filter before ours changes what was said, the service has not been told whose words they are.
        until = told if told in talk.rows else branch[covered - 1]["id"]
        return until, covered, places[first - 1][1] + 1 if first else 0

    async def find(self, chat: str) -> None:
        """Notes where the summaries of a chat end."""
        answer = await self.operator.get(chat)
        listed = answer.json()["checkpoints"] if answer.is_success else []
        for one in listed:
            if one["id"] not in self.read:
                shown = await self.operator.get(f"{chat}/checkpoints/{one['id']}")
                if shown.is_success:  # else an edit has deleted it since
                    self.known[shown.json()["summary"]] = (one["covered_until"], one["covered_messages"])
                    self.read.add(one["id"])

    def judge(self, talk: Talk, call: Call) -> None:
        self.seen["calls"] += 1
        self.seen["with a summary"] += bool(call.record)
        if "left out" in call.line.lower():
            self.seen[call.line.rpartition(": ")[2]] += 1
        for kind, words in findings(call):
            where = f"turn {self.seen['turns']} of {talk.id} ({talk.usage}, {talk.rewrites}, away {self.away})"
            self.found.append((kind, f"{where}: {words}"))


def places_of(branch: list[Json]) -> list[tuple[int, int]]:
    """Of each node, as the service counts them: where it begins in the request, and the saved message at its end."""
    messages: list[Json] = []
    sources: list[int] = []
    for place, row in enumerate(branch):
        own = unfold_messages([row])
        messages += own
        sources += [place] * len(own)
    prints = [native.hash_message(one) for one in messages]
    nodes = native.cut_path(messages, prints, 0, len(messages))
    return [(node.begin, sources[node.end - 1]) for node in nodes]


def rewritten(messages: list[Json], how: str) -> None:
    """What a filter before ours makes of users' words."""
    for message in filter(is_question, messages):
        content = message["content"]
        if isinstance(content, list):
            texts = [part for part in content if "text" in part]
            for part in texts:
                part["text"] = REWRITES[how](part["text"])
        else:
            message["content"] = REWRITES[how](content)


async def test_nothing_is_wrong_with_any_request(version: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    turns, seed = pytestconfig.getoption("--fuzz-turns"), pytestconfig.getoption("--fuzz-seed")
    async with contextlib.AsyncExitStack() as stack:
        openwebui = stack.enter_context(functions_of(version, tmp_path))
        service = await stack.enter_async_context(precis(None, 8192))
        operator = await stack.enter_async_context(service.client("operator"))
        filters = await stack.enter_async_context(contextlib.AsyncExitStack())
        walk = Walk(random.Random(seed), openwebui, service, operator, filters)
        stack.enter_context(walk.host.importable())
        stack.enter_context(no_log())
        for _ in range(turns):
            walk.seen["turns"] += 1
            await walk.step()
    walked = f"seed {seed}: {dict(walk.seen)}, findings {Counter(kind for kind, _ in walk.found)}"
    sys.stdout.write(f"{walked}\n")  # shown with -s
    assert not walk.found, "\n".join([walked, *map(": ".join, walk.found[:20])])
    assert walk.seen["with a summary"] > walk.seen["calls"] / 5
