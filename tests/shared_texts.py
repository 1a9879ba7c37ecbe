"""Text processes that tests of many event loops share: starting them takes longer than most tests."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import ParamSpec, TypeVar

from service.processes import Texts

P = ParamSpec("P")
T = TypeVar("T")


class SharedTexts(Texts):
    """A pool that lives in a loop of its own, which runs in a thread. The processes start when they are needed."""

    def __init__(self) -> None:
        super().__init__(2, seconds=60, memory=2**30)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._in_loop(super().run(function, *args, **kwargs))

    async def warm_up(self) -> None:
        await self._in_loop(super().warm_up())

    def stop(self) -> None:
        """Ends the processes and the thread."""
        asyncio.run_coroutine_threadsafe(self.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _in_loop(self, work: Coroutine[object, object, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
