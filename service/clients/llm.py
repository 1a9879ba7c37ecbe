"""The two summarisers that ask a model over HTTP: `Reading` → one POST → `Reply`.

`OpenAISummariser` speaks `/chat/completions` (OpenAI, llama.cpp, vLLM, ...), `OllamaSummariser`
Ollama's own `/api/chat`. They differ in how a request is written; `_post_json` does the
rest. Nothing is tried again here: the chat backs off, and the breaker stops
all calls (`usecases.compress`). Every failure is a `SummariserError` that names the model, the
address, what happened and how to fix it; only its `detail` quotes what was answered, because
servers repeat what they were asked. Nothing here judges a text: an empty or cut-off answer is a
`Reply` like any other, and `gate` rejects it.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter
from typing import Final

import httpx

from service import metrics, request_ids
from service.clients.answers import ABOUT_THE_REQUEST, read_completion, shorten
from service.errors import ConfigurationError, SummariserAway, SummariserError
from service.planning.policy import count_output_tokens
from service.summarising.prompt import build
from service.summarising.reading import Reading, Reply

# Summaries have kilobytes; an endless answer must not fill memory.
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024

# No user, password or query: URLs are logged.
_BASE_URL: Final = re.compile(r"https?://[^/?#@\s]+(/[^?#\s]*)?")
_WINDOW_EXCEEDED: Final = re.compile("context.?(size|length|window)", re.IGNORECASE)
_TEMPERATURE: Final = 0.3
_SLOW: Final = "Raise the summariser's time limit, or take a faster model."
_HINTS: Final[Mapping[int, str]] = {
    **dict.fromkeys((301, 302, 307, 308), "The base URL redirects: set the address behind it."),
    **dict.fromkeys((401, 403), "Check the API key, and that it may use this model."),
    404: "Check the name of the model and the base URL.",
}
_Payload = dict[str, object]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a model. `api_key` is sent as a bearer token and shown nowhere.

    `limit` is how long one call may take. Nothing is streamed: nothing arrives before the last
    token is written.
    """

    http: httpx.AsyncClient
    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    limit: timedelta = timedelta(seconds=240)

    def __post_init__(self) -> None:
        if not _BASE_URL.fullmatch(self.base_url):
            raise ConfigurationError(
                "The summariser's base URL must be http://host:port/path and no more."
            )
        if self.api_key and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigurationError(
                "The summariser's API key has line ends or non-ASCII characters."
            )

    def failure(
        self, what: str, hint: str = "", *, quoted: str = "", away: bool = True
    ) -> SummariserError:
        """The error in words for people, without the key, which some servers repeat to the caller.

        `what` and `hint` are words of ours; `quoted` is what somebody else said, for the error's
        detail. `away`: every request would fail like this one.
        """
        model = f"Model {self.model!r} at {self.base_url}"
        whole = f"{what}: {self._redacted(quoted)}" if quoted else what
        kind = SummariserAway if away else SummariserError
        return kind(f"{model}: {what}. {hint}".strip(), f"{model}: {whole}. {hint}".strip())

    def excerpt(self, content: bytearray) -> str:
        """The start of an answer, on one line."""
        # Redacted before it is cut, so that no half of a key stays.
        return shorten(self._redacted(content.decode(errors="replace")))

    def _redacted(self, text: str) -> str:
        return text.replace(self.api_key, "[API key]") if self.api_key else text


class OpenAISummariser:
    """Asks an OpenAI-compatible server; its base URL usually ends in `/v1`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = f"openai:{endpoint.model}"
        self._endpoint = endpoint

    async def summarise(self, reading: Reading) -> Reply:
        """See `Summariser`. The message's reasoning is never part of the reply, however named."""
        fields = {
            "max_tokens": count_output_tokens(reading.state_tokens),
            "temperature": _TEMPERATURE,
        }
        request = _request(self._endpoint, reading) | fields
        return await _post_json(self._endpoint, "/chat/completions", request)


