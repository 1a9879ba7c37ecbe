"""
title: Precis recall
author: The Precis authors
description: Lets a model look up, word for word, what the summary of its chat covers.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# A tool of Open WebUI. The filter offers it in long chats, and leaves the service's note of the
# turn in the metadata of a request: nothing else can be looked up. The model always gets an answer
# in words, whatever goes wrong.

import logging
from typing import Any

log = logging.getLogger("precis")

METADATA_KEY = "precis"  # what the filter keeps in the metadata of a request
FILTER = "precis"  # the filter's id in Open WebUI; it reaches the service
CALLS = 5  # in one turn
TIMEOUT = 5.0  # seconds that a look-up may take

# These texts are for the model.
NO_SUMMARY = "No summary stands in this request, so nothing can be looked up."
ENOUGH = f"Only {CALLS} look-ups are possible for one answer: answer with what you have."
FAILED = "It could not be looked up. Ask for fewer words or one reference, or do without."

Json = dict[str, Any]


class Tools:
    """The object that Open WebUI calls. Models are offered all of its public methods."""

    async def precis_recall(
        self,
        query: str = "",
        ref: str = "",
        line: int = 1,
        grep: str = "",
        __metadata__: Json | None = None,
        __request__: Any = None,
    ) -> str:
        """Looks up what the chat's summary covers: older messages, full tool results.

        Call it if the summary lacks an exact value or quote, before you say that it is unknown.
        Not for messages that you see.

        :param query: Words to find.
        :param ref: Or what to read: T12 (call), M34 (message), 12.3 (sentence).
        :param line: First line, or result.
        :param grep: Only lines of ref with this.
        """
        turn = (__metadata__ or {}).get(METADATA_KEY) or {}
        if not turn.get("state"):
            return NO_SUMMARY
        turn["recalls"] = turn.get("recalls", 0) + 1
        if turn["recalls"] > CALLS:
            return ENOUGH
        asked = {"state": turn["state"], "query": query, "ref": ref, "line": line, "grep": grep}
        try:
            loaded = __request__.app.state.FUNCTIONS[FILTER]
            answer = await loaded.send("POST", "recall", asked, TIMEOUT, turn.get("id", ""))
            return str(answer["text"])
        except Exception as error:
            # The error itself may quote the chat.
            log.warning("precis: a look-up failed: %s", type(error).__name__)
            return FAILED
