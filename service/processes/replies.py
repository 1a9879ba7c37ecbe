"""Reads a host's reply to a prompt in a process of its own, because it may be too hard."""

import re
from collections.abc import Mapping
from http.client import FORBIDDEN
from typing import Any, Final, NamedTuple

from service.clients.answers import RawAnswer, read_answer
from service.errors import SummariserAway, SummariserError
from service.storage import codec
from service.summarising.reading import Reply
from service.text import tokens

_SHOWN: Final = 0.6
"""A share of our count of a prompt. A model that was shown less was shown a part: hosts and
servers cut without a word, and no two tokenizers differ by so much."""
_ABOUT_TEMPERATURE: Final = re.compile(r"\btemperature\b", re.IGNORECASE)
_ABOUT_STREAM: Final = re.compile(r"\bstream", re.IGNORECASE)  # "upstream" is another matter
# Open WebUI says this, with status 500, of a model that the user may not use or that is gone.
_NOT_FOR_USER: Final = "Model not found"
_Form = Mapping[str, Any]


class Failure(NamedTuple):
    """Why there is no reply: in our own words, and in detail, which may quote the chat.

    `is_away` says that every request would fail like this one. `amended` is a request that may be
    answered in its place: some models refuse a temperature, and some pipes all but a stream.
    """

    reason: str
    detail: str
    is_away: bool = False
    amended: dict[str, Any] | None = None


def read_reply(packed: bytes, form: _Form) -> Reply | Failure:
    """The reply to the request `form`, or why there is none."""
    handed_in = codec.unpack(packed)
    body = handed_in.get("completion")
    answer = RawAnswer(handed_in["status"], handed_in.get("body") if body is None else body)
    try:
        reply = read_answer(answer, form["max_tokens"])
    except SummariserError as error:
        is_refusal = answer.status == FORBIDDEN or _NOT_FOR_USER in error.detail
        is_away = isinstance(error, SummariserAway) and not is_refusal
        return Failure(str(error), error.detail, is_away, _amend(form, error.detail))
    whole = sum(tokens.count(message["content"]) for message in form["messages"])
    if reply.prompt_tokens is not None and reply.prompt_tokens < whole * _SHOWN:
        cut = (
            f"it was shown {reply.prompt_tokens:,} of some {whole:,} tokens of its prompt, so its"
            " window is smaller than is known here: set it (num_ctx) in the host, or in"
            " PRECIS_MODELS"
        )
        return Failure(cut, cut)
    return reply


def _amend(form: _Form, refusal: str) -> dict[str, Any] | None:
    """The request without what a refusal names; None where it names nothing that can go."""
    if "temperature" in form and _ABOUT_TEMPERATURE.search(refusal):
        return {name: value for name, value in form.items() if name != "temperature"}
    if not form["stream"] and _ABOUT_STREAM.search(refusal):
        return {**form, "stream": True}
    return None
