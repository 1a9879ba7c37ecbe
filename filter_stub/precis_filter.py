"""
title: Precis
author: The Precis authors
description: Keeps long chats inside the model's window with summaries made in the background.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# Each request is shown to the Precis service, and is sent as the service answers; finished turns
# are sent to it in the background. Then models of Open WebUI write what the service has planned.
# While it is away, the oldest messages are left out.

import asyncio
import json
import logging
import re
import secrets
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import httpx
from pydantic import BaseModel, Field

log = logging.getLogger("precis")
VERSION = "1.0.0"
HOOKED = (0, 11, 2)  # Open WebUI calls `request` from this version on; before, inlet does its work
FAILURES, PAUSE = 3, 5.0  # after so many in a row, one request in so many seconds tries again
IDLE, PROMPTS, WAIT = 3.0, 24, 8  # seconds after a turn; questions; seconds that each may wait
LOADED = ("num_ctx", "num_batch", "num_gpu", "num_thread", "use_mmap", "keep_alive")  # by Ollama
WINDOW, UNASKED = 131_072, 4096  # tokens: of a model nobody knows; before the service was asked
METADATA_KEY = "precis"  # where the metadata have what this file keeps
RECALL = "precis_recall"  # id of the tool
TOOL_IMAGES = "Here are the images from the tool results above."  # Open WebUI writes it as a user
LEFT_OUT = "[Older messages were left out here: they do not fit into the model's window.]"
STORED = ("id", "role", "content", "output", "usage", "timestamp")  # sent of a message
# Connections bypass the proxy of the environment, which would see the key and the texts.
DIRECT = {"all://": None, "http://": None, "https://": None}
Json = dict[str, Any]
HIDDEN: Json = {"input": {"type": "password"}}


class Filter:
    """The object that Open WebUI calls, for all requests."""

    class Valves(BaseModel):  # an admin sets them in Open WebUI
        service_url: str = Field("http://127.0.0.1:8377", description="Address of Precis.")
        api_key: str = Field("", description="Key with scope `filter`.", json_schema_extra=HIDDEN)
        timeout: float = Field(0.8, gt=0, description="Seconds that a request may wait for Precis.")
        skip_below_chars: int = Field(24_000, ge=0, description="Shorter chats are left alone.")
        temporary_hours: int = Field(0, ge=0, le=8760, description="Hours to keep; 0: never sent.")
        api_days: int = Field(30, ge=1, le=3650, description="Days to keep API clients' chats.")
        show_status: bool = Field(True, description="Show above the answer what was changed.")
        offer_recall: bool = Field(True, description="Let the model look up what was summarised.")
        priority: int = Field(100, description="Filters run in rising order; last is best.")

    class UserValves(BaseModel):  # each user sets them
        compress: bool = Field(True, description="Send my chats to Precis, which summarises them.")
        show_status: bool = Field(True, description="Show above the answer what was changed.")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._http: httpx.AsyncClient | None = None
        self._in_background: set[asyncio.Task[None]] = set()  # keeps the tasks alive
        self._failures, self._again_at = 0, 0.0
        self._windows: dict[str, int] = {}  # tokens by model, as the service said last
        self._newest: dict[str, str] = {}  # of long chats, the turn that began last

    async def inlet(
        self,
        body: Json,
        __metadata__: Any = None,
        __user__: Any = None,
        __model__: Any = None,
        __event_emitter__: Any = None,
    ) -> Json:
        """Begins a turn; called as `request`, it makes each request of the turn fit the window."""
        until = time.monotonic() + self.valves.timeout
        with log_and_suppress("a request goes on as it is, or without a status"):
            metadata = __metadata__ or body["metadata"]
            if is_new := METADATA_KEY not in metadata:
                metadata[METADATA_KEY] = self.make_turn(body, metadata, __model__, __user__)
            turn = metadata[METADATA_KEY]
            if not self._is_long(body["messages"], turn):
                return body
            if is_new:
                await self._offer_recall(body, metadata, turn)
                if read_version() >= HOOKED:
                    return body
            # A turn that was cut here shows the service no chat any more.
            asks = turn["sends"] and (turn["state"] or not turn.get("left_out"))
            lines = (asks and await self._ask(body, turn)) or self._cut(body, turn)
            async with asyncio.timeout(until - time.monotonic()):
                await self._show(lines, turn, __event_emitter__)
        return body

    request = inlet  # before each call of a model, with all that Open WebUI has added

    async def outlet(
        self, body: Json, __metadata__: Any = None, __user__: Any = None, __request__: Any = None
    ) -> Json:
        """Sends the turn of a saved chat to the service in the background."""
        with log_and_suppress("a turn is not sent to the service"):
            user, turn = __user__ or {}, (__metadata__ or {}).get(METADATA_KEY)
            if body.get("precis_check") is True and user.get("role") == "admin":
                self._failures = 0  # `precis install-filter` asks who answers
                try:
                    body["precis_check"] = await self.send("GET", "filter", None, 5.0)
                except Exception as error:
                    body["precis_check"] = {"error": repr(error)}
            elif turn and turn["state"] is not None and turn["saved"] == body["chat_id"]:
                rows = body["messages"]
                first = 0 if turn["whole"] else next(find_questions(rows), 0)
                self.run_in_background(self.send_turn(turn, rows[first:], user, __request__))
        return body

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Does some work in the background."""
        task = asyncio.create_task(work)
        self._in_background.add(task)
        task.add_done_callback(self._in_background.discard)

    def make_turn(self, body: Json, metadata: Json, model: Any, user: Any) -> Json:
        """The note of a turn, in plain values, which the metadata carry from hook to hook."""
        chat, name = str(metadata.get("chat_id") or ""), str(body.get("model"))
        wishes = (user or {}).get("valves")
        api, kept = self.valves.api_days * 24, self.valves.temporary_hours
        hours = {"": api, "temporary": kept, "local": kept, "channel": 0}.get(chat.split(":")[0])
        params = ((model or {}).get("info") or {}).get("params") or {}
        windows = list_windows(body, params, model)
        about = {  # goes to the service with each request
            "chat": chat,
            "user": metadata.get("user_id"),
            "model": name,
            "windows": windows,
            "prompt": params.get("system") or "",
            "keep_hours": hours,
            "recall": False,  # set where the tool is offered
            "guided": bool(metadata.get("regeneration_message_id")),
        }
        return {
            "id": secrets.token_hex(16),
            "about": about,
            "state": None,
            "whole": False,
            "shown": "",
            "options": body.get("options"),
            "saved": chat if hours is None else None,
            "window": next(iter(windows), self._windows.get(name)),
            "sends": hours != 0 and getattr(wishes, "compress", True),
            "shows": self.valves.show_status and getattr(wishes, "show_status", True),
        }

    def _is_long(self, messages: list[Json], turn: Json) -> bool:
        """Whether the chat may be too long. A token is hardly less than half a character."""
        window = turn["window"] or (UNASKED if turn["saved"] else WINDOW)
        least = min(self.valves.skip_below_chars, window // 2)
        sizes = accumulate(len(read_text(message)) for message in messages)
        return any(size >= least for size in sizes)

    async def _offer_recall(self, body: Json, metadata: Json, turn: Json) -> None:
        """Lets the model look up what it does not see, where Open WebUI runs tools for it."""
        calling = (metadata.get("params") or {}).get("function_calling")
        natively = {"native": True, "legacy": False}.get(str(calling), read_version() >= (0, 10))
        wanted = self.valves.offer_recall and turn["sends"] and metadata.get("message_id")
        if not wanted or not natively or body.get("tools"):
            return
        with log_and_suppress("nothing can be looked up in a turn"):
            tools = sys.modules["open_webui.models.tools"].Tools
            if await tools.get_tool_by_id(RECALL):
                turn["about"]["recall"] = True
                body["tool_ids"] = [*dict.fromkeys([*(body.get("tool_ids") or []), RECALL])]

    async def _ask(self, body: Json, turn: Json) -> Any:
        """Puts in the messages that the service answers; returns what it says to the user."""
        sent, about, seconds = body["messages"], turn["about"], self.valves.timeout * 0.9
        self._newest[about["chat"]] = turn["id"]
        question = about | {"state": turn["state"], "seconds": seconds * 0.9}
        question |= {"max_tokens": body.get("max_tokens"), "tools": body.get("tools")}
        question["messages"] = [strip_pictures(message) for message in sent]
        with log_and_suppress("a request goes on without the service"):
            # It ends before the hook has to, so that silence is a failure, and a Stop is not.
            answer = await self.send("POST", "compress", question, seconds, turn["id"])
            made = sent if answer["messages"] is None else arrange(sent, answer["messages"])
            whole, window = turn["whole"] or answer["whole"], int(answer["tokens"]["window"])
            turn |= {"state": answer["state"], "whole": whole, "window": window}
            self._windows[about["model"]] = window
            body["messages"] = made
            turn.setdefault("left_out", answer["left_out"])  # of the first call of the turn
            return [answer["summary"], answer["status_text"]]

    async def _show(self, lines: list[Any], turn: Json, emitter: Any) -> None:
        for line in lines:  # the page shows the last one; a click opens all
            if line and line != turn["shown"] and turn["shows"] and emitter:
                turn["shown"] = line
                await emitter({"type": "status", "data": {"description": line, "done": True}})

    def _cut(self, body: Json, turn: Json) -> list[Any]:
        """Leaves out the oldest turns that do not fit; returns what the user is told."""
        messages, wanted = body["messages"], body.get("max_tokens")
        window = turn["window"] or WINDOW
        answer = min(wanted if type(wanted) is int else window // 8, window // 2)
        beside = json.dumps([turn["about"]["prompt"], body.get("tools")])
        # Three bytes are a token: an estimate that is rather high.
        sizes = [len(read_text(m).encode("utf-8", "replace")) // 3 for m in messages]
        excess = sum(sizes) + len(beside) // 3 + answer - window
        head = next((i for i, m in enumerate(messages) if m["role"] != "system"), 0)
        if read_text(messages[head]).startswith("[Previous conversation summary: "):
            head += 2  # the service's summary and what the model says to it stay
        start = head
        for place in sorted(find_questions(messages)):
            if excess > 0:
                excess -= sum(sizes[start:place])
                start = max(start, place)
        left_out = turn.get("left_out", 0) + start - head  # all calls begin as the first was sent
        turn.setdefault("left_out", left_out)
        if not left_out:
            return []
        body["messages"] = add_note([*messages[:head], *messages[start:]])
        return [f"Left out {left_out} older messages to make room"]

    async def _write_summaries(self, turn: Json, user: str, request: Any) -> None:
        """Has models write what the service has planned for the chat of a turn."""
        chat = turn["about"]["chat"]
        self._newest[chat] = turn["id"]
        with log_and_suppress("no model writes a summary"):
            # Up to 0.10, whoever calls Open WebUI may name any chat.
            if not await sys.modules["open_webui.models.chats"].Chats.is_chat_owner(chat, user):
                return
            await asyncio.sleep(IDLE)
            for _ in range(PROMPTS):
                # Users who go on find the model free, and their next turn asks.
                if self._newest[chat] != turn["id"]:
                    return
                question = {"chat": chat, "wait": WAIT}
                found = await self.send("POST", "prompts/next", question, WAIT + 10, turn["id"])
                if prompt := found["prompt"]:
                    reply = await ask_model(prompt, turn, user, request)
                    await self.send("POST", f"prompts/{prompt['id']}/reply", reply, 30, turn["id"])
                elif not found["again"]:
                    return

    async def send_turn(self, turn: Json, rows: list[Json], user: Json, request: Any) -> None:
        """Sends a turn as it is stored, a whole branch if it has no state; then models write."""
        body: Json = {"state": turn["state"], "whole": turn["whole"], "user_name": user.get("name")}
        if turn["state"] is None:
            body |= {key: turn["about"][key] for key in ("chat", "user", "model", "windows")}
        body["messages"] = [{key: row[key] for key in STORED if key in row} for row in rows]
        with log_and_suppress("a turn is sent without the title of its chat"):
            chats = sys.modules["open_webui.models.chats"].Chats
            body["title"] = await chats.get_chat_title_by_id(turn["about"]["chat"])
        with log_and_suppress("a turn is not sent to the service"):
            answer = await self.send("POST", "turns", body, 30.0, turn["id"])
            if answer.get("asks"):
                self.run_in_background(self._write_summaries(turn, user["id"], request))

    async def send(self, method: str, path: str, body: Any, seconds: float, turn: str = "") -> Any:
        """Asks the service; `precis_action` and `precis_recall` ask through it too."""
        if self._failures >= FAILURES and time.monotonic() < self._again_at:
            raise ConnectionError("after failures in a row the service is left alone for a while")
        self._again_at = time.monotonic() + PAUSE
        self._http = self._http or httpx.AsyncClient(mounts=DIRECT, timeout=None)  # noqa: S113
        # An error about a stray line end or a typographic quote would show the key in the log.
        key = "".join(character for character in self.valves.api_key if "!" <= character <= "~")
        headers = {"Authorization": f"Bearer {key}", "Precis-Filter": VERSION, "X-Request-ID": turn}
        headers["Content-Type"] = "application/json"
        url = f"{self.valves.service_url.rstrip('/')}/v1/{path}"
        try:
            content = sys.modules["orjson"].dumps(body)  # Open WebUI has it; a tenth of the time
        except (KeyError, TypeError):  # or half of a character, as some streams leave it
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(seconds):
                answer = await self._http.request(method, url, content=content, headers=headers)
        except Exception:
            self._failures += 1
            raise
        # A key that is missing is no outage: other chats can be decrypted.
        is_down = answer.status_code >= 500 and "problem:key-missing" not in answer.text
        self._failures = self._failures + 1 if is_down else 0
        return answer.raise_for_status().json()


async def ask_model(prompt: Json, turn: Json, owner: str, request: Any) -> Json:
    """Asks the model of a prompt, with the rights of the chat's owner; its answer as it came."""
    model = request.app.state.MODELS.get(prompt["form"]["model"]) or {}
    # Not the turn's own state: its metadata would go along, and titles are written by it.
    state = {"token": getattr(request.state, "token", None)}
    try:
        async with asyncio.timeout(prompt["seconds"]):
            user = await sys.modules["open_webui.models.users"].Users.get_user_by_id(owner)
            if user.role not in ("user", "admin") or model.get("owned_by") == "arena":
                return {"status": 403, "body": "this user or this model is not to write summaries"}
            ask = sys.modules["open_webui.utils.chat"].generate_chat_completion
            fresh = type(request)({**request.scope, "state": state})
            form = build_form(prompt, turn, model)
            answer = await ask(fresh, form, user, bypass_system_prompt=True)
            if isinstance(answer, dict):
                return {"status": 200, "completion": answer}
            stream = getattr(answer, "body_iterator", None)
            parts = [part async for part in stream] if stream else [answer.body]
            # Joined before it is decoded: a part may end within a character.
            whole = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
            return {"status": answer.status_code, "body": whole.decode("utf-8", "replace")}
    except Exception as error:  # the service says what it means
        status = getattr(error, "status_code", 500)
        return {"status": status, "body": f"{type(error).__name__}: {error}"}


def build_form(prompt: Json, turn: Json, model: Json) -> Json:
    """The request of a prompt as this model is sent it."""
    # Pipes keep things by such ids; these lead to no user and no saved chat.
    ids = {"chat_id": f"local:{prompt['id']}", "message_id": "-", "session_id": "", "user_id": ""}
    form = {**prompt["form"], "metadata": {"task": "precis", **ids}}
    if model.get("owned_by") == "ollama":
        # Asked otherwise than by the chat, Ollama would load the model again.
        options = turn["options"] if form["model"] == turn["about"]["model"] else None
        form["options"] = {key: value for key, value in (options or {}).items() if key in LOADED}
        form["options"]["num_predict"] = form.pop("max_tokens")
    return form


@contextmanager
def log_and_suppress(what: str) -> Iterator[None]:
    """Logs an error, and suppresses it."""
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, OSError | httpx.HTTPError)  # others may quote the chat
        log.warning("precis: %s: %s", what, repr(error) if is_ours else type(error).__name__)


def read_version() -> tuple[int, ...]:
    """Open WebUI's version, its first three numbers."""
    version = getattr(sys.modules.get("open_webui.env"), "VERSION", "0")
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def list_windows(body: Json, params: Json, model: Any) -> list[int]:
    """Sizes given for the model's window, the most trusted first."""
    provider = (model or {}).get("openai") or {}
    sizes = [given.get("num_ctx") for given in (body.get("options") or {}, body, params)]
    sizes += [provider.get("max_model_len"), provider.get("context_length")]
    sizes.append((provider.get("meta") or {}).get("n_ctx"))
    return [size for size in sizes if type(size) is int and size >= 2048]


def strip_pictures(message: Json) -> Json:
    """A message with no more of its parts than their type and text."""
    if not isinstance(message.get("content"), list):
        return message
    parts = [{k: p[k] for k in ("type", "text") if k in p} for p in message["content"]]
    return {**message, "content": parts}


def arrange(sent: list[Json], answer: list[Any]) -> list[Json]:
    """The messages of an answer, in which a number stands for the message that was sent there."""
    made = [sent[one] if type(one) is int else {"role": one["role"], **one} for one in answer]
    numbers = [-1, *(one for one in answer if type(one) is int)]
    if numbers != sorted(set(numbers)) or read_newest(sent) != read_newest(made):
        raise ValueError("numbers fall, or the newest question is missing")
    return made


def read_newest(messages: list[Json]) -> str | None:
    """How the newest question begins; None if there is none."""
    place = next(find_questions(messages), None)
    return None if place is None else read_text(messages[place])[:50]


def find_questions(messages: list[Json]) -> Iterator[int]:
    """Where users have asked something, the newest question first."""
    asked = (i for i in reversed(range(len(messages))) if messages[i]["role"] == "user")
    return (i for i in asked if not read_text(messages[i]).startswith(TOOL_IMAGES))


def read_text(message: Json) -> str:
    """All of a message that counts: its text, its calls of tools, and blanks for a picture."""
    content, calls = message.get("content") or "", message.get("tool_calls")
    if isinstance(content, list):
        content = "".join(part.get("text") or " " * 3000 for part in content)
    return f"{content}{calls}" if calls else str(content)


def add_note(messages: list[Json]) -> list[Json]:
    """A request with the note in its first system message: some models refuse a second one."""
    if messages[0]["role"] != "system":
        return [{"role": "system", "content": LEFT_OUT}, *messages]
    text = read_text(messages[0])
    noted = text if LEFT_OUT in text else f"{text}\n\n{LEFT_OUT}"
    return [{**messages[0], "content": noted}, *messages[1:]]
