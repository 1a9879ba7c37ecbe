"""
title: Precis recall
author: The Precis authors
description: Lets a model look up, word for word, what the summary of its chat covers.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# A tool of Open WebUI. The filter offers it in long chats, and leaves in the metadata of a request
# which branch it is: nothing else of the chat can be looked up. The model always gets an answer in
# words, whatever goes wrong.

import asyncio
import contextlib
import logging
from typing import Any
from urllib.parse import quote

log = logging.getLogger("precis")

STASH = "precis"  # the filter's key in the metadata of a request
FILTER = "precis"  # the filter's id in Open WebUI; it reaches the service
CALLS = 5  # in one turn
TIMEOUT = 5.0  # seconds that a look-up may take
INGESTING = 30.0  # and a whole branch to be sent again

# What the model is told.
NO_SUMMARY = "No summary stands in this request, so nothing is hidden: read the messages above."
ENOUGH = f"Only {CALLS} look-ups are possible for one answer: answer with what you have."
FAILED = "It could not be looked up: {}."

Json = dict[str, Any]


class Tools:
    """What Open WebUI calls: one object for all requests. Models are offered all public methods."""

    async def precis_recall(
        self,
        query: str = "",
        ref: str = "",
        line: int = 1,
        grep: str = "",
        __metadata__: Json | None = None,
        __request__: Any = None,  # noqa: ANN401 - Open WebUI's own
    ) -> str:
        """Looks up what the chat's summary covers: older messages, full tool results.

        Call it if the summary lacks an exact value or quote, before you say that it is unknown.
        Not for messages that you see.

        :param query: Words to find.
        :param ref: Or what to read: T12 (call), M34 (message), 12.3 (sentence).
        :param line: First line, or result.
        :param grep: Only lines of ref with this.
        """
        asked = {"query": query, "ref": ref, "line": line, "grep": grep}
        try:
            stash = (__metadata__ or {}).get(STASH) or {}
            return await looked_up(stash, asked, __request__)
        except Exception as error:
            # The error itself may quote the chat.
            log.warning("precis: a look-up failed: %s", type(error).__name__)
            return FAILED.format("Precis is away")


async def looked_up(stash: Json, asked: Json, request: Any) -> str:  # noqa: ANN401
    """What the model is told; `stash` counts the look-ups of a request."""
    if not stash.get("pairs"):
        return NO_SUMMARY
    stash["recalls"] = stash.get("recalls", 0) + 1
    if stash["recalls"] > CALLS:
        return ENOUGH
    question = asked | {
        "user_id": stash["user"] or stash["chat"],
        "path": stash["pairs"],
        "checkpoint_id": stash.get("served"),
        "whole": bool(stash.get("cut")),  # then what no summary covers is hidden too
    }
    loaded = request.app.state.FUNCTIONS[FILTER]
    answer = await answered(loaded, stash, question)
    if answer.get("not_kept"):
        # Retention takes the texts of messages, and Open WebUI's own rows have them.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(INGESTING):
                is_sent = await loaded.ingest_again(stash)
            if is_sent:
                answer = await answered(loaded, stash, question)
    return str(answer["text"])


async def answered(loaded: Any, stash: Json, question: Json) -> Json:  # noqa: ANN401
    """What the service says, or why it refuses, in words for the model."""
    path = f"chats/{quote(stash['chat'], safe='')}/recall"
    response = await loaded.send("POST", path, question, TIMEOUT, stash.get("id", ""))
    answer: Json = response.json()
    if response.is_error:
        return {"text": FAILED.format(answer["detail"][:300].rstrip("."))}
    return answer
