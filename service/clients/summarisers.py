"""Makes the summariser that the settings ask for."""

from datetime import timedelta

import httpx

from service.clients.llm import Endpoint, OllamaSummariser, OpenAISummariser
from service.settings import Settings
from service.summarising.reading import Summariser


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
        api_key=settings.summariser_key.get_secret_value(),
        limit=timedelta(seconds=settings.summariser_timeout),
    )
