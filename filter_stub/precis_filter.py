"""
title: Precis
author: The Precis authors
description: Keeps long chats inside the model's context window with summaries made in the background.
version: 0.1.0
required_open_webui_version: 0.12.4
license: MIT
"""

# Before a request (inlet): ask the Precis service for the stored summary of this branch, and put it in place of the
# messages that it covers. After a reply (outlet): hand the new messages over, without making anybody wait.
# Whatever goes wrong, the request goes on as Open WebUI built it.

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from pydantic import BaseModel, Field

log = logging.getLogger("precis")

PAIRS = 16  # newest (id, digest) pairs in the first question; a rolling digest speaks for everything above them
SLICE = 2_000_000  # characters in one upload; a first one of a long chat takes several
UNSAVED = ("temporary:", "local:", "channel:")
OWN_COMPACTION = "[CONVERSATION SUMMARY]"  # Open WebUI's, in the system message
SUMMARY = "[Previous conversation summary: "  # ours
TOOL_IMAGES = "Here are the images from the tool results above."  # a user message that no user wrote
# What is handed over of a message. A value of another kind must not keep the whole chat from being taken.
HANDED: dict[str, type | tuple[type, ...]] = {
    "role": str,
    "content": (str, list),
    "output": list,
    "usage": dict,
    "error": (dict, str, bool),
    "timestamp": (int, float),
}
STASH = "precis"  # our key in the metadata, which Open WebUI carries to outlet

Message = dict[str, Any]
Emitter = Callable[[dict[str, Any]], Awaitable[None]]