class OllamaSummariser:
    """Asks a native Ollama; its base URL usually has no path.

    `window` is the summariser's context window in tokens and always sent: Ollama's own default is
    small, and what is longer is silently cut. `truncate` and `shift` make newer versions (0.12)
    refuse instead of cut; older ones ignore them.
    """

    def __init__(self, endpoint: Endpoint, *, window: int) -> None:
        self.name = f"ollama:{endpoint.model}"
        self._endpoint = endpoint
        self._options = {"num_ctx": window, "temperature": _TEMPERATURE}

    async def summarise(self, reading: Reading) -> Reply:
        """See `Summariser`. The message's `thinking` is never part of the reply."""
        options = self._options | {"num_predict": count_output_tokens(reading.state_tokens)}
        fields = {"truncate": False, "shift": False, "options": options}
        request = _request(self._endpoint, reading) | fields
        return await _post_json(self._endpoint, "/api/chat", request)


def _request(endpoint: Endpoint, reading: Reading) -> _Payload:
    return {"model": endpoint.model, "messages": build(reading).messages, "stream": False}


async def _post_json(endpoint: Endpoint, path: str, request: _Payload) -> Reply:
    began, outcome = perf_counter(), "failed"
    try:
        async with asyncio.timeout(endpoint.limit.total_seconds()):
            reply = await _answered(endpoint, path, request)
        outcome = "answered"
        return reply
    except TimeoutError:
        outcome = "away"
        raise endpoint.failure(f"no whole answer in {endpoint.limit}", _SLOW) from None
    except SummariserAway:
        outcome = "away"
        raise
    finally:
        metrics.SUMMARISER_CALLS.labels(outcome).observe(perf_counter() - began)


async def _answered(endpoint: Endpoint, path: str, request: _Payload) -> Reply:
    response, content = await _request_reply(endpoint, path, request)
    if response.status_code != httpx.codes.OK:
        raise _refusal(endpoint, response, content)
    try:
        return read_completion(json.loads(content))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"not a chat answer ({type(error).__name__})"
        quoted = f"{error}: {endpoint.excerpt(content)}"
        raise endpoint.failure(what, "Check the base URL.", quoted=quoted) from error


async def _request_reply(
    endpoint: Endpoint, path: str, request: _Payload
) -> tuple[httpx.Response, bytearray]:
    """One answer of an endpoint, bounded.

    Raises:
        SummariserError: there is none, or it is too long.
    """
    # Chats may have halves of surrogate pairs, which JSON can say and UTF-8 cannot: each becomes a
    # question mark.
    body = json.dumps(request, ensure_ascii=False).encode(errors="replace")
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if request_id := request_ids.get_current():
        headers[request_ids.HEADER] = request_id
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    timeout = httpx.Timeout(None, connect=5)
    url, content = endpoint.base_url.rstrip("/") + path, bytearray()
    try:
        async with endpoint.http.stream(
            "POST",
            url,
            content=body,
            headers=headers,
            timeout=timeout,
            follow_redirects=False,
        ) as response:
            # Never unpacked: a small answer could fill memory before it is counted.
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise endpoint.failure(
                        f"HTTP {response.status_code} and over {MAX_ANSWER_BYTES} bytes"
                    )
        return response, content
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what, quoted = type(error).__name__, str(error).rstrip(".")
        raise endpoint.failure(what, "Is the server up?", quoted=quoted) from error


def _refusal(endpoint: Endpoint, response: httpx.Response, content: bytearray) -> SummariserError:
    status = response.status_code
    hint = _HINTS.get(status, "")
    if not hint and _WINDOW_EXCEEDED.search(content.decode(errors="replace")):
        hint = "The configured window is larger than the server's: lower it, or raise the server's."
    is_away = status not in ABOUT_THE_REQUEST
    return endpoint.failure(f"HTTP {status}", hint, quoted=endpoint.excerpt(content), away=is_away)
