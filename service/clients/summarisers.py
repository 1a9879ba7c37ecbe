"""Makes the summariser that the settings ask for."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import httpx

from service.clients.llm import Endpoint, OllamaSummariser, OpenAISummariser, request_reply
from service.errors import SummariserError
from service.settings import Settings
from service.summarising.reading import Summariser

_PROBE = 10  # seconds
_NAMED = 5  # models in a warning


def open_client(settings: Settings) -> httpx.AsyncClient:
    """The client that asks summarisers; it bypasses the environment's proxy unless that is wanted.

    A proxy that is set for other programs would see texts and key.
    """
    if settings.use_proxy:
        return httpx.AsyncClient()
    # Not `trust_env=False`: with that, the certificates of `SSL_CERT_FILE` would not count either.
    return httpx.AsyncClient(mounts={"all://": None, "http://": None, "https://": None})


def make_summariser(settings: Settings, http: httpx.AsyncClient) -> Summariser | None:
    """The summariser of the settings; None when code alone makes summaries."""
    return _make_client_for(settings, http, settings.summariser_model)


def make_summarisers(settings: Settings, http: httpx.AsyncClient) -> dict[str, Summariser]:
    """The summarisers of the models that have one of their own, at the same address."""
    own = {name: one.summariser_model for name, one in settings.models.items()}
    summarisers = {
        name: _make_client_for(settings, http, model) for name, model in own.items() if model
    }
    return {name: one for name, one in summarisers.items() if one}


async def check_endpoint(settings: Settings, http: httpx.AsyncClient) -> list[str]:
    """Warnings about the models of the settings: no answer, or no such model.

    Costs no tokens. A server that does not tell which models it has is taken as it is.
    """
    if settings.summariser == "extractive":
        return []
    endpoint = _make_endpoint(settings, http, settings.summariser_model)
    url = endpoint.base_url
    path = "/models" if settings.summariser == "openai" else "/api/tags"
    try:
        async with asyncio.timeout(_PROBE):
            answer, content = await request_reply(endpoint, path)
    except TimeoutError:
        return [f"the summariser at {url} does not answer within {_PROBE} s"]
    except SummariserError as error:
        return [f"the summariser does not answer: {error}"]
    if answer.status_code in (401, 403):
        return [f"the summariser at {url} refuses the key: HTTP {answer.status_code}"]
    there = _list_models(content)
    some = ", ".join(sorted(there)[:_NAMED]) + (", …" if len(there) > _NAMED else "")
    return [
        f"the summariser at {url} has no model {name!r}; it has {some}"
        for name in _find_missing_models(settings, there)
    ]


def _find_missing_models(settings: Settings, there: set[str]) -> list[str]:
    """The models of the settings that a server does not have; none if it told of none."""
    own = [one.summariser_model for one in settings.models.values()]
    models = sorted({name for name in (settings.summariser_model, *own) if name})
    return [name for name in models if there and not {name, f"{name}:latest"} & there]


def _list_models(content: bytes | bytearray) -> set[str]:
    """The names that a list of models has; empty when the answer is no such list."""
    try:
        answer: Any = json.loads(content)
        listed = answer["data"] if "data" in answer else answer["models"]
        return {str(one.get("id") or one["name"]) for one in listed}
    except (ValueError, LookupError, TypeError, AttributeError):
        return set()


def _make_client_for(settings: Settings, http: httpx.AsyncClient, model: str) -> Summariser | None:
    if settings.summariser == "extractive":
        return None
    endpoint = _make_endpoint(settings, http, model)
    if settings.summariser == "openai":
        return OpenAISummariser(endpoint)
    return OllamaSummariser(endpoint, window=settings.summariser_window)


def _make_endpoint(settings: Settings, http: httpx.AsyncClient, model: str) -> Endpoint:
    return Endpoint(
        http=http,
        base_url=settings.summariser_url,
        model=model,
        api_key=settings.summariser_key.get_secret_value() or None,
        limit=timedelta(seconds=settings.summariser_timeout),
    )
