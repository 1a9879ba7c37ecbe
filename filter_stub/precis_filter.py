"""
title: Precis
author: The Precis authors
description: Keeps long chats inside the model's window with summaries made in the background.
version: 0.3.0
required_open_webui_version: 0.6.43
license: MIT
"""

# inlet:   describes the request to the Precis service, and applies the edit that it proposes.
# request: before each model call of a turn, keeps what is sent inside the model's window.
# outlet:  hands the new messages over to the service, without making anybody wait.
# Whatever goes wrong, the request goes on as Open WebUI built it, and never larger than the window.

import asyncio
import hashlib
import inspect
import json
import logging
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import httpx
from pydantic import BaseModel, Field

log = logging.getLogger("precis")

VERSION = "0.3.0"
PAIRS = (
    16  # newest (id, digest) pairs in the first question; a digest speaks for everything above it
)
QUESTIONS = 32  # newest messages of users that the first question describes
SLICE = 2_000_000  # characters in one upload; the first one of a long chat takes several
REMEMBERED = 200  # chats whose path and last answer are kept in memory
FAILURES, PAUSE = 3, 30.0  # after so many in a row the service is left alone for so many seconds
WINDOW = 131_072  # tokens of a model that nobody knows anything about
SHORT = 600  # characters that are left of an old tool result
TEMPORARY = ("temporary:", "local:")
OWN_COMPACTION = "[CONVERSATION SUMMARY]"  # Open WebUI's, in the system message
SUMMARY = "[Previous conversation summary: "  # ours
TOOL_IMAGES = "Here are the images from the tool results above."  # which no user wrote
NOTED = "Noted: that is what was said before, and no instruction."  # the model's answer to a record
LEFT_OUT = "[Older messages were left out here: they do not fit into the model's window."
LEFT_OUT_END = " End of what was left out.]"
SHORTENED = "\n[… {} characters were left out here: they do not fit into the model's window …]\n"
HANDED = ("role", "content", "output", "usage", "error", "timestamp")  # handed over of a message
# Tokens per byte, by kind and by script: what they cost at most (ADR 11). Other ASCII costs 0.65.
COSTS = (
    (b" abcdefghijklmnopqrstuvwxyz", 0.29),
    (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 0.9),
    (bytes(range(0x80, 0xC2)), 0),
    (bytes(range(0xC2, 0xD0)), 0.9),
    (bytes(range(0xD0, 0xE0)), 0.45),
    (bytes([0xE0]), 0.6),
    (bytes([0xE1]), 1.9),
    (bytes(range(0xE2, 0xF0)), 1.0),
    (bytes(range(0xF0, 0xF8)), 3.0),
)
CITED = re.compile(r"```.*?```|`[^`]*`|(\[\d)", re.DOTALL)  # `[1]` outside of code
STASH = "precis"  # our key in the metadata, which Open WebUI carries from hook to hook

Message = dict[str, Any]
Given = dict[str, Any] | None  # nothing in some versions and for some clients
Emitter = Callable[[dict[str, Any]], Awaitable[None]]


class Node(NamedTuple):
    """One message of the branch. Equal digests mean: everything up to here is equal."""

    id: str
    role: str
    text: str
    words: str  # a hash of a user's text
    fingerprint: str
    digest: str
    size: int


@dataclass
class Request:
    """What is known of one request. Open WebUI's metadata carry its fields from hook to hook."""

    chat: str
    user: str | None
    model: str
    window: int | None
    budget: int | None  # the window, as the service is told
    reply: str | None = None  # the id of the answer
    begun: float = 0.0
    answered: bool = False  # by the service
    known: str | None = None  # the newest message that the service has
    served: int | None = None  # checkpoint, 0 for none; None: the usage says nothing about it
    density: float = 1.0  # what the service counts, by what is estimated here
    overhead: int = 0  # tokens that the provider counts besides the messages
    tools: int | None = None  # tokens of their specifications
    compactor: str | None = None
    expires_in: int | None = None
    files: dict[str, list[Message]] = field(default_factory=dict)
    read: int = 0  # results of the running turn that the model has read
    status: str = ""
    waiting: str = ""  # the status if the request has to be cut
    why: str = "they do not fit into the model's window"
    results: int = 0  # tool results that were shortened, messages that were left out, texts
    left_out: int = 0
    before: int = 0  # left out by inlet; each call of a tool loop begins again from there
    texts: int = 0
    told: str = ""

    def line(self) -> str:
        """The status line: what is true of the request now."""
        cut = f"left out {self.left_out} older messages" if self.left_out else ""
        if self.texts and not cut:
            cut = "left out parts of long messages"
        parts = [self.status or (self.waiting if cut else ""), f"{cut}: {self.why}" if cut else ""]
        if self.results and not cut:
            parts.append("shortened older tool results to make room")
        line = "; ".join(filter(None, parts))
        return line[:1].upper() + line[1:]


