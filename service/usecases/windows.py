"""Use case: the windows of models, also of those of which nobody tells it.

Ollama cuts what does not fit without a word, and says afterwards how many tokens it has read. So
where nobody tells a window, that says what it is.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.planning import policy
from service.settings import Settings
from service.storage import chats
from service.storage.database import Database

_KNOWN_FOR: Final = 30.0  # seconds that what answers have shown is remembered here
_MOST_TENANTS: Final = 1000  # that are remembered


class Window(NamedTuple):
    """A model's window in tokens; `assumed` says that nobody knows it."""

    tokens: int
    assumed: bool


class _ShownWindows(NamedTuple):
    by_model: dict[str, int]
    until: float


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of the models of all tenants. Only for the event loop."""

    database: Database
    settings: Settings
    _shown: dict[int, _ShownWindows] = field(default_factory=dict)

    async def find(self, tenant: int, model: str, told: Sequence[int]) -> Window:
        """The window of a tenant's model; `told` are sizes for it, the most trusted first."""
        known = policy.find_plausible_window(told) or self.settings.of_model(model).window
        if known is None:
            known = (await self._shown_to(tenant)).get(model)
        return Window(known or self.settings.window, assumed=known is None)

    async def note(self, tenant: int, model: str, window: int) -> None:
        """Notes what an answer has shown."""
        self._shown.pop(tenant, None)
        async with self.database.engine.begin() as connection:
            await chats.note_window(connection, tenant, model, window)

    async def _shown_to(self, tenant: int) -> dict[str, int]:
        now = time.monotonic()
        found = self._shown.get(tenant)
        if found is None or found.until < now:
            if len(self._shown) >= _MOST_TENANTS:
                self._shown.clear()
            by_model = await chats.find_shown_windows(self.database.hot, tenant)
            found = self._shown[tenant] = _ShownWindows(by_model, now + _KNOWN_FOR)
        return found.by_model
