"""Makes the summariser that the settings ask for."""

from datetime import timedelta

import httpx

from service.settings import Settings
from service.summarising.clients import Endpoint, OllamaSummariser, OpenAISummariser, Patience
from service.summarising.extractive import extract
from service.summarising.reading import Finish, Reading, Reply, Run, Summariser


class ExtractiveSummariser:
    """The built-in one, behind the same seam as the LLMs."""

    name = "extractive"

    def __init__(self, run: Run) -> None:
        self._run = run

    async def summarise(self, reading: Reading) -> Reply:
        """Picks sentences, beside the event loop."""
        return Reply(await self._run(extract, reading), Finish.STOP)


def configured(settings: Settings, http: httpx.AsyncClient, built_in: ExtractiveSummariser) -> Summariser:
    """The summariser of the settings; `built_in` when no LLM is configured."""
    if settings.summariser == "extractive":
        return built_in
    endpoint = Endpoint(
        http=http,
        base_url=settings.summariser_url,
        model=settings.summariser_model,
        api_key=settings.summariser_key.get_secret_value() or None,
        patience=Patience(
            read=timedelta(seconds=settings.summariser_timeout),
            total=timedelta(seconds=settings.summariser_timeout),
        ),
    )
    if settings.summariser == "openai":
        return OpenAISummariser(endpoint)
    return OllamaSummariser(endpoint, window=settings.summariser_window)
