"""What a host handed in for a prompt, read in a process of its own: any of it may be too hard."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from service.clients.answers import RawAnswer, read_answer
from service.errors import SummariserAway, SummariserError
from service.storage import codec
from service.summarising.reading import Reply
from service.text import tokens

_SHOWN: Final = 0.6
"""Of our count of a prompt. A model that was shown less of it was shown a part: hosts and servers
cut without a word, and no two tokenizers differ by so much."""
_WANTS_STREAM: Final = re.compile("stream", re.IGNORECASE)


class Failure(NamedTuple):
    """Why there is no reply: in our own words, and in detail, which may quote the chat.

    `is_away` says that every request would fail like this one, `wants_stream` that it may be
    answered if it asks for a stream.
    """

    reason: str
    detail: str
    is_away: bool = False
    wants_stream: bool = False


def read_reply(packed: bytes, form: Mapping[str, Any]) -> Reply | Failure:
    """The reply to the request `form`, or why there is none."""
    handed_in = codec.unpack(packed)
    body = handed_in.get("completion")
    answer = RawAnswer(handed_in["status"], handed_in.get("body") if body is None else body)
    try:
        reply = read_answer(answer, form["max_tokens"])
    except SummariserError as error:
        wants_stream = not form["stream"] and bool(_WANTS_STREAM.search(error.detail))
        is_away = isinstance(error, SummariserAway)
        return Failure(str(error), error.detail, is_away, wants_stream)
    whole = sum(tokens.count(message["content"]) for message in form["messages"])
    if reply.prompt_tokens is not None and reply.prompt_tokens < whole * _SHOWN:
        cut = (
            f"it was shown {reply.prompt_tokens:,} of some {whole:,} tokens of its prompt, so its"
            " window is smaller than is known here: set it (num_ctx) in the host, or in"
            " PRECIS_MODELS"
        )
        return Failure(cut, cut)
    return reply
