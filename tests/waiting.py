"""Waiting for what sends no event, with a deadline."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(
    condition: Callable[[], bool | Awaitable[bool]], seconds: float = 120.0, *, every: float = 0.01
) -> None:
    """Returns as soon as `condition` holds, looked at every so often (seconds); TimeoutError if it never does."""
    async with asyncio.timeout(seconds):
        while True:
            held = condition()
            if await held if inspect.isawaitable(held) else held:
                return
            await asyncio.sleep(every)
