"""
title: Precis
author: The Precis authors
description: Keeps long chats inside the model's window with summaries made in the background.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# inlet:   offers the tool that looks up what a summary covers.
# request: before each model call of a turn, describes the request to the Precis service, applies
#          the edit that it proposes, and keeps what is sent inside the model's window.
# outlet:  hands the new messages over to the service, without making anybody wait.
# Whatever goes wrong, the request goes on as Open WebUI built it, and never larger than the window.

import asyncio
import hashlib
import json
import logging
import re
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from pydantic import BaseModel, Field

log = logging.getLogger("precis")

VERSION = "1.0.0"
HOOKED = (0, 11, 2)  # Open WebUI calls `request` from this version on; before, inlet does its work
PAIRS = 16  # newest messages of the path that are described at first
SLICE = 300  # messages in one upload; the first one of a long chat takes several
REFUSED = (400, 413, 422)  # then a message is sent as a text of so many characters:
LONGEST = 20_000
REMEMBERED = 200  # chats whose last answers are kept in memory
FAILURES, PAUSE = 3, 5.0  # after so many in a row, one request in so many seconds asks it
LONGEST_WAIT = 5.0  # seconds for a summary, however long a request may wait
SETTLED = ("not_needed", "pending")  # answers for which more of the path changes nothing
WINDOW = 131_072  # tokens of a model that nobody knows anything about
UNASKED_WINDOW = 4096  # of one of which the service was not asked yet: it may be small
SHORT = 600  # characters that are left of an old tool result
TEMPORARY = ("temporary:", "local:")
KEY_MISSING = "urn:precis:problem:key-missing"  # of one process, for some chats: no outage
# Before the summary of Open WebUI's own compaction, behind the prompt if there is one.
OWN_COMPACTION = re.compile(r"^\[CONVERSATION SUMMARY\]\n", re.MULTILINE)
SUMMARY = "[Previous conversation summary: "  # ours
TOOL_IMAGES = "Here are the images from the tool results above."  # which no user wrote
NOTED = "Noted: that is what was said before, and no instruction."  # the model's answer to a record
COMPACTED = "Context compacted by Open WebUI itself"
LEFT_OUT = "[Older messages were left out here: they do not fit into the model's window.]"
SHORTENED = "\n[… {} characters were left out here: they do not fit into the model's window …]\n"
RECALL = "precis_recall"  # the tool that looks up what the model does not see, and its id
OFFERED = 'Older text and full tool results: precis_recall(query="…") or precis_recall(ref="T12").'
PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")  # an id that the service takes
PICTURE = re.compile(r"'type': '(?:input_image|image_url)'[^}]*")  # in results of tools
FILE = ("name", "content_type")  # sent of a file; of a message:
HANDED = ("role", "content", "output", "native", "usage", "error", "timestamp")
REASONING = ("thinking", "reasoning_content", "reasoning_details")  # which 0.12 sends again
NATIVE = ("role", "content", "tool_calls", "tool_call_id")
# Tokens per byte in the mean (ADR 7): the rarer, the more; of other scripts the first byte pays.
COSTS = (
    (b" abcdefghilmnoprstu", 0.15),
    (bytes(range(0x80, 0xC2)), 0),
    (b"\t\r\nABCDEFGHILMNOPRSTU", 0.3),
    (b"0123456789\xe3\xea\xeb\xec\xed", 0.7),
    (b"jkqvwxyzJKQVWXYZ\xc2\xc3", 1.1),
    (bytes([*range(0xC4, 0xCC), *range(0xD0, 0xD5)]), 0.3),
    (bytes([*range(0xCC, 0xD0), *range(0xD5, 0xE1)]), 0.38),
    (b"\xe4\xe5\xe6\xe7\xe8\xe9\xef", 0.82),
    (b"\xe1\xe2\xf0\xf1\xf2\xf3\xf4", 1.9),
)
# Vietnamese letters cost as Latin ones do, and Thai ones more than others of their first byte.
ALIKE = {b"\xe1\xba": b"\xc6", b"\xe1\xbb": b"\xc6", b"\xe0\xb8": b"~", b"\xe0\xb9": b"~"}
LEAST = 0.7  # tokens that an estimated one is at least
MORE = 1.18  # and what one may be that the service has not counted
# Past the proxy of the environment, which would see key and texts, but with its certificates.
DIRECT = {"all://": None, "http://": None, "https://": None}
STASH = "precis"  # our key in the metadata, which Open WebUI carries from hook to hook

# Texts of the valves.
TEMPORARY_HOURS = "Hours that Precis keeps temporary chats; 0: they are never sent to it."
OFFER_RECALL = "Let the model look up what a summary covers, if the tool is installed."
COMPRESS = "Send my chats to Precis, and its summaries for their earlier part to the model."

Message = dict[str, Any]
Given = dict[str, Any] | None  # nothing for some clients
Emitter = Callable[[Message], Awaitable[None]] | None


class Node(NamedTuple):
    """One message of the branch. Equal digests mean: everything up to here is equal."""

    id: str
    role: str
    words: str  # a hash of a user's text
    digest: str
    message: Message  # as it is sent


@dataclass
class Request:
    """What is known of one request. Open WebUI's metadata carry its fields from hook to hook."""

    chat: str
    user: str | None
    model: str
    windows: list[int]  # what is told of the model's window, the most trusted first
    window: int
    reply: str | None = None  # the id of the answer
    guided: bool = False  # the newest question is an instruction, and is not stored
    begun: float = 0.0
    known: str | None = ""  # the newest message that the service has; "": it has not answered
    served: int = 0  # checkpoint, 0 for none
    is_whole: bool = True  # all of the branch, and no more, is what the usage counts
    excess: int | None = None  # tokens too many by the service's account, of a request that is
    estimate: int = 0  # estimated so here
    density: float = MORE  # what the service counts, by what is estimated here
    wanted: int = 0  # tokens that are asked for the answer
    prompt: int = 0  # estimated tokens of the workspace model's prompt, which no hook sees
    beside: int | None = None  # and of all that goes beside the branch, once a request was seen
    asked: list[Message] = field(default_factory=list)  # the newest question, as inlet had it
    calls: int = 0  # of the model in this turn; all but the first begin with what that was sent:
    before: int = 0  # messages that were left out for the first
    compactor: str | None = None
    expires_in: int | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)  # of the branch; for `RECALL`,
    offered: bool = False  # which the model may call,
    recalls: int = 0  # and has called so often
    left_out: int = 0  # messages
    cut: str = ""  # what was taken away, for the status line
    status: str = ""
    told: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(16))  # in Precis' logs
    sent: bool = True  # what the user set: Precis may have the chat,
    shown: bool = True  # and the status line is shown
    user_name: str | None = None  # for operators, and the chat's
    title: str | None = None


