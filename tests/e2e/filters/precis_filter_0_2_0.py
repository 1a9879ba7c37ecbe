"""
title: Precis
author: The Precis authors
description: Keeps long chats inside the model's context window with summaries made in the background.
version: 0.2.0
required_open_webui_version: 0.6.43
license: MIT
"""

# inlet:   asks the Precis service for the stored summary of this branch, and puts it in place of what it covers.
# request: before each model call of a turn, makes room among the oldest tool results of a long tool loop.
# outlet:  hands the new messages over to the service, without making anybody wait.
# Whatever goes wrong, the request goes on as Open WebUI built it; and it never leaves larger than the model's window.

import asyncio
import hashlib
import inspect
import json
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import httpx
from pydantic import BaseModel, Field

log = logging.getLogger("precis")

VERSION = "0.2.0"
PAIRS = 16  # newest (id, digest) pairs in the first question; a rolling digest speaks for everything above them
SLICE = 2_000_000  # characters in one upload; a first one of a long chat takes several
REMEMBERED = 200  # chats whose path outlet remembers, so that the next inlet need not read it from the database
FAILURES, PAUSE = 3, 30.0  # so many failures in a row, and the service is left alone for so many seconds
WINDOW = 131_072  # tokens of a model that nobody knows anything about
TEMPORARY = ("temporary:", "local:")
OWN_COMPACTION = "[CONVERSATION SUMMARY]"  # Open WebUI's, in the system message
SUMMARY = "[Previous conversation summary: "  # ours
TOOL_IMAGES = "Here are the images from the tool results above."  # a user message that no user wrote
NOTED = "Noted: that is what was said before, and no instruction."  # what the model says to a record
LEFT_OUT = "[Older messages were left out here: they do not fit into the model's window.]"
SHORTENED = "\n[… {} characters were left out here: they do not fit into the model's window …]\n"
OLD_RESULT = "[An older tool result, left out to make room: {} → {} characters in {} lines, which begin: {} …]"
HANDED = ("role", "content", "output", "usage", "error", "timestamp")  # what is handed over of a message
# Tokens per character, by the first byte of its UTF-8: what scripts cost at most in texts of the kind (ADR 11).
ASCII_COSTS = ((b" abcdefghijklmnopqrstuvwxyz", 0.29), (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 0.9))
OTHER_COSTS = (
    (0xC2, 0xD0, 0.9),
    (0xD0, 0xE0, 0.45),
    (0xE0, 0xE1, 0.6),
    (0xE1, 0xE2, 1.9),
    (0xE2, 0xF0, 1.0),
    (0xF0, 0xF5, 3.0),
)
STASH = "precis"  # our key in the metadata, which Open WebUI carries from hook to hook of one request

Message = dict[str, Any]
Given = dict[str, Any] | None  # what Open WebUI passes; nothing in some versions and for some clients
Emitter = Callable[[dict[str, Any]], Awaitable[None]]


class Node(NamedTuple):
    """One message of the branch. Equal digests mean: everything up to here is equal."""

    id: str
    role: str
    text: str
    fingerprint: str
    digest: str
    size: int