class Filter:
    """What Open WebUI calls: one object for all requests."""

    class Valves(BaseModel):
        """What an admin sets in Open WebUI."""

        service_url: str = Field("http://127.0.0.1:8377", description="Address of Precis.")
        api_key: str = Field(
            "",
            description="Key with scope `filter`, as `precis keys create` prints it.",
            json_schema_extra={"input": {"type": "password"}},
        )
        timeout: float = Field(0.8, gt=0, description="Seconds that a request may wait for Precis.")
        skip_below_chars: int = Field(24_000, ge=0, description="Shorter chats are left alone.")
        on_overflow: Literal["truncate", "pass"] = Field(
            "truncate", description="A request above the window loses its oldest turns, or passes."
        )
        window_tokens: int = Field(0, ge=0, description="Window of unknown models; 0: 131072.")
        windows: str = Field("", description='The same by model, as JSON: {"llama3:8b": 8192}.')
        temporary_hours: int = Field(
            0,
            ge=0,
            le=8760,
            description="Hours that Precis keeps temporary chats; 0: it sees none.",
        )
        api_days: int = Field(
            30, ge=1, le=3650, description="Days that API clients' chats are kept."
        )
        summary_role: Literal["system", "record"] = Field(
            "system", description="`record`: only what users laid down is a system message."
        )
        show_status: bool = Field(True, description="Tell under the answer what was changed.")
        show_summary: bool = Field(False, description="Show the summary as a source of the answer.")
        write_context_summary: bool = Field(
            False, description="Also store summaries where Open WebUI's own compaction does."
        )
        priority: int = Field(100, description="Filters run in rising order; Precis best is last.")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._http: httpx.AsyncClient | None = None
        self._handing_over: set[asyncio.Task[None]] = set()  # keeps the tasks alive
        self._failures, self._again_at = 0, 0.0
        self._hooked = False  # whether this Open WebUI calls `request`
        self._tools: dict[str, int] = {}  # tokens of the tools that Open WebUI adds after inlet
        self._remembered: OrderedDict[str, tuple[str, list[Node]]] = OrderedDict()  # no texts
        self._last: OrderedDict[str, Message] = OrderedDict()  # the last of each chat and model
        self._sources: OrderedDict[str, Message] = OrderedDict()  # of answers to come

    async def inlet(
        self,
        body: Message,
        __metadata__: Given = None,
        __model__: Given = None,
        __event_emitter__: Emitter | None = None,
    ) -> Message:
        """Puts the stored summary in place of what it covers, and keeps to the window."""
        try:
            begun = asyncio.get_running_loop().time()
            metadata = __metadata__ or body.get("metadata") or {}
            request = self._request(body, metadata, __model__)
            if not self._concerned(body["messages"], request):
                return body
            request.begun = begun
            try:
                async with asyncio.timeout_at(
                    begun + self.valves.timeout * 0.8
                ):  # the rest: status
                    await self._compress(body, metadata, request)
            except Exception as error:
                log.warning("precis: a request goes on without a summary: %r", error)
            self._fit(body, request)
            request.before = request.left_out
            if request.line():
                body["messages"] = merged(body["messages"])
            if not self._hooked:  # else `request` tells, which comes next and may cut more
                async with asyncio.timeout_at(begun + self.valves.timeout):
                    await self._tell(request, __event_emitter__)
        except Exception as error:
            log.warning("precis: a request goes on unchanged or without a status: %r", error)
        return body

    async def request(
        self,
        body: Message,
        __metadata__: Given = None,
        __model__: Given = None,
        __event_emitter__: Emitter | None = None,
    ) -> Message:
        """Keeps each model call of a turn inside the window. What is saved of it stays whole."""
        try:
            request = self._request(body, __metadata__ or body.get("metadata") or {}, __model__)
            newest = body["messages"][newest_turn(body["messages"]) :]
            if self._concerned(body["messages"], request):
                self._hooked = True
                self._fit(body, request)
                async with asyncio.timeout(self.valves.timeout):
                    await self._tell(request, __event_emitter__)
            request.read = sum(m.get("role") == "tool" for m in newest)
        except Exception as error:
            log.warning("precis: a model call goes on unchanged or without a status: %r", error)
        return body

    async def outlet(
        self,
        body: Message,
        __metadata__: Given = None,
        __user__: Given = None,
        __model__: Given = None,
        __event_emitter__: Emitter | None = None,
    ) -> Message:
        """Hands the branch of a saved chat over in the background."""
        try:
            if body.get("precis_check") is True and (__user__ or {}).get("role") == "admin":
                body["precis_check"] = await self._check()  # for `precis install-filter`
                return body
            chat, messages = body.get("chat_id"), body.get("messages") or []
            metadata = __metadata__ or {}
            request = self._request(body, {**metadata, "chat_id": chat}, __model__)
            whole = saved(chat) and request.chat == chat and all(m.get("id") for m in messages)
            if whole and self._concerned(messages, request):
                # Up to 0.8 the page asks: with other metadata, and answers without output.
                leaf = None if STASH in metadata else body.get("id")
                self._later(self._take(messages, request, leaf))
            async with asyncio.timeout(self.valves.timeout):
                await self._show(body, __event_emitter__)
        except Exception as error:
            log.warning("precis: a reply was not handed over, or has no source: %r", error)
        return body

    def _request(self, body: Message, metadata: Message, model: Given) -> Request:
        stored = metadata.get(STASH)
        if isinstance(stored, dict):
            request = Request(**stored)
            request.__dict__ = stored  # Open WebUI may copy the metadata, but not what is in them
        else:
            window, chat = self._window(body, model or {}), metadata.get("chat_id") or ""
            user, name = metadata.get("user_id"), str(body.get("model"))
            request = Request(chat, user, name, window, window, metadata.get("message_id"))
            metadata[STASH] = vars(request)  # plain values
        return request

    def _window(self, body: Mapping[str, Any], model: Mapping[str, Any]) -> int | None:
        """The model's window in tokens, from the most trusted of those who tell it."""
        info, provider = model.get("info") or {}, model.get("openai") or {}
        try:
            windows = dict(json.loads(self.valves.windows or "{}"))
        except (TypeError, ValueError) as error:
            log.warning('precis: the valve `windows` is not JSON such as {"x": 8192}: %s', error)
            windows = {}
        told = (
            (body.get("options") or {}).get("num_ctx"),
            body.get("num_ctx"),
            (info.get("params") or {}).get("num_ctx"),
            provider.get("max_model_len"),
            provider.get("context_length"),
            (provider.get("meta") or {}).get("n_ctx"),
            windows.get(body.get("model")),
            windows.get(info.get("base_model_id")),
            self.valves.window_tokens,
        )
        return next((size for size in told if isinstance(size, int) and size >= 2048), None)

    def _concerned(self, messages: Sequence[Message], request: Request) -> bool:
        """Whether the chat may be too long. A token is hardly less than half a character."""
        least = min(self.valves.skip_below_chars, (request.window or WINDOW) // 2)
        in_channel = str(request.chat).startswith("channel:")
        return not in_channel and sum(map(size_of, messages)) >= least

    async def _tell(self, request: Request, emitter: Emitter | None) -> None:
        """Shows the status line, if it says anything new: each is a write to the whole chat."""
        line = request.line()
        if line and line != request.told and self.valves.show_status and emitter:
            request.told = line
            await emitter({"type": "status", "data": {"description": line, "done": True}})

    async def _show(self, body: Message, emitter: Emitter | None) -> None:
        """Shows the summary as a source, after all others: `[1]` in an answer means the first."""
        source = self._sources.pop(str(body.get("id")), None)
        if source and emitter:
            others = body["messages"][-1].get("sources") or []
            # Without sources `x[1]` is text; with any, the page makes a link of it, or nothing.
            cited = not others and any(CITED.findall(text_of(body["messages"][-1])))
            if source not in others and not cited:
                await emitter({"type": "source", "data": source})

    async def _compress(self, body: Message, metadata: Message, request: Request) -> None:
        """Asks for the branch's summary, and puts it in."""
        messages: list[Message] = body["messages"]
        if any(text_of(m).startswith(SUMMARY) for m in opening(messages)):
            return
        request.compactor = compactor_of(body, leading(messages))
        if request.compactor == "open-webui":
            request.status = "Context compacted by Open WebUI itself"
            return
        request.served = 0
        path, unsaved = await self._path(body, metadata, request)
        if not path:
            return
        key = f"{request.chat} {request.model}"
        guided = bool(metadata.get("regeneration_message_id"))
        try:
            answer = await self._ask(messages, path, guided, request)
            if answer["status"] != "not_needed":
                request.why = "no summary is ready yet"
        except Exception:
            # The last answer is as good, as far as it still fits this branch.
            request.why = "Precis is away"
            if key not in self._last:
                raise
            answer = self._last[key]
        if unsaved and request.answered:
            self._later(self._hand_over(unsaved, path, request))
        if answer["status"] == "unknown":
            self._last.pop(key, None)
            return
        self._use(answer, request)
        remember(self._last, key, answer)
        if answer["status"] == "ready":
            self._put_in(answer, body, path, request)

    def _use(self, answer: Mapping[str, Any], request: Request) -> None:
        """Takes over what the service knows of window and sizes."""
        request.overhead = int(answer["tokens"].get("overhead") or 0)
        request.window = request.window or answer.get("window")
        request.density = min(max(float(answer.get("density") or 1), 0.7), 2.0)
        if answer["status"] != "ready":
            request.waiting = str(answer.get("status_text") or "") if request.answered else ""

    def _put_in(
        self, answer: Mapping[str, Any], body: Message, path: Sequence[Node], request: Request
    ) -> None:
        """Applies the edit that the service proposes, if it fits the request."""
        checkpoint, changed = int(answer["checkpoint_id"]), edited(body["messages"], path, answer)
        if changed is None:
            log.warning("precis: summary %s does not fit a request of %s", checkpoint, request.chat)
            return
        body["messages"], request.served, request.why = changed, checkpoint, Request.why
        status = str(answer.get("status_text") or "")
        request.status = status if request.answered else status.partition(":")[0]
        told = "\n\n".join(filter(None, (answer.get("record"), answer.get("summary"))))
        if self.valves.show_summary and request.reply:
            name = f"Summary of {answer.get('covered_messages')} earlier messages"
            about = {"source": {"name": name}, "metadata": [{"source": f"precis {checkpoint}"}]}
            remember(self._sources, request.reply, {**about, "document": [told]})
        if self.valves.write_context_summary and saved(request.chat):
            kept = next(i for i, node in enumerate(path) if node.id == answer["covered_until"]) + 1
            self._later(show_in_open_webui(request.chat, path[kept].id, told))

    async def _path(
        self, body: Message, metadata: Message, request: Request
    ) -> tuple[list[Node], list[Message]]:
        """The branch up to the question, and its messages if Open WebUI does not save them.

        Both are empty when nothing may be told of it.
        """
        head = leading(body["messages"])
        messages = body["messages"][len(head) :]
        question = metadata.get("user_message") or metadata.get("parent_message") or {}
        leaf = metadata.get("user_message_id") or metadata.get("parent_message_id")
        leaf = leaf or question.get("id")
        if saved(request.chat):
            view, path = self._remembered.get(request.chat, ("", []))
            goes_on = (
                path and leaf == question.get("id") and question.get("parentId") == path[-1].id
            )
            if goes_on and view == view_of(messages[: newest_turn(messages)]):  # as outlet saw it
                request.files = {str(leaf): named(question.get("files"))}
                return [*path, *chain([question], path[-1].digest)], []
            rows = await rows_of(request.chat)
            above = leaf or rows.get(str(metadata.get("message_id")), {}).get("parentId")
            path = await asyncio.to_thread(chain, branch(rows, above))
            request.files = {node.id: named(rows[node.id].get("files")) for node in path}
            if path or leaf:
                return path, []
        temporary = str(request.chat).startswith(TEMPORARY)
        hours = self.valves.temporary_hours if temporary else self.valves.api_days * 24
        unsaved = fold(messages)
        first = next((text_of(m) for m in unsaved if m["role"] == "user"), "")
        if not (hours and first and request.user):
            return [], []
        request.chat = f"content:{hashed(request.user, first)}"
        request.expires_in = hours * 3600
        # No usage will tell what goes along with the messages. That is taken off the window, and as
        # much as `_fit` may count too high.
        tools = tokens_of_tools(body) or self._tools.get(request.model, 0)
        beside = sum(map(tokens_of, head)) + tools
        budget = request.window and max(request.window * 15 // 16 - beside, 2048)
        request.budget = budget
        return await asyncio.to_thread(chain, unsaved), unsaved

    async def _ask(
        self, messages: Sequence[Message], path: Sequence[Node], guided: bool, request: Request
    ) -> Message:
        """What the service has for this branch. It may need more than is told at first."""
        self._left_alone()  # before anything is counted
        url, answer = f"chats/{quote(request.chat, safe='')}/context", Message()
        question: dict[str, Any] = {
            "model": request.model,
            "user_id": request.user,
            "window_tokens": request.budget,
            "depth": len(path),
        }
        if self.valves.summary_role == "record":
            question["summary_role"] = "record"
        described = describe(messages, path, guided)
        for pairs, most in ((PAIRS, QUESTIONS), (len(path), len(messages))):
            newest = path[::-1][:pairs]
            question["path"] = [(node.id, node.digest) for node in newest]
            question["sizes"] = [node.size for node in newest]
            question["native"] = newest_of(described, most)
            # Ends before inlet's own deadline, so that silence is a failure, and a Stop is not.
            left = request.begun + self.valves.timeout * 0.7 - asyncio.get_running_loop().time()
            answer = (await self._send("POST", url, question, left)).json()
            enough = answer["status"] != "ready" or answer.get("edit")
            request.answered, request.known = True, answer.get("known")
            whole = len(path) <= pairs and len(described["questions"]) <= most
            if whole or (answer["status"] != "unknown" and enough):
                break
        return answer

    async def _take(self, messages: Sequence[Message], request: Request, leaf: object) -> None:
        """Hands over what outlet was shown, or what is stored of it up to `leaf`."""
        if leaf:
            stored = branch(await rows_of(request.chat), leaf)
            if [m["id"] for m in stored] == [m["id"] for m in messages]:
                both = zip(stored, messages, strict=True)
                messages = [
                    old if old.get("content") or old.get("output") else shown for old, shown in both
                ]
        path = await asyncio.to_thread(chain, messages)
        kept = [node._replace(text="") for node in path]
        remember(self._remembered, request.chat, (view_of(messages), kept))
        await self._hand_over(messages, path, request)

    async def _hand_over(
        self, messages: Sequence[Message], path: Sequence[Node], request: Request
    ) -> None:
        """Sends what follows the newest message that the service has, or the whole branch."""
        if request.answered:
            known = next((i for i, node in enumerate(path) if node.id == request.known), -1)
        else:  # most likely the service has everything before this turn
            answers = (i for i, node in enumerate(path[:-1]) if node.role == "assistant")
            known = max(answers, default=-1)
        start, again = min(known + 1, len(path) - 1), False  # the newest message is always sent
        transcript: dict[str, Any] = {
            "model": request.model,
            "user_id": request.user or request.chat,
            "window_tokens": request.budget,
            "expires_in": request.expires_in,
            "compactor": request.compactor,
            # Of other chats the budget is without the tools.
            "overhead": request.tools if saved(request.chat) else None,
        }
        while start < len(path):
            end, size = start, 0
            while end < len(path) and (end == start or size + path[end].size <= SLICE):
                size += path[end].size + 1000
                end += 1
            transcript["after"] = (path[start - 1].id, path[start - 1].digest) if start else None
            transcript["served"] = request.served if end == len(path) else None
            transcript["messages"] = [
                {key: message[key] for key in HANDED if message.get(key) is not None}
                | {"id": node.id, "fingerprint": node.fingerprint, "digest": node.digest}
                | ({"files": request.files[node.id]} if request.files.get(node.id) else {})
                for message, node in zip(messages[start:end], path[start:end], strict=True)
            ]
            url = f"chats/{quote(request.chat, safe='')}/transcript"
            refused = (await self._send("PUT", url, transcript, 30.0)).status_code == 409
            if refused and (again or not start):
                return
            start, again = (0, True) if refused else (end, again)

    async def _check(self) -> object:
        try:
            self._failures = 0  # somebody has mended something, and asks now
            return (await self._send("GET", "filter", None, 5.0)).json()
        except Exception as error:
            return {"error": repr(error)}

    def _left_alone(self) -> None:
        if self._failures >= FAILURES and time.monotonic() < self._again_at:
            raise ConnectionError("after failures in a row the service is left alone for a while")

    async def _send(
        self, method: str, path: str, payload: object, seconds: float
    ) -> httpx.Response:
        """One request to the service. 409 is an answer; other errors are raised."""
        self._left_alone()
        self._again_at = (
            time.monotonic() + PAUSE
        )  # one request tries again, the others go on without
        self._http = self._http or httpx.AsyncClient()
        # An error about a stray line end or a typographic quote would show the key in the log.
        key = "".join(character for character in self.valves.api_key if "!" <= character <= "~")
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        headers["Precis-Filter"] = VERSION
        url = f"{self.valves.service_url.rstrip('/')}/v1/{path}"
        content = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.request(
                    method, url, content=content, headers=headers, timeout=None
                )
        except Exception:
            self._failures += 1
            raise
        self._failures = self._failures + 1 if response.status_code >= 500 else 0
        if response.is_error and response.status_code != 409:
            raise ConnectionError(f"the service says {response.status_code}: {response.text[:300]}")
        return response

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._handing_over.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._handing_over.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.warning("precis: work after a reply failed, the next turn does it again: %r", error)

    def _fit(self, body: dict[str, Any], request: Request) -> None:
        """Makes room in a request that is too large for the window."""
        window = request.window or WINDOW
        # What goes to the model besides messages: as measured, or tools, which `request` sees.
        if tools := tokens_of_tools(body):
            self._tools[request.model] = request.tools = tools
        left = max(window - (request.overhead or tools), 0)
        wanted = body.get("max_tokens")
        answer = min(wanted, left // 2) if isinstance(wanted, int) else 0
        # Where tools leave little, the chat gets most of that.
        room = left - max(answer, min(window // 8, left // 3))
        cut = self.valves.on_overflow == "truncate" and request.compactor != "provider"
        made = Shrink(body["messages"], room, window // 8, request.density)
        if made.excess > 0:
            made.shorten_results(request.read, older=cut)
        if made.excess > 0 and cut:
            made.leave_out_turns()
            made.shorten_texts()
        if made.results or made.left_out or made.texts:
            body["messages"] = made.messages
            request.results, request.texts = made.results, made.texts
            request.left_out = max(request.left_out, request.before + made.left_out)
            request.served = None  # the usage of a cut request tells nothing about the whole one


def saved(chat: object) -> bool:
    """Whether Open WebUI stores this chat."""
    elsewhere = (*TEMPORARY, "channel:", "content:")
    return isinstance(chat, str) and bool(chat) and not chat.startswith(elsewhere)


async def called(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """The result of a function of Open WebUI: up to 0.8 they block, now they are coroutines."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    return await asyncio.to_thread(function, *arguments)


async def rows_of(chat: str) -> dict[str, Message]:
    """All stored messages of a chat, by id."""
    from open_webui.models.chats import Chats  # here, so that the file loads anywhere

    return await called(Chats.get_messages_map_by_chat_id, chat) or {}


async def show_in_open_webui(chat: str, message: str, summary: str) -> None:
    """Stores a summary where Open WebUI's own does: on the first message that it does not cover."""
    from open_webui.models.chats import Chats

    if (await rows_of(chat)).get(message, {}).get("contextSummary") != summary:
        changed = {"contextSummary": summary}
        await called(Chats.upsert_message_to_chat_by_id_and_message_id, chat, message, changed)


def remember(store: OrderedDict[str, Any], key: str, value: object) -> None:
    """Keeps a value; the oldest ones go."""
    store[key] = value
    store.move_to_end(key)
    if len(store) > REMEMBERED:
        store.popitem(last=False)


def hashed(*parts: str) -> str:
    """A hash of some texts in their order."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def compactor_of(body: Message, head: Sequence[Message]) -> str | None:
    """Who else compresses this request: Open WebUI has done it, or the provider is asked to."""
    _, mark, theirs = "\n".join(map(text_of, head)).partition(OWN_COMPACTION)
    if mark and not theirs.lstrip().startswith(SUMMARY):  # ours, if `write_context_summary` is on
        return "open-webui"
    asked = "middle-out" in (body.get("transforms") or ()) or body.get("truncation") == "auto"
    return "provider" if asked or body.get("context_management") else None


def leading(messages: Sequence[Message]) -> list[Message]:
    """The system messages that a request begins with."""
    others = (i for i, m in enumerate(messages) if m.get("role") not in ("system", "developer"))
    return list(messages[: next(others, len(messages))])


def opening(messages: Sequence[Message]) -> list[Message]:
    """The same, and our record with what the model says to it: they stay where they are."""
    end = len(leading(messages))
    record, noted = [*map(text_of, messages[end : end + 2]), "", ""][:2]
    return list(messages[: end + 2 * (record.startswith(SUMMARY) and noted == NOTED)])


def merged(messages: list[Message]) -> list[Message]:
    """With one leading system message, as many templates want. Since 0.8 Open WebUI merges them."""
    misc, head = sys.modules.get("open_webui.utils.misc"), leading(messages)
    if misc is None or hasattr(misc, "merge_system_messages") or len(head) < 2:
        return messages
    return [{**head[0], "content": "\n".join(map(text_of, head))}, *messages[len(head) :]]


def is_question(message: Mapping[str, Any]) -> bool:
    """Whether a user wrote it."""
    return message.get("role") == "user" and not text_of(message).startswith(TOOL_IMAGES)


def newest_turn(messages: Sequence[Message]) -> int:
    """Where the newest question stands; at the end when there is none."""
    places = (i for i in reversed(range(len(messages))) if is_question(messages[i]))
    return next(places, len(messages))


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, its parts joined, without Open WebUI's list of attached files."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (p for p in content if isinstance(p, dict) and p.get("type") == "text")
        content = "".join(str(part.get("text") or "") for part in parts)
    if not isinstance(content, str):
        return ""
    listed = content.startswith("<attached_files>")
    return content.partition("</attached_files>\n\n")[2] if listed else content


def images_in(message: Mapping[str, Any]) -> int:
    """How many images a native message has."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return sum(p.get("type") == "image_url" for p in parts if isinstance(p, dict))


def size_of(message: Mapping[str, Any]) -> int:
    """Characters of a message, stored or native; images as 2000."""
    extra = message.get("output") or message.get("tool_calls")
    if extra:
        return len(str(extra)) + len(text_of(message)) * ("output" not in message)
    content = message.get("content")
    if type(content) is str:
        return len(content)
    return len(text_of(message)) + 2000 * images_in(message)


def tokens_in(text: str) -> int:
    """What a text costs at most with the usual tokenizers; English prose costs 3/4 of that."""
    raw = text.encode("utf-8", "replace")
    cost, rest = 4.0, len(raw)
    for some, price in COSTS[:2] if text.isascii() else COSTS:
        count = len(raw) - len(raw.translate(None, some))
        cost, rest = cost + count * price, rest - count
    return int(cost + 0.65 * rest)


def tokens_of(message: Mapping[str, Any], density: float = 1.0) -> int:
    """An estimate for a native message; images as Open WebUI counts them."""
    calls = message.get("tool_calls")
    texts = text_of(message) + (str(calls) if calls else "")
    return int(tokens_in(texts) * density) + 1000 * images_in(message)


def tokens_of_tools(body: Mapping[str, Any]) -> int:
    """An estimate for the specifications of the tools in a request."""
    tools = body.get("tools")
    return tokens_in(json.dumps(tools)) * 3 // 4 if tools else 0  # words, mostly


def view_of(messages: Sequence[Message]) -> str:
    """A hash of what was said: the same for stored messages and for the native list of them."""
    said = (text_of(m) for m in messages if m.get("role") in ("user", "assistant"))
    return hashed(*filter(None, said))


def branch(rows: Mapping[str, Message], leaf: Any) -> list[Message]:  # noqa: ANN401
    """The chat tree's path from its root to `leaf`; nothing when it runs in a circle."""
    path: list[Message] = []
    seen: set[str] = set()
    while leaf and leaf in rows:
        if leaf in seen:
            return []
        seen.add(leaf)
        path.append({**rows[leaf], "id": leaf})
        leaf = rows[leaf].get("parentId")
    return path[::-1]


def chain(messages: Sequence[Message], above: str = "") -> list[Node]:
    """Digests of a branch, root to leaf: digest(m) = H(digest(parent), id, fingerprint).

    A message without an id gets one from its content and from what is above it.
    """
    nodes: list[Node] = []
    for m in messages:
        # What the model sees of an answer is its output items; `content` only repeats their text.
        seen = [m.get("role"), m.get("output") or m.get("content") or ""]
        canonical = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        fingerprint = hashed(canonical)
        identity = m.get("id") or hashed(above, fingerprint)
        above = hashed(above, identity, fingerprint)
        role, text = str(m.get("role")), text_of(m)
        words = hashed(text)[:16] if role == "user" else ""
        nodes.append(Node(identity, role, text, words, fingerprint, above, size_of(m)))
    return nodes


def fold(messages: Sequence[Message]) -> list[Message]:
    """A native list up to its last question as Open WebUI would store it."""
    folded: list[Message] = []
    for m in messages[: newest_turn(messages) + 1]:
        role, text, output = m.get("role"), text_of(m), []
        done = {"status": "completed"}
        if role == "tool":
            item = {"type": "function_call_output", "call_id": m.get("tool_call_id")} | done
            output.append(item | {"output": [{"type": "input_text", "text": text}]})
        elif role != "assistant":
            if is_question(m) or role != "user":
                folded.append({"role": role, "content": text})
            continue
        elif text:
            content = [{"type": "output_text", "text": text}]
            output.append({"type": "message", "role": "assistant", "content": content})
        for call in m.get("tool_calls") or ():
            function = {key: call["function"].get(key) for key in ("name", "arguments")}
            output.append({"type": "function_call", "call_id": call.get("id")} | done | function)
        if not folded or folded[-1]["role"] != "assistant":
            folded.append({"role": "assistant", "content": "", "output": []})
        folded[-1]["output"] += output
    return folded


def named(files: object) -> list[Message]:
    """The names and kinds of files."""
    some = [one for one in files if isinstance(one, dict)] if isinstance(files, list) else []
    keys = ("type", "name", "content_type")
    return [{key: one[key] for key in keys if one.get(key)} for one in some]


def describe(messages: Sequence[Message], path: Sequence[Node], guided: bool) -> dict[str, Any]:
    """What the service has to know of a request to say how to edit it; the newest come first."""
    questions: list[tuple[int, int, int, str]] = []
    head, before, images, all_images = len(leading(messages)), 0, 0, 0
    for place, m in enumerate(messages[head:], head):
        pictures = images_in(m)
        cost = tokens_of(m) - 1000 * pictures
        if is_question(m):
            questions.append((place, before, cost, text_of(m)))
            images = all_images
        before, all_images = before + cost, all_images + pictures
    asked = [(place, node.words) for place, node in enumerate(path) if node.role == "user"]
    totals = {"all_questions": len(questions), "all_asked": len(asked), "messages": len(messages)}
    newest = {"questions": questions[::-1], "asked": asked[::-1]}
    return {"leading": head, "images": images, "guided": guided} | totals | newest


def newest_of(described: dict[str, Any], most: int) -> dict[str, Any]:
    """A description of the newest questions alone, with hashes in place of texts."""
    newest = described["questions"][:most]
    questions = [(*numbers, hashed(text)[:16]) for *numbers, text in newest]
    return described | {"questions": questions, "asked": described["asked"][:most]}


def edited(
    messages: Sequence[Message], path: Sequence[Node], answer: Mapping[str, Any]
) -> list[Message] | None:
    """The request with the summary in place of what it covers; None when that is unsafe.

    Nothing is taken on trust. The boundary has to be on our branch, the dropped range has to end
    where the first uncovered question stands, and the questions from the one above it on have to
    have the stored words: all but the newest, which an earlier filter may have edited.
    """
    edit, summary, record = answer["edit"], answer.get("summary") or "", answer.get("record") or ""
    texts = isinstance(summary, str) and isinstance(record, str)
    sound = texts and (record or summary).startswith(SUMMARY)
    until = answer["covered_until"]
    covered = next((i for i, node in enumerate(path) if node.id == until), None)
    if not sound or not edit or covered is None or path[covered].digest != answer["covered_digest"]:
        return None
    tail = [node for node in path[covered + 1 :] if node.role == "user"]
    above = [node for node in path[: covered + 1] if node.role == "user"][-1:]
    shown = [place for place, m in enumerate(messages) if is_question(m)]
    base, (first, end) = leading(messages), edit["drop"]
    if not tail or tail[0] is not path[covered + 1] or end not in shown:
        return None
    start = shown.index(end) - len(above)
    expected = [*above, *tail]
    not_stored = len(shown) - start - len(expected)  # the instruction of a guided regeneration
    if start < 0 or not edit["keep"] == first == len(base) or not_stored not in (0, 1):
        return None
    compared = zip(shown[start:], expected[:-1], strict=False)
    if not all(holds(messages[place], node) for place, node in compared):
        return None
    if any(hashed(text_of(messages[place]))[:16] != words for place, words in edit["hashes"]):
        return None
    if base and OWN_COMPACTION in text_of(base[0]):  # ours, as `show_in_open_webui` stored it
        prompt = text_of(base[0]).partition(OWN_COMPACTION)[0].rstrip()
        base = [{**base[0], "content": prompt}] if prompt else []
    ours = [{"role": "system", "content": summary}] if summary else []
    if record:
        ours += [{"role": "user", "content": record}, {"role": "assistant", "content": NOTED}]
    return [*base, *ours, *messages[end:]]


def holds(message: Mapping[str, Any], node: Node) -> bool:
    """Whether a question has the stored words; an earlier filter may have added some."""
    text = text_of(message)
    return hashed(text)[:16] == node.words or (bool(node.text) and node.text in text)


@dataclass
class Shrink:
    """Makes room in a request by what is missed least first.

    Results and turns go in steps, so that the beginning stays the same over several requests.
    """

    messages: list[Message]
    room: int  # tokens
    step: int
    density: float  # of what the service has counted: all before the newest turn
    results: int = 0  # that were shortened
    left_out: int = 0  # messages
    texts: int = 0  # that were shortened

    def __post_init__(self) -> None:
        self.messages, self.newest = list(self.messages), newest_turn(self.messages)
        costs = map(self.cost, range(len(self.messages)))
        self.excess = sum(costs) - self.room

    def cost(self, place: int) -> int:
        """Tokens of a message."""
        return tokens_of(self.messages[place], self.density if place < self.newest else 1.0)

    def to_save(self, more: int = 0) -> int:
        """The excess in whole steps."""
        return -(-(self.excess + more) // self.step) * self.step

    def shorten(self, place: int, keep: int) -> int:
        """Leaves so many characters of a message; returns what that saves."""
        before = self.cost(place)
        self.messages[place] = shortened(self.messages[place], keep)
        self.excess -= (saved_here := before - self.cost(place))
        return saved_here

    def shorten_results(self, read: int, older: bool) -> None:
        """The middle of old tool results goes, the oldest first; `older`: those of older turns too.

        Never of those that the model is about to read: what comes after the first `read` ones of
        the newest turn and the last call.
        """
        all_results = [i for i, m in enumerate(self.messages) if m.get("role") == "tool"]
        calls = (i for i, m in enumerate(self.messages) if m.get("tool_calls"))
        called_at = max(calls, default=0)
        running = [i for i in all_results if i >= self.newest]
        old = [i for i in all_results if i < self.newest] if older else []
        to_save = self.to_save()
        for i in old + [i for n, i in enumerate(running) if n < read or i < called_at]:
            if to_save > 0 and len(text_of(self.messages[i])) > 1000:
                to_save -= self.shorten(i, SHORT)
                self.results += 1

    def leave_out_turns(self) -> None:
        """Whole turns go, the oldest first, but for a note with what users said in them."""
        head, systems = opening(self.messages), len(leading(self.messages))
        at, for_note = len(head), self.step // 2 + tokens_in(LEFT_OUT + LEFT_OUT_END)
        to_save = self.to_save(for_note)
        for start in [i for i, m in enumerate(self.messages) if is_question(m) and i > at]:
            if to_save > 0:
                gone = sum(map(self.cost, range(at, start)))
                at, to_save, self.excess = start, to_save - gone, self.excess - gone
        self.left_out = at - len(head)
        if self.left_out:
            said = [text_of(m) for m in self.messages[len(head) : at] if is_question(m)]
            head[:systems] = with_note(head[:systems], said, self.step // 2)
            self.messages = [*head, *self.messages[at:]]
            self.newest = newest_turn(self.messages)
            self.excess += for_note

    def shorten_texts(self) -> None:
        """The longest texts lose their middle."""
        places = range(len(opening(self.messages)), len(self.messages))
        for i in sorted(places, key=lambda i: -len(text_of(self.messages[i]))):
            whole, keep = self.messages[i], len(text_of(self.messages[i]))
            self.texts += self.excess > 0 and keep > 300
            while self.excess > 0 and keep > 300:
                keep = keep * 3 // 4
                self.excess -= self.cost(i)
                self.messages[i] = shortened(whole, keep)
                self.excess += self.cost(i)


def shortened(message: Message, keep: int) -> Message:
    """A message without the middle of its text."""
    text, content = text_of(message), message["content"]
    cut = text[: keep * 2 // 3] + SHORTENED.format(len(text) - keep) + text[-(keep // 3) :]
    if len(cut) >= len(text):
        return message
    if isinstance(content, list):
        others = [part for part in content if part.get("type") != "text"]
        return {**message, "content": [{"type": "text", "text": cut}, *others]}
    return {**message, "content": cut}


def with_note(head: list[Message], said: Sequence[str], room: int) -> list[Message]:
    """The system messages with what users said in the turns that are left out, the newest first."""
    lines: list[str] = []
    for text in reversed(said):
        line = "\n- " + " ".join(text[:400].split())[:160]
        room -= tokens_in(line)
        if room < 0:
            break
        lines.insert(0, line)
    place = next((i for i, m in enumerate(head) if LEFT_OUT_END in text_of(m)), None)
    more = "".join(lines) + LEFT_OUT_END
    if place is None:
        return [
            *head,
            {"role": "system", "content": LEFT_OUT + " Users said:" * bool(lines) + more},
        ]
    text = text_of(head[place]).replace(LEFT_OUT_END, more, 1)
    return [*head[:place], {**head[place], "content": text}, *head[place + 1 :]]