class Node(NamedTuple):
    """One stored message of the branch. Equal digests mean: everything up to here is equal."""

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
            0.8, gt=0, description="Seconds that a request may wait for Precis; then it goes on as it is."
        )
        skip_below_chars: int = Field(
            24_000, ge=0, description="Chats with fewer characters are left alone and not handed over."
        )
        show_status: bool = Field(True, description="Tell under the answer that the context was compressed.")
        priority: int = Field(100, description="Filters run in rising order; Precis best comes last.")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._http: httpx.AsyncClient | None = None
        self._handing_over: set[asyncio.Task[None]] = set()  # keeps the tasks alive

    async def inlet(
        self,
        body: dict[str, Any],
        __metadata__: dict[str, Any] | None = None,
        __model__: dict[str, Any] | None = None,
        __event_emitter__: Emitter | None = None,
    ) -> dict[str, Any]:
        """Puts the stored summary in place of what it covers."""
        try:
            async with asyncio.timeout(self.valves.timeout):
                status = await self._compress(body, __metadata__ or body.get("metadata") or {}, __model__ or {})
                if status and self.valves.show_status and __event_emitter__:
                    await __event_emitter__({"type": "status", "data": {"description": status, "done": True}})
        except Exception as error:
            log.warning("precis: the request goes on unchanged or without a status: %r", error)
        return body

    async def outlet(
        self,
        body: dict[str, Any],
        __metadata__: dict[str, Any] | None = None,
        __user__: dict[str, Any] | None = None,
        __model__: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Hands the branch over in the background."""
        try:
            chat_id, messages = body.get("chat_id"), body.get("messages") or []
            if saved(chat_id) and all(m.get("id") for m in messages) and self._worth_it(messages):
                user_id = (__user__ or {}).get("id") or "unknown"
                task = asyncio.create_task(self._hand_over(body, __metadata__ or {}, user_id, __model__ or {}))
                self._handing_over.add(task)
                task.add_done_callback(self._handing_over.discard)
        except Exception as error:
            log.warning("precis: the reply was not handed over: %r", error)
        return body

    async def _compress(self, body: dict[str, Any], metadata: dict[str, Any], model: dict[str, Any]) -> str:
        """Changes `body["messages"]` when a summary is ready; returns the status line, or nothing."""
        messages, chat_id = body.get("messages") or [], metadata.get("chat_id") or ""
        stash: dict[str, Any] = metadata.setdefault(STASH, {"served": None})
        stash["window"] = window_of(body, model)  # outlet does not see the request's own parameters
        if any(mark in text_of(m) for m in messages if m.get("role") == "system" for mark in (OWN_COMPACTION, SUMMARY)):
            return ""
        stash["served"] = 0
        if not saved(chat_id) or not metadata.get("user_message_id") or not self._worth_it(messages):
            return ""
        from open_webui.models.chats import Chats  # here, so that the file loads anywhere

        rows = await Chats.get_messages_map_by_chat_id(chat_id) or {}
        path = await asyncio.to_thread(branch, rows, metadata["user_message_id"])
        if not path:
            return ""
        stash["files"] = {node.id: rows[node.id]["files"] for node in path if rows[node.id].get("files")}
        answer = await self._context(chat_id, body.get("model"), stash["window"], path)
        stash["known"] = answer.get("known")
        if answer.get("status") != "ready":
            return ""
        spliced = splice(messages, path, answer, guided=bool(metadata.get("regeneration_message_id")))
        if spliced is None:
            log.warning("precis: summary %s does not fit this request of chat %s", answer["checkpoint_id"], chat_id)
            return ""
        before, after = (round(answer["tokens"][key] / 1000) for key in ("before", "after"))
        stash["served"] = int(answer["checkpoint_id"])
        body["messages"] = spliced  # last, so that an odd answer has raised before anything is changed
        return f"Context compressed: {before}k → {after}k tokens"

    async def _context(self, chat_id: str, model: object, window: int | None, path: Sequence[Node]) -> dict[str, Any]:
        leaf_first = path[::-1]
        answer: dict[str, Any] = {"status": "unknown"}
        for pairs in (leaf_first[:PAIRS], leaf_first) if len(path) > PAIRS else (leaf_first,):
            question = {
                "model": str(model),
                "window_tokens": window,
                "depth": len(path),
                "path": [(node.id, node.digest) for node in pairs],
                "sizes": [node.size for node in pairs],
            }
            response = await self._send("POST", chat_id, "context", question, self.valves.timeout)
            response.raise_for_status()
            answer = response.json()
            if answer.get("status") != "unknown":
                break
        return answer

    async def _hand_over(
        self, body: dict[str, Any], metadata: dict[str, Any], user_id: str, model: dict[str, Any]
    ) -> None:
        """Sends what follows the newest message that the service has, or the whole branch when it has none."""
        try:
            stash = metadata.get(STASH) or {}
            messages: list[Message] = body["messages"]
            path = await asyncio.to_thread(chain, messages)
            if "known" in stash:
                known = next((i for i, node in enumerate(path) if node.id == stash["known"]), -1)
            else:  # inlet did not ask; most likely the service has everything before this turn
                known = max((i for i, node in enumerate(path[:-1]) if node.role == "assistant"), default=-1)
            known = min(known, len(path) - 2)  # the newest answer is always sent
            transcript = {
                "model": str(body.get("model")),
                "user_id": str(user_id),
                "window_tokens": stash.get("window") or window_of(body, model),
            }
            handing = [
                handed(m, node, stash.get("files", {}).get(node.id)) for m, node in zip(messages, path, strict=True)
            ]
            for start in (known + 1, 0) if known >= 0 else (0,):
                for begin, end in slices(path, start):
                    above = path[begin - 1]
                    transcript["after"] = (above.id, above.digest) if begin else None
                    transcript["messages"] = handing[begin:end]
                    transcript["served"] = stash.get("served") if end == len(path) else None
                    response = await self._send("PUT", body["chat_id"], "transcript", transcript, 30.0)
                    if response.status_code == 409:
                        break
                    response.raise_for_status()
                else:
                    return
        except Exception as error:
            log.warning("precis: chat %s was not handed over, the next turn will: %r", body.get("chat_id"), error)

    async def _send(self, method: str, chat_id: str, what: str, payload: object, seconds: float) -> httpx.Response:
        self._http = self._http or httpx.AsyncClient()
        # An error about a stray line end or a typographic quote would show the key in the log.
        key = "".join(character for character in self.valves.api_key if "!" <= character <= "~")
        async with asyncio.timeout(seconds):
            return await self._http.request(
                method,
                f"{self.valves.service_url.rstrip('/')}/v1/chats/{quote(chat_id, safe='')}/{what}",
                content=json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"),
                headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
                timeout=None,
            )

    def _worth_it(self, messages: Sequence[Message]) -> bool:
        return sum(map(size_of, messages)) >= self.valves.skip_below_chars


def saved(chat_id: object) -> bool:
    """Whether Open WebUI stores this chat."""
    return isinstance(chat_id, str) and bool(chat_id) and not chat_id.startswith(UNSAVED)


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, its text parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(p.get("text") or "") for p in content if isinstance(p, dict) and p.get("type") == "text")
    return content if isinstance(content, str) else ""


def size_of(message: Mapping[str, Any]) -> int:
    """Characters of a message, folded or native; reasoning and images do not count."""
    size = len(text_of(message)) + sum(len(str(call.get("function"))) for call in message.get("tool_calls") or ())
    for item in message.get("output") or ():
        if item.get("type") == "function_call_output":
            size += sum(len(str(p.get("text") or "")) for p in item.get("output") or () if isinstance(p, dict))
        elif item.get("type") == "function_call":
            size += len(str(item.get("arguments")))
    return size


def branch(rows: Mapping[str, Message], leaf: str) -> list[Node]:
    """The chat tree's path from its root to `leaf`; nothing when it runs in a circle."""
    path: list[Message] = []
    seen: set[str] = set()
    here: str | None = leaf
    while here and here in rows:
        if here in seen:
            return []
        seen.add(here)
        path.append({**rows[here], "id": here})
        here = rows[here].get("parentId")
    return chain(path[::-1])


def chain(messages: Sequence[Message]) -> list[Node]:
    """Digests of a branch, root to leaf: digest(m) = H(digest(parent), id, fingerprint)."""
    nodes: list[Node] = []
    above = ""
    for m in messages:
        # What the model sees of an answer is its output items; `content` only repeats their text.
        seen = [m.get("role"), m.get("output") or m.get("content") or ""]
        packed = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        fingerprint = hashlib.sha256(packed.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        above = hashlib.sha256("\n".join((above, m["id"], fingerprint)).encode()).hexdigest()[:32]
        nodes.append(Node(m["id"], str(m.get("role")), text_of(m), fingerprint, above, size_of(m)))
    return nodes


def handed(message: Message, node: Node, files: object) -> Message:
    """A message as it is handed over."""
    sent = {key: message[key] for key, kind in HANDED.items() if isinstance(message.get(key), kind)}
    if isinstance(files, list):
        sent["files"] = [
            {key: file[key] for key in ("type", "name", "content_type") if file.get(key)}
            for file in files
            if isinstance(file, dict)
        ]
    return {**sent, "id": node.id, "fingerprint": node.fingerprint, "digest": node.digest}


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
    """Base system message, summary, and the tail from the first uncovered user message on; None when that is unsafe.

    `messages` has no ids, and one stored answer may stand there as many messages. But each stored user message stands
    there once, so the tail is found by counting user messages from the end, and checked by their texts.
    """
    place = next((i for i, node in enumerate(path) if node.id == answer["covered_until"]), None)
    if place is None or path[place].digest != answer["covered_digest"]:
        return None
    tail, summary = path[place + 1 :], answer["summary"]
    if not tail or tail[0].role != "user" or not isinstance(summary, str) or not summary.startswith(SUMMARY):
        return None
    shown = [i for i, m in enumerate(messages) if m.get("role") == "user" and not text_of(m).startswith(TOOL_IMAGES)]
    if guided:
        shown = shown[:-1]  # the instruction of a guided regeneration is stored nowhere
    stored = [node for node in path if node.role == "user"]
    kept = sum(node.role == "user" for node in tail)
    if len(shown) < kept:
        return None
    # An earlier filter may have edited the newest one; the other kept ones, and one above them, must be as stored.
    pairs = list(zip(reversed(stored), reversed(shown), strict=False))[: kept + 1]
    if any(node.text not in text_of(messages[i]) for node, i in pairs[1:] or pairs):
        return None
    base = [messages[0]] if messages[0].get("role") == "system" else []
    return [*base, {"role": "system", "content": summary}, *messages[shown[-kept] :]]


def window_of(body: Mapping[str, Any], model: Mapping[str, Any]) -> int | None:
    """The model's window in tokens, when the request or the provider's model list tells it."""
    provider, info = model.get("openai") or {}, model.get("info") or {}
    told = (
        (body.get("options") or {}).get("num_ctx"),
        body.get("num_ctx"),
        (info.get("params") or {}).get("num_ctx"),
        provider.get("max_model_len"),
        provider.get("context_length"),
    )
    return next((size for size in told if isinstance(size, int) and size >= 2048), None)
