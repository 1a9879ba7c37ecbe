"""Makes the summariser that the settings ask for."""

from datetime import timedelta

import httpx

from service.clients.llm import Endpoint, OllamaSummariser, OpenAISummariser, Patience
from service.settings import Settings
from service.summarising.reading import Summariser


def configured(settings: Settings, http: httpx.AsyncClient) -> Summariser | None:
    """The summariser of the settings; None when code alone makes summaries."""
    return _of(settings, http, settings.summariser_model)


def for_models(settings: Settings, http: httpx.AsyncClient) -> dict[str, Summariser]:
    """The summarisers of the models that have one of their own, at the same address."""
    own = {name: one.summariser_model for name, one in settings.models.items()}
    made = {name: _of(settings, http, model) for name, model in own.items() if model}
    return {name: one for name, one in made.items() if one}


def _of(settings: Settings, http: httpx.AsyncClient, model: str) -> Summariser | None:
    if settings.summariser == "extractive":
        return None
    endpoint = Endpoint(
        http=http,
        base_url=settings.summariser_url,
        model=model,
        api_key=settings.summariser_key.get_secret_value() or None,
        patience=Patience(
            read=timedelta(seconds=settings.summariser_timeout),
            total=timedelta(seconds=settings.summariser_timeout),
        ),
    )
    if settings.summariser == "openai":
        return OpenAISummariser(endpoint)
    return OllamaSummariser(endpoint, window=settings.summariser_window)