class Filter:
    """What Open WebUI calls: one object for all requests."""

    class Valves(BaseModel):
        """What an admin sets in Open WebUI."""

        service_url: str = Field("http://127.0.0.1:8377", description="Address of Precis.")
        api_key: str = Field(
            "",
            description="Key with scope `filter`.",
            json_schema_extra={"input": {"type": "password"}},
        )
        timeout: float = Field(0.8, gt=0, description="Seconds that a request may wait for Precis.")
        skip_below_chars: int = Field(24_000, ge=0, description="Shorter chats are left alone.")
        temporary_hours: int = Field(0, ge=0, le=8760, description=TEMPORARY_HOURS)
        api_days: int = Field(30, ge=1, le=3650, description="Days to keep API clients' chats.")
        show_status: bool = Field(True, description="Show above the answer what was changed.")
        offer_recall: bool = Field(True, description=OFFER_RECALL)
        priority: int = Field(100, description="Filters run in rising order; last is best.")

    class UserValves(BaseModel):
        """What each user sets for their own chats."""

        compress: bool = Field(True, description=COMPRESS)
        show_status: bool = Field(True, description="Show above the answer what was changed.")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._http: httpx.AsyncClient | None = None
        self._in_background: set[asyncio.Task[Any]] = set()  # keeps the tasks alive
        self._failures, self._again_at = 0, 0.0
        self._windows: dict[str, int] = {}  # of models of which only the service knows it
        self._last: dict[tuple[str, str], Message] = {}  # answers, by chat and model

    async def inlet(
        self,
        body: Message,
        __metadata__: Given = None,
        __user__: Given = None,
        __model__: Given = None,
        __event_emitter__: Emitter = None,
    ) -> Message:
        """Offers the tool of recall, which only here can be added to a request."""
        with unharmed("a request goes on unchanged or without a status"):
            metadata = __metadata__ or body.get("metadata") or {}
            request = self._request(body, metadata, __model__, __user__)
            if self._concerned(body["messages"], request):
                with unharmed("nothing can be looked up in a turn"):
                    await self._offer(body, metadata, request)
                if running_version() < HOOKED:
                    await self._work(body, metadata, request, __event_emitter__)
        return body

    async def request(
        self,
        body: Message,
        __metadata__: Given = None,
        __user__: Given = None,
        __model__: Given = None,
        __event_emitter__: Emitter = None,
    ) -> Message:
        """Edits each model call of a turn, with all that Open WebUI has added to it."""
        with unharmed("a model call goes on unchanged or without a status"):
            metadata = __metadata__ or body.get("metadata") or {}
            request = self._request(body, metadata, __model__, __user__)
            if self._concerned(body["messages"], request):
                await self._work(body, metadata, request, __event_emitter__)
        return body

    async def outlet(
        self,
        body: Message,
        __metadata__: Given = None,
        __user__: Given = None,
        __model__: Given = None,
    ) -> Message:
        """Sends the branch of a saved chat to the service in the background."""
        with unharmed("a reply was not sent to Precis"):
            user, metadata = __user__ or {}, __metadata__ or {}
            if body.get("precis_check") is True and user.get("role") == "admin":
                body["precis_check"] = await self._check()
            elif STASH in metadata:  # else a client reports messages of its own
                request = self._request(body, metadata, __model__, user)
                if request.sent and saved(request.chat) and request.chat == body.get("chat_id"):
                    self._later(self._take, metadata, request)
        return body

    async def _check(self) -> object:
        """Who answers, for `precis install-filter`, which asks after changing the valves."""
        self._failures = 0
        try:
            return answer_in(await self.send("GET", "filter", None, 5.0))
        except Exception as error:
            return {"error": repr(error)}

    def _request(self, body: Message, metadata: Message, model: Given, user: Given) -> Request:
        stored = metadata.get(STASH)
        if isinstance(stored, dict):
            request = Request(**stored)
            request.__dict__ = stored  # Open WebUI may copy the metadata, but not what is in them
            return request
        chat, user_id = metadata.get("chat_id") or "", metadata.get("user_id")
        model = model or {}
        windows, name = windows_told(body, model), str(body.get("model"))
        own = self._windows.get(name, WINDOW)
        window = next((size for size in windows if size >= 2048), own)
        request = Request(chat, user_id, name, windows, window, metadata.get("message_id"))
        request.guided = bool(metadata.get("regeneration_message_id"))
        wanted = (user or {}).get("valves")  # Open WebUI makes them of `UserValves`
        request.sent = getattr(wanted, "compress", True)
        request.shown = getattr(wanted, "show_status", True)
        request.user_name = name_of(user)
        request.prompt = tokens_in(str(params_of(model).get("system") or ""))
        messages = body.get("messages") or []
        request.asked = grouped(messages[newest_turn(messages) :][:1])
        metadata[STASH] = vars(request)  # plain values
        return request

    def _concerned(self, messages: list[Message], request: Request) -> bool:
        """Whether the chat may be too long. A token is hardly less than half a character."""
        is_known = request.windows or request.model in self._windows
        window = request.window if is_known or not saved(request.chat) else UNASKED_WINDOW
        least = min(self.valves.skip_below_chars, window // 2)
        in_channel = str(request.chat).startswith("channel:")
        # What inlet found too long is: outlet is shown no pictures.
        return not in_channel and (request.begun > 0 or sum(map(size_of, messages)) >= least)

    def _left(self, request: Request, share: float) -> float:
        """Seconds that are left of this share of what a request may wait."""
        return request.begun + self.valves.timeout * share - time.monotonic()

    async def _tell(self, request: Request, emitter: Emitter) -> None:
        """Shows the status line, if it says anything new: each is a write to the whole chat."""
        # Behind the colon stand sizes, which are others once something was cut.
        status = request.status.partition(":")[0] if request.cut else request.status
        line = "; ".join(part for part in (status, request.cut) if part)
        is_shown = self.valves.show_status and request.shown
        if line and line != request.told and is_shown and emitter:
            shown = line[0].upper() + line[1:]
            await emitter({"type": "status", "data": {"description": shown, "done": True}})
            request.told = line

    async def _work(
        self, body: Message, metadata: Message, request: Request, emitter: Emitter
    ) -> None:
        """Puts the stored summary in place of what it covers, and keeps to the window.

        A later call of the turn keeps what is there, unless it is too large without any of that.
        """
        request.begun = time.monotonic()
        request.wanted, request.beside = wanted_by(body), beside_of(body, request)
        messages = body["messages"]
        is_edited = request.cut or opening(messages) != leading(messages)
        stays = request.calls and (is_edited or self._excess(body, request) <= 0)
        if request.sent and not stays:
            with unharmed("a request goes on without a summary"):
                async with asyncio.timeout(self._left(request, 0.9)):  # the rest: status
                    await self._compress(body, metadata, request)
        self._fit(body, request)
        if not request.calls:
            if newest_turn(body["messages"]) + 1 < len(body["messages"]):
                request.is_whole = False  # it has the beginning of an answer that goes on
            request.before = request.left_out
            # What comes later is weighed on top of what is left.
            excess, estimate = self._excess(body, request), estimate_of(body, request)
            request.excess, request.estimate = excess, estimate
        request.calls += 1
        async with asyncio.timeout(self._left(request, 1.0)):
            await self._tell(request, emitter)

    async def _compress(self, body: Message, metadata: Message, request: Request) -> None:
        """Asks for the branch's summary, and puts it in; without one, what is there stays."""
        path = await self._path(body, metadata, request)
        if is_compacted(body["messages"], path, request):
            request.compactor, request.status, request.is_whole = "open-webui", COMPACTED, False
        elif path:
            await self._edit(body, path, request)

    async def _edit(self, body: Message, path: list[Node], request: Request) -> None:
        """Makes the edit that the service proposes.

        Where that is not enough, it first gets what it may miss: code writes a summary in less time
        than most requests may wait.
        """
        request.pairs = [(node.id, node.digest) for node in path[::-1][:PAIRS]]
        whole = body["messages"]
        try:
            answer = await self._ask(whole, path, request)
        except Exception as error:  # while it is away, the last answer may still fit this branch
            log.warning("precis: the service did not answer: %r", error)
            answer = self._last.get((request.chat, request.model), {"status": "unknown"})
            text = str(answer.get("status_text")).partition(":")[0]  # without that request's sizes
            self._put_in(answer | {"status_text": text}, body, path, request)
            return
        self._apply(answer, body, path, request)
        is_tight = self._excess(body, request) > 0
        if not (is_tight or request.expires_in):
            return
        ingesting = self._later(self._ingest, path, request)  # what outlet may never see
        if is_tight:
            done, _ = await asyncio.wait([ingesting], timeout=self._left(request, 0.8))
            if done:
                wait = min(max(self._left(request, 0.8), 0.0), LONGEST_WAIT)
                answer = await self._ask(whole, path, request, wait)
                body["messages"] = whole
                self._apply(answer, body, path, request)

    async def _offer(self, body: Message, metadata: Message, request: Request) -> None:
        """Lets the model look up what it does not see, where Open WebUI runs tools for it."""
        from open_webui.models.tools import Tools  # here, so that the file loads anywhere

        is_kept = self.valves.temporary_hours or not str(request.chat).startswith(TEMPORARY)
        wanted = self.valves.offer_recall and request.sent and is_kept and request.reply
        is_possible = not body.get("tools") and calls_natively(metadata)
        if wanted and is_possible and await Tools.get_tool_by_id(RECALL):
            request.offered = True
            body["tool_ids"] = [*dict.fromkeys([*(body.get("tool_ids") or []), RECALL])]

    async def ingest_again(self, stash: Message) -> bool:
        """Sends a branch from its root on, because texts of it are not kept; for `RECALL`."""
        request = Request(**stash)
        if not (saved(request.chat) and request.pairs):
            return False
        rows = branch(await rows_of(request.chat), request.pairs[0][0])
        request.known, request.beside, request.is_whole = None, None, False  # this is no turn
        await self._ingest(await asyncio.to_thread(chain, rows), request)
        return True

    async def branch_of(self, chat: str, message: str) -> list[Node]:
        """The branch down to a message; for `precis_action`."""
        rows = await rows_of(chat)
        return await asyncio.to_thread(chain, branch(rows, identity_of(message)))

    def _apply(self, answer: Message, body: Message, path: list[Node], request: Request) -> None:
        """Makes the edit of an answer, and takes over the service's account of the request."""
        request.window = answer.get("window") or request.window
        if not request.windows:
            self._windows[request.model] = request.window
        if answer["status"] == "unknown":
            return
        sizes = answer["tokens"]
        most = sizes["after"] - answer["excess"]  # that the request may have
        counted = sizes["after" if self._put_in(answer, body, path, request) else "before"]
        estimate = estimate_of(body, request)
        # Another filter may have added what the service knows nothing of.
        counted = max(counted, int(estimate * LEAST))
        request.excess, request.estimate = counted - most, estimate
        # Never above 1: what is cut saves no more than is sure.
        request.density = min(counted / max(estimate, 1), 1.0)

    def _put_in(self, answer: Message, body: Message, path: list[Node], request: Request) -> bool:
        """Makes the edit of an answer, if there is one. One that does not fit changes nothing."""
        if answer["status"] != "ready":
            return False
        checkpoint, changed = int(answer["checkpoint_id"]), edited(body["messages"], path, answer)
        if changed is None:
            log.warning("precis: summary %s does not fit a request of %s", checkpoint, request.chat)
            return False
        body["messages"], request.served = changed, checkpoint
        request.pairs.append((answer["covered_until"], answer["covered_digest"]))
        request.status = str(answer.get("status_text") or "")
        return True

    async def _path(self, body: Message, metadata: Message, request: Request) -> list[Node]:
        """The branch up to the question; empty when it may not be sent."""
        if not saved(request.chat):
            return await self._path_without_ids(body, request)
        if not await is_of(request.chat, request.user):
            return []
        rows = await rows_of(request.chat)
        answer = rows.get(identity_of(metadata.get("message_id")), {})
        leaf = identity_of(metadata.get("user_message_id") or answer.get("parentId"))
        path = await asyncio.to_thread(chain, branch(rows, leaf))
        if path or leaf:
            return path
        return await self._path_without_ids(body, request)  # an API client that names no question

    async def _path_without_ids(self, body: Message, request: Request) -> list[Node]:
        """The list itself as a branch, for a chat that is kept under what it begins with."""
        head = leading(body["messages"])
        temporary = str(request.chat).startswith(TEMPORARY)
        hours = self.valves.temporary_hours if temporary else self.valves.api_days * 24
        earlier = body["messages"][len(head) : newest_turn(body["messages"])]
        groups = [*grouped(earlier), *request.asked]
        first = next((group["content"] for group in groups if group["role"] == "user"), "")
        if not (hours and first and request.user):
            return []
        request.chat = f"content:{hashed(request.user, first)}"
        request.expires_in = request.expires_in or hours * 3600
        return await asyncio.to_thread(chain, groups)

    async def _ask(
        self,
        messages: list[Message],
        path: list[Node],
        request: Request,
        wait: float | None = None,
    ) -> Message:
        """What the service has for this branch. It may need more than is sent at first."""
        room = request.window - min(request.wanted, request.window // 2)
        running = sum(map(tokens_of, messages[newest_turn(messages) + 1 :]))
        question: Message = {
            "model": request.model,
            "user_id": request.user,
            "windows": request.windows,
            "beside": (request.beside or 0) + running,
            "running": running,
            "room": room if request.wanted else None,
            "depth": len(path),
            "wait": wait,
        }
        told = {"guided": request.guided, "recall": request.offered}
        url = f"chats/{quote(request.chat, safe='')}/context"
        key = (request.chat, request.model)
        last = self._last.get(key, {})
        # They have to reach where a summary ends: the service keeps no digest as it is.
        covered = last.get("covered_messages") or len(path)
        fewest = max(PAIRS, len(path) - covered + 1)
        for shown in sorted({min(fewest, len(path)), len(path)}):
            newest = path[::-1][:shown]
            question["path"] = [(node.id, node.digest) for node in newest]
            question["sizes"] = [tokens_of(node.message) for node in newest]
            question["native"] = described(messages, path, shown) | told
            # Ends before the hook's own deadline, so that silence is a failure, and a Stop is not.
            sent = await self.send("POST", url, question, self._left(request, 0.85), request.id)
            answer: Message = answer_in(sent)
            if answer["status"] in SETTLED or answer.get("covered_digest"):
                break
        request.known = answer.get("known")
        self._last.pop(key, None)  # so that it is the newest
        self._last[key] = answer
        if len(self._last) > REMEMBERED:
            del self._last[next(iter(self._last))]
        return answer

    async def _take(self, metadata: Message, request: Request) -> None:
        """Sends the branch of a turn as it is stored, if it is long and its user's."""
        if not await is_of(request.chat, request.user):
            return
        rows = await rows_of(request.chat)
        path = branch(rows, identity_of(metadata.get("message_id")))
        if not path:  # by a client that keeps the chat itself: what is there of it
            path = branch(rows, identity_of(metadata.get("user_message_id")))
        with unharmed("a chat is sent without its title"):
            request.title = await title_of(request.chat)
        if path and self._concerned(path, request):
            await self._ingest(await asyncio.to_thread(chain, path), request)

    async def _ingest(self, path: list[Node], request: Request) -> None:
        """Sends what follows the newest message that the service has, or the whole branch."""
        start, most = first_to_send(path, request), SLICE
        again = not start
        while start < len(path):
            end = min(start + max(most, 1), len(path))
            answer = await self._put(path, start, end, request, as_text=not most)
            if answer.is_success:
                start, most = end, SLICE
            elif answer.status_code in REFUSED and most:
                most = (end - start) // 2  # down to the message that it is about, and to its text
            elif answer.status_code == 409 and not again:
                start, again = 0, True  # the service misses something above: from the root on
            else:
                if answer.status_code not in (409, 410):  # 410: it was deleted
                    log.warning("precis: messages were not taken: %s", refusal(answer))
                return
        request.known = path[-1].id

    async def _put(
        self, path: list[Node], start: int, end: int, request: Request, *, as_text: bool
    ) -> httpx.Response:
        """Sends a part of a branch."""
        messages = [node.message for node in path[start:end]]
        is_last = end == len(path)
        is_told = is_last and request.is_whole and not has_summed_usage(messages[-1])
        is_answered = is_last and path[-1].role == "assistant"
        transcript = {
            "model": request.model,
            "user_id": request.user or request.chat,
            "user_name": request.user_name,
            "title": request.title,
            "windows": request.windows,
            "expires_in": request.expires_in,
            "compactor": request.compactor,
            "beside": request.beside,
            "after": (path[start - 1].id, path[start - 1].digest) if start else None,
            "served": request.served if is_told else None,
            "outcome": outcome_of(request) if is_answered else None,
            "messages": list(map(text_alone, messages)) if as_text else messages,
        }
        url = f"chats/{quote(request.chat, safe='')}/transcript"
        return await self.send("PUT", url, transcript, 30.0, request.id)

    async def send(
        self, method: str, path: str, payload: object, seconds: float, request_id: str = ""
    ) -> httpx.Response:
        """One request to the service, whatever it answers; also of `precis_action` and `RECALL`."""
        if self._failures >= FAILURES and time.monotonic() < self._again_at:
            raise ConnectionError("after failures in a row the service is left alone for a while")
        self._again_at = time.monotonic() + PAUSE
        self._http = self._http or httpx.AsyncClient(mounts=DIRECT)
        # An error about a stray line end or a typographic quote would show the key in the log.
        key = "".join(character for character in self.valves.api_key if "!" <= character <= "~")
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        headers |= {"Precis-Filter": VERSION, "X-Request-ID": request_id}
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
        down = response.status_code >= 500 and KEY_MISSING not in response.text
        self._failures = self._failures + 1 if down else 0
        return response

    def _later(self, work: Callable[..., Awaitable[Any]], *given: object) -> asyncio.Task[Any]:
        async def quietly() -> None:
            with unharmed("work in the background failed, the next turn does it again"):
                await work(*given)

        task = asyncio.create_task(quietly())
        self._in_background.add(task)
        task.add_done_callback(self._in_background.discard)
        return task

    def _excess(self, body: Message, request: Request) -> int:
        """Tokens that a request has too much; what nobody has counted may be `MORE`."""
        more = estimate_of(body, request) - request.estimate
        excess = request.excess
        if excess is None:
            excess = min(request.wanted, request.window // 2) - request.window
        return excess + int(more * (MORE if more > 0 else request.density))

    def _fit(self, body: Message, request: Request) -> None:
        """Makes room in a request that is too large for the window."""
        note = f"{LEFT_OUT}\n{OFFERED}" if request.offered else LEFT_OUT
        if request.before:  # after a tool that is cited, Open WebUI 0.12 takes the note away
            body["messages"] = with_note(body["messages"], note)
        before = body["messages"]
        newest = newest_turn(before)
        if request.guided:  # the question that is answered again belongs to the instruction
            newest = newest_turn(before[:newest])
        excess, step = self._excess(body, request), request.window // 8
        if excess <= 0:
            return
        needed = int(excess / request.density)
        made, left_out, texts = shrunk(before, needed, newest, step, note)
        if made == before:
            return
        body["messages"] = made
        request.is_whole = False
        request.left_out = request.before + left_out
        request.cut = "shortened older tool results to make room"
        if request.left_out:
            request.cut = f"left out {request.left_out} older messages to make room"
        elif texts:
            request.cut = "left out parts of long messages to make room"


@contextmanager
def unharmed(what: str) -> Iterator[None]:
    """Logs any error in here, and suppresses it."""
    try:
        yield
    except Exception as error:
        log.warning("precis: %s: %r", what, error)


def has_summed_usage(answer: Message) -> bool:
    """Whether the usage of an answer is the sum of its calls, as 0.10 saves it."""
    return (0, 10) <= running_version() < (0, 11) and len(answer.get("output") or ()) > 1


def outcome_of(request: Request) -> str | None:
    """What became of the requests of this turn, in the service's words; None of no request."""
    if request.cut:
        return "truncated_with_summary" if request.status else "truncated"
    if request.status:
        return "compressed"
    return "unchanged" if request.calls else None


def saved(chat: object) -> bool:
    """Whether Open WebUI stores this chat."""
    elsewhere = (*TEMPORARY, "channel:", "content:")
    return isinstance(chat, str) and bool(chat) and not chat.startswith(elsewhere)


async def rows_of(chat: str) -> dict[str, Message]:
    """All stored messages of a chat, by `identity_of` their ids."""
    from open_webui.models.chats import Chats  # here, so that the file loads anywhere

    rows = await Chats.get_messages_map_by_chat_id(chat) or {}
    return {identity_of(identity): row for identity, row in rows.items()}


async def is_of(chat: str, user: str | None) -> bool:
    """Whether a chat is this user's: up to 0.10, Open WebUI lets anybody name any."""
    from open_webui.models.chats import Chats

    if running_version() >= (0, 11):
        return True
    return await Chats.get_chat_by_id_and_user_id(chat, user) is not None


def calls_natively(metadata: Message) -> bool:
    """Whether the model calls tools itself; the word `default` meant no up to 0.9, now yes."""
    calling = (metadata.get("params") or {}).get("function_calling")
    if calling in ("native", "legacy"):
        return bool(calling == "native")
    return running_version() >= (0, 10)


def running_version() -> tuple[int, ...]:
    """Open WebUI's version, its first three numbers."""
    version = getattr(sys.modules.get("open_webui.env"), "VERSION", "0")
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def answer_in(response: httpx.Response) -> Any:  # noqa: ANN401 - JSON
    """What the service answers, unless it refuses."""
    if response.is_error:
        raise ConnectionError(refusal(response))
    return response.json()


def refusal(response: httpx.Response) -> str:
    """Why the service refuses."""
    return f"the service says {response.status_code}: {response.text[:300]}"


def hashed(*parts: str) -> str:
    """A hash of some texts in their order."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def identity_of(given: object) -> str:
    """The id that a message has in the service: its own if that is plain; "" for none."""
    text = "" if given is None else str(given)
    return text if given is None or PLAIN.fullmatch(text) else hashed(text)


async def title_of(chat: str) -> str | None:
    """The title of a chat, as long as the service takes it."""
    from open_webui.models.chats import Chats

    return str(await Chats.get_chat_title_by_id(chat) or "")[:200] or None


def name_of(user: Given) -> str | None:
    """The name of a user, as long as the service takes it."""
    return str((user or {}).get("name") or "")[:200] or None


def params_of(model: Message) -> Message:
    """What an admin has set for a model."""
    params: Message = (model.get("info") or {}).get("params") or {}
    return params


def windows_told(body: Message, model: Message) -> list[int]:
    """Sizes given for the model's window, the most trusted first; the service chooses."""
    provider = model.get("openai") or {}
    told = (
        (body.get("options") or {}).get("num_ctx"),
        body.get("num_ctx"),
        params_of(model).get("num_ctx"),
        provider.get("max_model_len"),
        provider.get("context_length"),
        (provider.get("meta") or {}).get("n_ctx"),
    )
    return [size for size in told if type(size) is int]


def is_compacted(messages: list[Message], path: list[Node], request: Request) -> bool:
    """Whether Open WebUI itself has compressed a request.

    A prompt may mention its marker; but then all questions of a stored branch are there. Of a
    temporary chat, nothing else is known.
    """
    questions = sum(map(is_question, messages)) - request.guided
    stored = len(asked_in(path))
    temporary = request.expires_in and request.reply
    if stored and questions >= stored and not temporary:
        return False
    return any(OWN_COMPACTION.search(text_of(m)) for m in leading(messages))


def leading(messages: list[Message]) -> list[Message]:
    """The system messages that a request begins with."""
    others = (i for i, m in enumerate(messages) if m.get("role") not in ("system", "developer"))
    return messages[: next(others, len(messages))]


def opening(messages: list[Message]) -> list[Message]:
    """The same, and our record with what the model says to it: they stay where they are."""
    end = len(leading(messages))
    return messages[: end + 2] if is_record(messages[end : end + 2]) else messages[:end]


def is_record(messages: list[Message]) -> bool:
    """Whether these are a summary, in a user's place, and what the model says to it."""
    if [m.get("role") for m in messages] != ["user", "assistant"]:
        return False
    return text_of(messages[0]).startswith(SUMMARY) and text_of(messages[1]) == NOTED


def is_question(message: Message) -> bool:
    """Whether a user wrote it."""
    return message.get("role") == "user" and not text_of(message).startswith(TOOL_IMAGES)


def newest_turn(messages: list[Message]) -> int:
    """Where the newest question stands; at the end when there is none."""
    places = (i for i in reversed(range(len(messages))) if is_question(messages[i]))
    return next(places, len(messages))


def text_of(message: Message) -> str:
    """The text of a message, its parts joined, without Open WebUI's list of attached files."""
    content = whole_text_of(message)
    listed = content.startswith("<attached_files>")
    return content.partition("</attached_files>\n\n")[2] if listed else content


def whole_text_of(message: Message) -> str:
    """The same with that list."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (p for p in content if isinstance(p, dict) and p.get("type") == "text")
        return "".join(str(part.get("text") or "") for part in parts)
    return content if isinstance(content, str) else ""


def files_of(message: Message) -> list[Message]:
    """What a message, native or stored, has beside its text, without contents."""
    parts: list[Any] = []
    for given in (message.get("content"), message.get("files")):
        parts += given if isinstance(given, list) else []
    others = [part for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    return list(map(named, others))


def named(part: Message) -> Message:
    """The kind and the name of a file."""
    kind = {"type": str(part.get("type")).removesuffix("_url")}
    return {key: part[key] for key in FILE if part.get(key)} | kind


def images_in(message: Message) -> int:
    """How many images a message has."""
    return sum(file["type"] == "image" for file in files_of(message))


def size_of(message: Message) -> int:
    """Characters of a message, stored or native; images as 2000."""
    extra = message.get("output") or message.get("native") or message.get("tool_calls")
    if extra:  # what stands in `output` has the text too
        text = 0 if "output" in message else len(text_of(message))
        return len(str(extra)) + text
    content = message.get("content")
    if type(content) is str:
        return len(content)
    return len(text_of(message)) + 2000 * images_in(message)


def tokens_in(text: str) -> int:
    """What a text costs in the mean with the usual tokenizers."""
    raw = text.encode("utf-8", "replace")
    for begin, alike in ALIKE.items():
        if begin[0] in raw:
            raw = raw.replace(begin, alike)
    cost = 4.0
    for some, price in COSTS:
        rest = raw.translate(None, some)
        cost += (len(raw) - len(rest)) * price
        raw = rest
    return int(cost + 0.53 * len(raw))


def thought(message: Message) -> int:
    """An estimate for the reasoning in a native message; what is stored is counted without it."""
    return sum(tokens_in(str(message[key])) for key in REASONING if message.get(key))


def tokens_of(message: Message) -> int:
    """An estimate for a message, native or stored; images as Open WebUI counts them."""
    stored = message.get("output") or message.get("native")
    said = str(stored) if stored else text_of(message) + str(message.get("tool_calls") or "")
    text, pictures = PICTURE.subn("", said)
    return tokens_in(text) + 1000 * (pictures + images_in(message)) + thought(message)


def beside_of(body: Message, request: Request) -> int:
    """An estimate for what goes to the model beside the messages of the branch."""
    messages = body["messages"]
    newest = newest_turn(messages)
    counted = sum(map(tokens_of, leading(messages))) + sum(map(thought, messages))
    if request.guided:  # the old answer and the instruction
        question = newest_turn(messages[:newest])
        counted += sum(map(tokens_of, messages[question + 1 : newest + 1]))
    else:  # texts that Open WebUI has added to the question
        asked = sum(map(tokens_of, request.asked))
        counted += max(sum(map(tokens_of, messages[newest:][:1])) - asked, 0)
    return counted + request.prompt + tokens_of_tools(body)


def tokens_of_tools(body: Message) -> int:
    """An estimate for the specifications of the tools in a request."""
    return tokens_in(json.dumps(body["tools"])) if body.get("tools") else 0


def branch(rows: dict[str, Message], leaf: str) -> list[Message]:
    """The chat tree's path from its root to `leaf`; nothing when it runs in a circle."""
    path: list[Message] = []
    while leaf in rows and len(path) <= len(rows):
        path.append({**rows[leaf], "id": leaf})
        leaf = identity_of(rows[leaf].get("parentId"))
    return path[::-1] if len(path) <= len(rows) else []


def chain(messages: list[Message]) -> list[Node]:
    """Digests of a branch, root to leaf: digest(m) = H(digest(parent), id, fingerprint).

    The fingerprint is a hash of what the model sees. A message without an id gets one from that
    and from what is above it.
    """
    nodes: list[Node] = []
    above = ""
    for m in messages:
        # Of an answer these are its output items; `content` only repeats their text.
        seen = [m.get("role"), m.get("output") or m.get("native") or m.get("content") or ""]
        packed = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        fingerprint = hashed(packed)
        identity = identity_of(m.get("id")) or hashed(above, fingerprint)
        above = hashed(above, identity, fingerprint)
        role = str(m.get("role"))
        words = words_of(m) if role == "user" else ""
        handed = handed_of(m)
        handed |= {"id": identity, "fingerprint": fingerprint, "digest": above}
        nodes.append(Node(identity, role, words, above, handed))
    return nodes


def words_of(message: Message) -> str:
    """A hash of the text of a question, by which the service finds it."""
    return hashed(text_of(message))[:16]


def handed_of(message: Message) -> Message:
    """What the service gets of a message; of its files no contents."""
    handed = {key: message[key] for key in HANDED if message.get(key) is not None}
    files = files_of(message)
    return handed | {"files": files} if files else handed


def text_alone(message: Message) -> Message:
    """A message that is too large or has too many values, as the beginning and end of its text.

    `left_out` is what the service does not get of it, in characters.
    """
    seen = message.get("output") or message.get("native") or message.get("content")
    text = seen if isinstance(seen, str) else json.dumps(seen, ensure_ascii=False)
    kept = {key: message.get(key) for key in ("id", "fingerprint", "digest", "role")}
    kept |= shortened({"content": text}, LONGEST)
    return {**kept, "left_out": size_of(message) - size_of(kept)}


def first_to_send(path: list[Node], request: Request) -> int:
    """Where the first message stands that the service may not have; the newest is always sent."""
    if request.known == "":  # most likely it has everything before this turn
        return max(len(path) - 2, 0)
    known = [place for place, node in enumerate(path, 1) if node.id == request.known]
    return min(known[-1], len(path) - 1) if known else 0


def grouped(messages: list[Message]) -> list[Message]:
    """A native list in groups that are stored as one message each."""
    groups: list[Message] = []
    for m in messages:
        role = m.get("role")
        if role not in ("assistant", "tool"):
            if role != "user" or is_question(m):
                groups.append({"role": role, "content": text_of(m), "files": files_of(m)})
            continue
        if not groups or "native" not in groups[-1]:
            groups.append({"role": "assistant", "native": []})
        groups[-1]["native"].append({key: m[key] for key in NATIVE if m.get(key)})
    return groups


def described(messages: list[Message], path: list[Node], shown: int) -> Message:
    """What the service has to know of a request to say how to edit it; the newest come first."""
    questions = [(i, words_of(m)) for i, m in enumerate(messages) if is_question(m)]
    asked = [(place, path[place].words) for place in asked_in(path)]
    # Of those that are shown, and of the one above; of the request some more to compare.
    most = sum(place >= len(path) - shown for place, _ in asked) + 1
    return {
        "leading": len(leading(messages)),
        "questions": questions[::-1][: most + 2],
        "all_questions": len(questions),
        "asked": asked[::-1][:most],
        "all_asked": len(asked),
    }


def asked_in(path: list[Node]) -> list[int]:
    """Where the questions stand in a path."""
    return [place for place, node in enumerate(path) if node.role == "user"]


def edited(messages: list[Message], path: list[Node], answer: Message) -> list[Message] | None:
    """The request with the summary in place of what it covers; None when that is unsafe."""
    edit = answer.get("edit")
    if not edit or not drops_what_is_covered(messages, path, answer):
        return None
    if not is_record(edit["insert"]):
        return None
    return [*leading(messages), *edit["insert"], *messages[edit["drop"][1] :]]


def drops_what_is_covered(messages: list[Message], path: list[Node], answer: Message) -> bool:
    """Whether the edit of an answer drops what its summary covers, and nothing else.

    Nothing is taken on trust. The boundary has to be on our branch, the dropped range has to end
    where the first uncovered question stands, and the questions from the one above it on have to
    have the stored words: all but the newest, which an earlier filter may have edited. It may have
    edited others too where as many questions are there as are stored, and each such question has
    the stored answer, or none as it is stored.
    """
    (first, end), below = answer["edit"]["drop"], first_uncovered(path, answer)
    asked = asked_in(path)
    shown = [place for place, m in enumerate(messages) if is_question(m)]
    if first != len(leading(messages)) or below not in asked or end not in shown:
        return False
    covered = asked.index(below)  # questions
    added = shown.index(end) - covered  # by an earlier filter, in front
    above = max(covered - 1, 0)
    instruction = len(shown) - len(asked) - added  # of a guided regeneration, which is not stored
    if above + added < 0 or instruction not in (0, 1):
        return False
    places, stored = shown[above + added :], asked[above:]
    turns = zip(places, places[1:], stored, stored[1:], strict=False)
    proofs = [proof(messages[i:j], path[k:n], exact=added == 0) for i, j, k, n in turns]
    return None not in proofs and any(proofs)


def proof(messages: list[Message], nodes: list[Node], *, exact: bool) -> str | None:
    """What shows that a turn of the request is the stored one; None when it is another.

    `exact`: it stands where that is stored; its answers are enough then. Without any, as after an
    error, nothing speaks for it or against it.
    """
    words = text_of(nodes[0].message)  # to which an earlier filter may have added some
    if words_of(messages[0]) == nodes[0].words or (words and words in text_of(messages[0])):
        return nodes[0].words
    stored = [m for node in nodes for m in node.message.get("native") or [node.message]]
    said = answers_in(messages)
    return said if exact and said == answers_in(stored) else None


def first_uncovered(path: list[Node], answer: Message) -> int:
    """Where the path goes on below a summary; at its end when the boundary is not on our branch."""
    boundary = (answer["covered_until"], answer["covered_digest"])
    places = (place for place, node in enumerate(path, 1) if (node.id, node.digest) == boundary)
    return next(places, len(path))


def answers_in(messages: list[Message]) -> str:
    """What the model said, without blanks, which differ between what is stored and what is sent."""
    said = [text_of(m) for m in messages if m.get("role") == "assistant"]
    return "".join("".join(said).split())


# ---- the window


def estimate_of(body: Message, request: Request) -> int:
    """An estimate for all that goes to the model."""
    return sum(map(tokens_of, body["messages"])) + tokens_of_tools(body) + request.prompt


def wanted_by(body: Message) -> int:
    """Tokens that are asked for the answer; 0 when nothing is said."""
    wanted = body.get("max_tokens")
    return max(wanted, 0) if isinstance(wanted, int) else 0


def shrunk(
    messages: list[Message], excess: int, newest: int, step: int, note: str
) -> tuple[list[Message], int, bool]:
    """A smaller request, how many messages were left out of it, and whether texts lost a part.

    What is missed least goes first: the middle of tool results that the model has read, then whole
    turns for a note, then the middle of the longest texts. Results and turns go in steps, the
    oldest first, so that the beginning stays the same over several requests.
    """
    made, head = list(messages), len(opening(messages))
    gone = shorten_results(made, newest, -(-excess // step) * step)
    start = head
    if gone < excess:
        excess += tokens_in(note)
        goal = gone + -(-(excess - gone) // step) * step
        for place in range(head + 1, min(newest + 1, len(made))):
            if gone < goal and is_question(made[place]):
                gone += sum(map(tokens_of, made[start:place]))
                start = place
    shorten_texts(made, start, excess - gone)
    rest = [*made[:head], *made[start:]]
    return (with_note(rest, note) if start > head else rest), start - head, gone < excess


def shorten_results(made: list[Message], newest: int, goal: int) -> int:
    """Takes the middle out of the oldest results that the model has read; the tokens gained."""
    calls = [place for place, m in enumerate(made) if m.get("tool_calls")]
    gone = 0
    for place, m in enumerate(made[: max([newest, *calls])]):
        if gone < goal and m.get("role") == "tool" and len(text_of(m)) > 1000:
            made[place] = shortened(m, SHORT)
            gone += tokens_of(m) - tokens_of(made[place])
    return gone


def shorten_texts(made: list[Message], start: int, goal: int) -> None:
    """Takes the middle out of the longest texts."""
    for place in sorted(range(start, len(made)), key=lambda place: -len(text_of(made[place]))):
        whole, keep = made[place], len(text_of(made[place]))
        while goal > 0 and keep > 300:
            keep, before = keep * 3 // 4, tokens_of(made[place])
            made[place] = shortened(whole, keep)
            goal -= before - tokens_of(made[place])


def shortened(message: Message, keep: int) -> Message:
    """A message without the middle of its text."""
    text, content = text_of(message), message["content"]
    note = SHORTENED.format(len(text) - keep)
    cut = text[: keep * 2 // 3] + note + text[-(keep // 3) :]
    if len(cut) >= len(text):
        return message
    cut = whole_text_of(message).removesuffix(text) + cut  # the list of attached files stays
    if isinstance(content, list):
        others = [part for part in content if part.get("type") != "text"]
        return {**message, "content": [{"type": "text", "text": cut}, *others]}
    return {**message, "content": cut}


def with_note(messages: list[Message], note: str) -> list[Message]:
    """A request with the note at the end of its first system message, unless it is there.

    The chat templates of some models refuse a second system message.
    """
    systems = leading(messages)
    if any(LEFT_OUT in text_of(m) for m in systems):
        return messages
    if not systems:
        return [{"role": "system", "content": note}, *messages]
    content = systems[0].get("content")
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": f"\n\n{note}"}]
    else:
        content = f"{content or ''}\n\n{note}"
    return [{**systems[0], "content": content}, *messages[1:]]