class Filter:
    """What Open WebUI calls: one object for all requests, so nothing of a request stays on it."""

    class Valves(BaseModel):
        """What an admin sets in Open WebUI."""

        service_url: str = Field("http://127.0.0.1:8377", description="Address of the Precis service.")
        api_key: str = Field(
            "",
            description="Key with scope `filter`: printed at the first start, or made by `precis keys create`.",
            json_schema_extra={"input": {"type": "password"}},
        )
        timeout: float = Field(
            0.8, gt=0, description="Seconds that a request may wait for Precis; then it goes on without a summary."
        )
        skip_below_chars: int = Field(
            24_000, ge=0, description="Chats with fewer characters are left alone and not handed over."
        )
        on_overflow: Literal["truncate", "pass"] = Field(
            "truncate", description="A request larger than the window loses its oldest turns, or passes as it is."
        )
        window_tokens: int = Field(0, ge=0, description="Window of models that do not tell theirs; 0 means 131072.")
        windows: str = Field("", description='The same for each model, as JSON: {"llama3:8b": 8192}.')
        temporary_hours: int = Field(
            0, ge=0, le=8760, description="Hours that Precis keeps temporary chats; with 0 it never sees one."
        )
        api_days: int = Field(
            30, ge=1, le=3650, description="Days that Precis keeps chats of API clients, which have no id."
        )
        summary_role: Literal["system", "record"] = Field(
            "system", description="`record`: of a summary, only what users laid down is a system message."
        )
        show_status: bool = Field(True, description="Tell under the answer that the context was compressed.")
        write_context_summary: bool = Field(
            False, description="Also store summaries where Open WebUI keeps those of its own compaction."
        )
        priority: int = Field(100, description="Filters run in rising order; Precis best comes last.")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._http: httpx.AsyncClient | None = None
        self._handing_over: set[asyncio.Task[None]] = set()  # keeps the tasks alive
        self._failures, self._again_at = 0, 0.0
        self._tools: dict[str, int] = {}  # tokens of the tools that Open WebUI adds for a model after inlet
        self._remembered: OrderedDict[str, tuple[str, list[Node]]] = OrderedDict()  # no texts

    async def inlet(
        self,
        body: Message,
        __metadata__: Given = None,
        __model__: Given = None,
        __event_emitter__: Emitter | None = None,
    ) -> Message:
        """Puts the stored summary in place of what it covers, and keeps the request inside the window."""
        try:
            begun, status = asyncio.get_running_loop().time(), ""
            metadata = __metadata__ or body.get("metadata") or {}
            stash = self._stash(body, metadata, __model__)
            if not self._concerned(body["messages"], stash):
                return body
            stash["begun"] = begun
            try:
                async with asyncio.timeout_at(begun + self.valves.timeout * 0.8):  # the rest is for the status
                    status = await self._compress(body, metadata, stash)
            except Exception as error:
                log.warning("precis: a request goes on without a summary: %r", error)
            status = self._fit(body, stash) or status
            if status:
                body["messages"] = merged(body["messages"])
            async with asyncio.timeout_at(begun + self.valves.timeout):
                await self._tell(status, stash, __event_emitter__)
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
        """Keeps each model call of a turn inside the window. What Open WebUI saves of the turn stays whole."""
        try:
            stash = self._stash(body, __metadata__ or body.get("metadata") or {}, __model__)
            read = len(results_of(body["messages"]))
            if self._concerned(body["messages"], stash):
                status = self._fit(body, stash)
                async with asyncio.timeout(self.valves.timeout):
                    await self._tell(status, stash, __event_emitter__)
            stash["read"] = read
        except Exception as error:
            log.warning("precis: a model call goes on unchanged or without a status: %r", error)
        return body

    async def outlet(
        self, body: Message, __metadata__: Given = None, __user__: Given = None, __model__: Given = None
    ) -> Message:
        """Hands the branch of a saved chat over in the background."""
        try:
            if body.get("precis_check") is True and (__user__ or {}).get("role") == "admin":
                body["precis_check"] = await self._check()  # for `precis install-filter`
                return body
            chat, messages, metadata = body.get("chat_id"), body.get("messages") or [], __metadata__ or {}
            stash = self._stash(body, {**metadata, "chat_id": chat}, __model__)
            whole = saved(chat) and stash["chat"] == chat and all(m.get("id") for m in messages)
            if whole and self._concerned(messages, stash):
                # Up to 0.8 the browser asks for outlet: with other metadata, and without the output of the answers.
                self._later(self._take(messages, stash, leaf=None if STASH in metadata else body.get("id")))
        except Exception as error:
            log.warning("precis: a reply was not handed over: %r", error)
        return body

    def _stash(self, body: Message, metadata: Message, model: Given) -> Message:
        """What is known of this request, kept in its metadata from hook to hook."""
        if not isinstance(metadata.get(STASH), dict):
            window = self._window(body, model or {})
            metadata[STASH] = {
                "chat": metadata.get("chat_id") or "",
                "user": metadata.get("user_id"),
                "model": str(body.get("model")),
                "window": window,
                "budget": window,  # as the service is told
                "served": None,  # the checkpoint in the request, 0 for none; None: the usage says nothing about it
                "density": 1.0,  # what the service counts, by what is estimated here
                "overhead": 0,  # tokens that the provider counts besides the messages, as the service has measured
            }
        stash: Message = metadata[STASH]
        return stash

    def _window(self, body: Mapping[str, Any], model: Mapping[str, Any]) -> int | None:
        """The model's window in tokens, from the most trusted of those who tell it."""
        info, provider = model.get("info") or {}, model.get("openai") or {}
        try:
            windows = dict(json.loads(self.valves.windows or "{}"))
        except (TypeError, ValueError) as error:
            log.warning('precis: the valve `windows` is not JSON such as {"llama3:8b": 8192}: %s', error)
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

    def _concerned(self, messages: Sequence[Message], stash: Message) -> bool:
        """Whether the chat may be too long: channels never are, and a token is hardly less than half a character."""
        if str(stash["chat"]).startswith("channel:"):
            return False
        return sum(map(size_of, messages)) >= min(self.valves.skip_below_chars, (stash["window"] or WINDOW) // 2)

    async def _tell(self, status: str, stash: Message, emitter: Emitter | None) -> None:
        """Shows a status line; of each kind one in a turn, because each is a write to the whole chat."""
        kind, told = status.partition(":")[0], stash.setdefault("told", [])
        if kind and kind not in told and self.valves.show_status and emitter:
            told.append(kind)
            await emitter({"type": "status", "data": {"description": status, "done": True}})

    async def _compress(self, body: Message, metadata: Message, stash: Message) -> str:
        """Changes `body["messages"]` when a summary is ready; returns the status line, or nothing."""
        messages: list[Message] = body["messages"]
        head = leading(messages)
        if any(map(is_summary, opening(messages))):
            return ""
        stash["compactor"] = compactor_of(body, head)
        if stash["compactor"] == "open-webui":
            return "Context compacted by Open WebUI itself"
        stash["served"] = 0
        path, unsaved = await self._path(body, metadata, stash)
        if not path:
            return ""
        answer = await self._context(path, stash)
        if unsaved:
            self._later(self._hand_over(unsaved, path, stash))
        if answer["status"] == "unknown":
            return ""
        stash["window"] = stash["window"] or answer.get("window")
        tokens, stash["overhead"] = answer["tokens"], answer["tokens"].get("overhead") or 0
        stash["density"] = density_of(messages[len(head) :], path, answer, tokens["before"] - stash["overhead"])
        if answer["status"] != "ready":
            return ""
        spliced = splice(messages, path, answer, guided=bool(metadata.get("regeneration_message_id")))
        if spliced is None:
            log.warning("precis: summary %s does not fit a request of %s", answer["checkpoint_id"], stash["chat"])
            return ""
        status = f"Context compressed: {tokens['before'] / 1000:.0f}k → {tokens['after'] / 1000:.0f}k tokens"
        stash["served"] = int(answer["checkpoint_id"])
        if self.valves.write_context_summary and not unsaved:
            kept = next(i for i, node in enumerate(path) if node.id == answer["covered_until"]) + 1
            told = "\n\n".join(filter(None, (answer.get("record"), answer.get("summary"))))
            self._later(show_in_open_webui(stash["chat"], path[kept].id, told))
        body["messages"] = spliced  # last, so that an odd answer has raised before anything is changed
        return status

    async def _path(self, body: Message, metadata: Message, stash: Message) -> tuple[list[Node], list[Message]]:
        """The branch up to the question, and its messages when Open WebUI does not save them; nothing to keep quiet."""
        head = leading(body["messages"])
        messages = body["messages"][len(head) :]
        question = metadata.get("user_message") or metadata.get("parent_message") or {}
        leaf = metadata.get("user_message_id") or metadata.get("parent_message_id") or question.get("id")
        if saved(stash["chat"]):
            view, path = self._remembered.get(stash["chat"], ("", []))
            goes_on = path and leaf == question.get("id") and question.get("parentId") == path[-1].id
            if goes_on and view == view_of(messages[: newest_turn(messages)]):  # nothing has changed since outlet
                stash["files"] = {leaf: named(question.get("files"))}
                return [*path, *chain([question], path[-1].digest)], []
            rows = await rows_of(stash["chat"])
            above = leaf or rows.get(str(metadata.get("message_id")), {}).get("parentId")
            path = await asyncio.to_thread(chain, branch(rows, above))
            stash["files"] = {node.id: named(rows[node.id].get("files")) for node in path}
            if path or leaf:
                return path, []
        hours = self.valves.temporary_hours if str(stash["chat"]).startswith(TEMPORARY) else self.valves.api_days * 24
        unsaved = fold(messages)
        first = next((text_of(m) for m in unsaved if m["role"] == "user"), "")
        if not (hours and first and stash["user"]):
            return [], []
        stash |= {"chat": f"content:{hashed(stash['user'], first)}", "expires_in": hours * 3600}
        # No usage will tell what goes along with the messages. That is taken off the window, and as much as `_fit` may
        # count too high.
        beside = sum(map(tokens_of, head)) + (tokens_of_tools(body) or self._tools.get(stash["model"], 0))
        stash["budget"] = stash["window"] and max(stash["window"] * 15 // 16 - beside, 2048)
        return await asyncio.to_thread(chain, unsaved), unsaved

    async def _context(self, path: Sequence[Node], stash: Message) -> dict[str, Any]:
        """What the service has for this branch."""
        leaf_first, answer = path[::-1], {"status": "unknown"}
        for pairs in (leaf_first[:PAIRS], leaf_first) if len(path) > PAIRS else (leaf_first,):
            sizes = [node.size for node in pairs]
            question = {"model": stash["model"], "user_id": stash["user"], "window_tokens": stash["budget"]}
            question |= {"depth": len(path), "path": [(n.id, n.digest) for n in pairs], "sizes": sizes}
            if self.valves.summary_role == "record":  # which an older service does not know
                question["summary_role"] = "record"
            # Ends before inlet's own deadline, so that a silent service is seen as a failure, and a Stop is not.
            left = stash["begun"] + self.valves.timeout * 0.7 - asyncio.get_running_loop().time()
            answer = (await self._send("POST", f"chats/{quote(stash['chat'], safe='')}/context", question, left)).json()
            stash["known"] = answer.get("known")
            if answer["status"] != "unknown":
                break
        return answer

    async def _take(self, messages: Sequence[Message], stash: Message, leaf: object) -> None:
        """Hands over what outlet was shown, or what is stored of it up to `leaf`."""
        if leaf:
            stored = branch(await rows_of(stash["chat"]), leaf)
            if [m["id"] for m in stored] == [m["id"] for m in messages]:
                both = zip(stored, messages, strict=True)
                messages = [old if old.get("content") or old.get("output") else shown for old, shown in both]
        path = await asyncio.to_thread(chain, messages)
        self._remembered[stash["chat"]] = view_of(messages), [node._replace(text="") for node in path]
        self._remembered.move_to_end(stash["chat"])
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        await self._hand_over(messages, path, stash)

    async def _hand_over(self, messages: Sequence[Message], path: Sequence[Node], stash: Message) -> None:
        """Sends what follows the newest message that the service has, or the whole branch when it has none."""
        if "known" in stash:
            known = next((i for i, node in enumerate(path) if node.id == stash["known"]), -1)
        else:  # inlet did not ask; most likely the service has everything before this turn
            known = max((i for i, node in enumerate(path[:-1]) if node.role == "assistant"), default=-1)
        known = min(known, len(path) - 2)  # the newest message is always sent
        whose = stash["user"] or stash["chat"]
        transcript = {"model": stash["model"], "user_id": whose, "window_tokens": stash["budget"]}
        tools = stash.get("tools") if saved(stash["chat"]) else None  # else the budget is without them
        transcript |= {"expires_in": stash.get("expires_in"), "compactor": stash.get("compactor"), "overhead": tools}
        url, files = f"chats/{quote(stash['chat'], safe='')}/transcript", stash.get("files") or {}
        for start in (known + 1, 0) if known >= 0 else (0,):
            for begin, end in slices(path, start):
                transcript["after"] = (path[begin - 1].id, path[begin - 1].digest) if begin else None
                transcript["served"] = stash["served"] if end == len(path) else None
                transcript["messages"] = [
                    {key: message[key] for key in HANDED if message.get(key) is not None}
                    | {"id": node.id, "fingerprint": node.fingerprint, "digest": node.digest}
                    | ({"files": files[node.id]} if files.get(node.id) else {})
                    for message, node in zip(messages[begin:end], path[begin:end], strict=True)
                ]
                if (await self._send("PUT", url, transcript, 30.0)).status_code == 409:
                    break
            else:
                return

    async def _check(self) -> object:
        try:
            self._failures = 0  # somebody has mended something, and asks now
            return (await self._send("GET", "filter", None, 5.0)).json()
        except Exception as error:
            return {"error": repr(error)}

    async def _send(self, method: str, path: str, payload: object, seconds: float) -> httpx.Response:
        """One request to the service. 409 is an answer; other errors are raised."""
        if self._failures >= FAILURES and time.monotonic() < self._again_at:
            raise ConnectionError(f"after {self._failures} failures in a row the service is left alone for a while")
        self._again_at = time.monotonic() + PAUSE  # one request tries again, the others go on without
        self._http = self._http or httpx.AsyncClient()
        # An error about a stray line end or a typographic quote would show the key in the log.
        key = "".join(character for character in self.valves.api_key if "!" <= character <= "~")
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Precis-Filter": VERSION}
        url = f"{self.valves.service_url.rstrip('/')}/v1/{path}"
        content = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.request(method, url, content=content, headers=headers, timeout=None)
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

    def _fit(self, body: dict[str, Any], stash: Message) -> str:
        """Makes room in a request that is too large for the window; returns the status line, or nothing."""
        window: int = stash["window"] or WINDOW
        density: float = stash["density"]
        # What goes to the model besides the messages: as measured, or the tools, which the `request` hook sees.
        if tools := tokens_of_tools(body):
            self._tools[stash["model"]] = stash["tools"] = tools
        fixed: int = stash["overhead"] or tools
        wanted = body.get("max_tokens")
        answer = max(window // 8, min(wanted, window // 2) if isinstance(wanted, int) else 0)

        def excess() -> int:
            newest = newest_turn(body["messages"])
            costs = [tokens_of(m, density if i < newest else 1.0) for i, m in enumerate(body["messages"])]
            return sum(costs) + fixed + answer - window

        status, much, step = "", excess(), window // 8
        if much > 0:
            # In steps, so that the beginning of the request stays the same over many calls of a loop.
            body["messages"], count = relieve(body["messages"], -(-much // step) * step, stash.get("read", 0))
            if count:
                status, much = "Older tool results of this turn left out", excess()
        if much > 0 and self.valves.on_overflow == "truncate" and stash.get("compactor") != "provider":
            body["messages"], count = truncate(body["messages"], much, density)
            why = "" if any(map(is_summary, opening(body["messages"]))) else ", no summary is ready yet"
            status = f"Context truncated: {count or 'parts of'} {'older' if count else 'long'} messages left out{why}"
        if status:
            stash["served"] = None  # the usage of a cut request tells nothing about the whole one
        return status


def saved(chat: object) -> bool:
    """Whether Open WebUI stores this chat."""
    return isinstance(chat, str) and bool(chat) and not chat.startswith((*TEMPORARY, "channel:", "content:"))


async def called(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - as Open WebUI has it
    """The result of a function of Open WebUI's: up to 0.8 they block, since then they are coroutines."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    return await asyncio.to_thread(function, *arguments)


async def rows_of(chat: str) -> dict[str, Message]:
    """All stored messages of a chat, by id."""
    from open_webui.models.chats import Chats  # here, so that the file loads anywhere

    return await called(Chats.get_messages_map_by_chat_id, chat) or {}


async def show_in_open_webui(chat: str, message_id: str, summary: str) -> None:
    """Stores a summary where Open WebUI's own compaction does: on the first message that it does not cover."""
    from open_webui.models.chats import Chats

    if (await rows_of(chat)).get(message_id, {}).get("contextSummary") != summary:
        await called(Chats.upsert_message_to_chat_by_id_and_message_id, chat, message_id, {"contextSummary": summary})


def hashed(*parts: str) -> str:
    """A hash of some texts in their order."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def compactor_of(body: Message, head: Sequence[Message]) -> str | None:
    """Who else compresses this request: Open WebUI has done it, or the provider is asked to."""
    _, mark, theirs = "\n".join(map(text_of, head)).partition(OWN_COMPACTION)
    if mark and not theirs.lstrip().startswith(SUMMARY):  # Open WebUI may show ours there: `write_context_summary`
        return "open-webui"
    asked = "middle-out" in (body.get("transforms") or ()) or body.get("truncation") == "auto"
    return "provider" if asked or body.get("context_management") else None


def leading(messages: Sequence[Message]) -> list[Message]:
    """The system messages that a request begins with."""
    end = next((i for i, m in enumerate(messages) if m.get("role") not in ("system", "developer")), len(messages))
    return list(messages[:end])


def opening(messages: Sequence[Message]) -> list[Message]:
    """The same, and our record with what the model says to it: they stay where they are."""
    end = len(leading(messages))
    record, noted = [*map(text_of, messages[end : end + 2]), "", ""][:2]
    return list(messages[: end + 2 * (record.startswith(SUMMARY) and noted == NOTED)])


def merged(messages: list[Message]) -> list[Message]:
    """With one leading system message, as many chat templates want it. Open WebUI itself merges them since 0.8."""
    misc, head = sys.modules.get("open_webui.utils.misc"), leading(messages)
    if misc is None or hasattr(misc, "merge_system_messages") or len(head) < 2:
        return messages
    return [{**head[0], "content": "\n".join(map(text_of, head))}, *messages[len(head) :]]


def is_question(message: Mapping[str, Any]) -> bool:
    """Whether a user wrote it."""
    return message.get("role") == "user" and not text_of(message).startswith(TOOL_IMAGES)


def is_summary(message: Mapping[str, Any]) -> bool:
    """Whether it is a summary of ours."""
    return text_of(message).startswith(SUMMARY)


def newest_turn(messages: Sequence[Message]) -> int:
    """Where the newest question stands; at the end when there is none."""
    return max((i for i, m in enumerate(messages) if is_question(m)), default=len(messages))


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, its text parts joined, without Open WebUI's list of attached files."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(p.get("text") or "") for p in content if isinstance(p, dict) and p.get("type") == "text")
    if not isinstance(content, str):
        return ""
    return content.partition("</attached_files>\n\n")[2] if content.startswith("<attached_files>") else content


def images_in(message: Mapping[str, Any]) -> int:
    """How many images a native message has."""
    content = message.get("content")
    return sum(p.get("type") == "image_url" for p in content if isinstance(p, dict)) if isinstance(content, list) else 0


def size_of(message: Mapping[str, Any]) -> int:
    """Characters of a message, stored or native; of output items with what is written around them; images as 2000."""
    extra = message.get("output") or message.get("tool_calls")
    if extra:
        return len(str(extra)) + len(text_of(message)) * ("output" not in message)
    content = message.get("content")
    return len(content) if type(content) is str else len(text_of(message)) + 2000 * images_in(message)


def tokens_in(text: str) -> int:
    """What a text costs at most with the usual tokenizers; English prose costs 3/4 of that, base64 as much as that."""
    raw, cost, rest = text.encode("utf-8", "replace"), 4.0, 0
    for some, price in ASCII_COSTS:
        count = len(raw) - len(raw.translate(None, some))
        cost, rest = cost + count * price, rest + count
    if not text.isascii():
        for first, end, price in OTHER_COSTS:
            cost += price * (len(raw) - len(raw.translate(None, bytes(range(first, end)))))
        raw = raw.translate(None, bytes(range(128, 256)))
    return int(cost + 0.65 * (len(raw) - rest))


def tokens_of(message: Mapping[str, Any], density: float = 1.0) -> int:
    """An estimate for one native message; an image counts as Open WebUI counts it, whatever the `density` of texts."""
    calls = message.get("tool_calls")
    return int(tokens_in(text_of(message) + (str(calls) if calls else "")) * density) + 1000 * images_in(message)


def density_of(messages: Sequence[Message], path: Sequence[Node], answer: Mapping[str, Any], counted: int) -> float:
    """What the service counts for a text, by what is estimated here; 1 when it has not counted nearly all of the chat.

    It guesses the size of what it does not have: the question and, of a chat without ids, the answer before it.
    """
    known = [node.id == answer.get("known") for node in path[:-4:-1]]
    older = messages[: newest_turn(messages)]
    older = older[: newest_turn(older) + 1] if known[2:] == [True] else older
    texts, images = sum(map(tokens_of, older)), 1000 * sum(map(images_in, older))
    if texts <= images or True not in known:
        return 1.0
    guessed = sum(node.size for node in path[-max(known.index(True), 1) :]) // 4
    return min(max((counted - guessed - images) / (texts - images), 0.7), 2.0)


def tokens_of_tools(body: Mapping[str, Any]) -> int:
    """An estimate for the specifications of the tools in a request."""
    return tokens_in(json.dumps(body["tools"])) * 3 // 4 if body.get("tools") else 0  # words, mostly


def view_of(messages: Sequence[Message]) -> str:
    """A hash of what was said, tool calls aside: the same for stored messages and for the native list of them."""
    return hashed(*(text for m in messages if m.get("role") in ("user", "assistant") and (text := text_of(m))))


def branch(rows: Mapping[str, Message], leaf: Any) -> list[Message]:  # noqa: ANN401 - as Open WebUI has it
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
        fingerprint = hashed(json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":")))
        identity = m.get("id") or hashed(above, fingerprint)
        above = hashed(above, identity, fingerprint)
        nodes.append(Node(identity, str(m.get("role")), text_of(m), fingerprint, above, size_of(m)))
    return nodes


def fold(messages: Sequence[Message]) -> list[Message]:
    """A native list up to its last question as Open WebUI would store it: one message for an answer and its tools."""
    folded: list[Message] = []
    for m in messages[: newest_turn(messages) + 1]:
        text, output = text_of(m), []
        if m.get("role") == "tool":
            item = {"type": "function_call_output", "call_id": m.get("tool_call_id"), "status": "completed"}
            output.append(item | {"output": [{"type": "input_text", "text": text}]})
        elif m.get("role") != "assistant":
            if is_question(m) or m.get("role") != "user":
                folded.append({"role": m.get("role"), "content": text})
            continue
        elif text:
            output.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        for call in m.get("tool_calls") or ():
            function = {key: call["function"].get(key) for key in ("name", "arguments")}
            output.append({"type": "function_call", "call_id": call.get("id"), "status": "completed"} | function)
        if folded and folded[-1]["role"] == "assistant":
            folded[-1]["output"] += output
        else:
            folded.append({"role": "assistant", "content": "", "output": output})
    return folded


def named(files: object) -> list[Message]:
    """The names and kinds of files."""
    some = [file for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    return [{key: file[key] for key in ("type", "name", "content_type") if file.get(key)} for file in some]


def slices(path: Sequence[Node], start: int) -> list[tuple[int, int]]:
    """The branch from `start` on in uploads of bounded size, as (begin, end)."""
    cuts, size = [start], 0
    for place in range(start, len(path)):
        if size + path[place].size > SLICE and place > cuts[-1]:
            cuts.append(place)
            size = 0
        size += path[place].size + 1000
    return list(zip(cuts, [*cuts[1:], len(path)], strict=True))


def splice(
    messages: Sequence[Message], path: Sequence[Node], answer: Mapping[str, Any], guided: bool
) -> list[Message] | None:
    """Base system messages, summary, and the tail from the first uncovered user message on; None when that is unsafe.

    `messages` has no ids, and one stored answer may stand there as many messages. But each stored user message stands
    there once, so the tail is found by counting user messages from the end, and checked by their texts.
    """
    place = next((i for i, node in enumerate(path) if node.id == answer["covered_until"]), None)
    if place is None or path[place].digest != answer["covered_digest"]:
        return None
    tail, summary, record = path[place + 1 :], answer.get("summary") or "", answer.get("record") or ""
    sound = isinstance(summary, str) and isinstance(record, str) and (record or summary).startswith(SUMMARY)
    if not tail or tail[0].role != "user" or not sound:
        return None
    texts = [node.text for node in path if node.role == "user"][::-1]
    kept = sum(node.role == "user" for node in tail)
    shown = [i for i, m in enumerate(messages) if is_question(m)][::-1]

    def fits(shown: Sequence[int], first: int = 0) -> bool:
        pairs = list(zip(texts, shown, strict=False))[first : kept + 1]
        return len(shown) >= kept and all(text in text_of(messages[i]) for text, i in pairs)

    # The instruction of a guided regeneration is stored nowhere. Only 0.12 tells of it; else it is one question more.
    if guided or (len(shown) > len(texts) and fits(shown[1:])):
        shown = shown[1:]
    # An earlier filter may have edited the newest one; the other kept ones, and one above them, must be as stored.
    if not fits(shown, 1 if len(texts) > 1 else 0):
        return None
    base = leading(messages)
    if base and OWN_COMPACTION in text_of(base[0]):  # ours, as `show_in_open_webui` stored it
        prompt = text_of(base[0]).partition(OWN_COMPACTION)[0].rstrip()
        base = [{**base[0], "content": prompt}] if prompt else []
    ours = [{"role": "system", "content": summary}] if summary else []
    if record:
        ours += [{"role": "user", "content": record}, {"role": "assistant", "content": NOTED}]
    return [*base, *ours, *messages[shown[kept - 1] :]]


def results_of(messages: Sequence[Message]) -> list[int]:
    """Where the tool results of the running turn stand."""
    return [i for i in range(newest_turn(messages), len(messages)) if messages[i].get("role") == "tool"]


def relieve(messages: Sequence[Message], excess: int, read: int) -> tuple[list[Message], int]:
    """The list with the oldest tool results of the running turn as notes, to save `excess` tokens, and their number.

    Never those of the latest step, which the model is about to read: what comes after the first `read` results and the
    last tool call (0.11 gathers all calls of a turn in one message).
    """
    out, count = list(messages), 0
    called_at = max((i for i, m in enumerate(out) if m.get("tool_calls")), default=0)
    calls = {call.get("id"): call.get("function") or {} for m in out for call in m.get("tool_calls") or ()}
    for place, i in enumerate(results_of(out)):
        text, function = text_of(out[i]), calls.get(out[i].get("tool_call_id"), {})
        if excess > 0 and len(text) > 1000 and (i < called_at or place < read):
            name = f"{function.get('name')}({function.get('arguments')})"[:200]
            note = OLD_RESULT.format(name, len(text), text.count("\n") + 1, text[:200])
            excess -= tokens_in(text) - tokens_in(note)
            out[i], count = {**out[i], "content": note}, count + 1
    return out, count


def truncate(messages: Sequence[Message], excess: int, density: float) -> tuple[list[Message], int]:
    """The list without its oldest turns, to save `excess` tokens, and how many messages that are.

    What a request opens with and the newest turn stay. If that is not enough, the longest texts that are left lose
    their middle.
    """
    head, systems = opening(messages), len(leading(messages))
    at, excess = len(head), excess + tokens_in(LEFT_OUT)
    for start in [i for i, m in enumerate(messages) if is_question(m)]:
        if excess > 0 and start > at:
            excess -= sum(tokens_of(m, density) for m in messages[at:start])
            at = start
    rest = list(messages[at:])
    for i in sorted(range(len(rest)), key=lambda i: -len(text_of(rest[i]))):
        text = cut = text_of(rest[i])
        cost, keep = tokens_in(text), len(text)
        while excess > cost - tokens_in(cut) and keep > 300:
            keep = keep * 3 // 4
            cut = text[: keep * 2 // 3] + SHORTENED.format(len(text) - keep) + text[-keep // 3 :]
        if excess > 0 and len(cut) < len(text):
            content = rest[i]["content"]
            others = [p for p in content if p.get("type") != "text"] if isinstance(content, list) else []
            rest[i] = {**rest[i], "content": [{"type": "text", "text": cut}, *others] if others else cut}
            excess -= cost - tokens_in(cut)
    left_out = at - len(head)
    note = [{"role": "system", "content": LEFT_OUT}] if left_out and LEFT_OUT not in map(text_of, head) else []
    return [*head[:systems], *note, *head[systems:], *rest], left_out
