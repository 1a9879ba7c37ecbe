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
import logging
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field

log = logging.getLogger("precis")

STASH = "precis"  # the filter's key in the metadata of a request
FILTER = "precis"  # the filter's id in Open WebUI; it reaches the service
CALLS = 5  # in one turn
INGESTING = 30.0  # seconds that a whole branch may take to be sent again
LONGEST = 300  # characters of a word or reference that the service takes

# What the model is told.
NO_SUMMARY = "No summary stands in this request, so nothing is hidden: read the messages above."
ENOUGH = f"Only {CALLS} look-ups are possible for one answer: answer with what you have."
FAILED = "It could not be looked up: {}."

Json = dict[str, Any]
HttpRequest = Any  # Open WebUI's own
Loaded = Any  # the `Filter` of `precis_filter`


class RefusedError(Exception):
    """The service answered with an error; its words are fit for the model."""


class Tools:
    """What Open WebUI calls: one object for all requests. Models are offered all public methods."""

    class Valves(BaseModel):
        """What an admin sets in Open WebUI."""

        timeout: float = Field(5.0, gt=0, description="Seconds that a look-up may take.")
        answer_tokens: int = Field(2000, ge=200, le=8000, description="Most tokens of an answer.")

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def precis_recall(
        self,
        query: str = "",
        ref: str = "",
        line: int = 1,
        grep: str = "",
        __metadata__: Json | None = None,
        __request__: HttpRequest = None,
    ) -> str:
        """Looks up what the chat's summary covers: older messages, full tool results.

        Call it if the summary lacks an exact value or quote, before you say that it is unknown.
        Not for messages that you see.

        :param query: Words to find.
        :param ref: Or what to read: T12 (call), M34 (message), 12.3 (sentence).
        :param line: First line, or result.
        :param grep: Only lines of ref with this.
        """
        words = {"query": query, "ref": ref, "grep": grep}
        try:
            stash = (__metadata__ or {}).get(STASH) or {}
            return await looked_up(self, stash, words, line, __request__)
        except RefusedError as error:
            log.warning("precis: a look-up was refused: %s", error)
            return FAILED.format(str(error).rstrip("."))
        except Exception as error:
            # The error itself may quote the chat.
            log.warning("precis: a look-up failed: %s", type(error).__name__)
            return FAILED.format("Precis is away")


async def looked_up(
    tools: Tools, stash: Json, words: Json, line: object, request: HttpRequest
) -> str:
    """What the model is told; `stash` counts the look-ups of a request."""
    # `served` is 0 without a summary. Where the filter has cut the request, something is hidden all
    # the same; it is None where there is a summary too, and the service takes the deepest.
    if not stash.get("pairs") or (stash.get("served") == 0 and not stash.get("cut")):
        return NO_SUMMARY
    stash["recalls"] = stash.get("recalls", 0) + 1
    if stash["recalls"] > CALLS:
        return ENOUGH
    question = asked(stash, words, line) | {"max_tokens": tools.valves.answer_tokens}
    given = (request.app.state.FUNCTIONS[FILTER], stash, question, tools.valves.timeout)
    answer = await answered(*given)
    again = await answered_from_rows(*given) if answer["not_kept"] else None
    return str((again or answer)["text"])


def asked(stash: Json, words: Json, line: object) -> Json:
    """The question as the service takes it. A model may give null, and numbers as text."""
    texts = {name: str(word or "")[:LONGEST] for name, word in words.items()}
    if texts["ref"].strip():
        texts["query"] = ""  # the service takes one of them, and a reference is exact
    return texts | {
        "user_id": stash["user"] or stash["chat"],
        "path": stash["pairs"],
        "checkpoint_id": stash.get("served"),
        "whole": bool(stash.get("cut")),  # then what no summary covers is hidden too
        "line": max(int(str(line or 1)), 1),
    }


async def answered(loaded: Loaded, stash: Json, question: Json, seconds: float) -> Json:
    """What the service says, under the request id that the filter's requests have.

    Raises:
        RefusedError: it refuses the question, and says why.
    """
    path = f"chats/{quote(stash['chat'], safe='')}/recall"
    response = await loaded.send("POST", path, question, seconds, stash.get("id", ""))
    answer: Json = response.json()
    if response.is_error:
        raise RefusedError(f"the service says {response.status_code}, {answer['detail'][:300]}")
    return answer


async def answered_from_rows(
    loaded: Loaded, stash: Json, question: Json, seconds: float
) -> Json | None:
    """The answer once the filter has sent the whole branch again; None when that is not possible.

    Retention takes the texts of messages, and Open WebUI's own rows have them.
    """
    try:
        async with asyncio.timeout(INGESTING):
            is_sent = await loaded.ingest_again(stash)
        return await answered(loaded, stash, question, seconds) if is_sent else None
    except Exception as error:
        log.warning("precis: a chat's texts were not sent again: %s", type(error).__name__)
        return None
