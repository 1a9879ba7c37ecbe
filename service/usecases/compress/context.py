"""What a worker works with, the same for every chat."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from service.processes import Texts
from service.settings import Settings
from service.summarising.reading import Summariser


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What a worker works with. Without a `summariser`, code alone makes summaries.

    `slow` is for what may take minutes, as in `Database`.

    `others` are the summarisers of models that have one of their own. They share the breaker and
    the bound of `summariser`, because they stand at the same address.

    `texts` are the processes in which texts are read, for any may be too hard. `worker` names this
    process to operators. `warnings` say what is amiss with the settings or the summariser; they
    come and go while the process runs.
    """

    engine: AsyncEngine
    slow: AsyncEngine
    settings: Settings
    summariser: Summariser | None
    texts: Texts
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    others: Mapping[str, Summariser] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def summariser_of(self, model: str) -> Summariser | None:
        """Who writes the summaries of the chats of a model."""
        return self.others.get(model, self.summariser)

    @property
    def by(self) -> str:
        """Who writes summaries, for people; each tenant may choose models of its host."""
        return self.summariser.name if self.summariser else "models of Open WebUI, or by code"

    @property
    def endpoint(self) -> str | None:
        """What the fleet shares a breaker and a bound for; None for the built-in summariser."""
        if self.summariser is None:
            return None
        return f"{self.summariser.name} {self.settings.summariser_url}".strip()
