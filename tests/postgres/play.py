"""Runs pytest in a process of its own on servers that the caller has started; its exit code comes out."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOUCHING_THE_DATABASE = ("tests/migrations", "tests/service", "tests/workers")


async def pytest(database: str, redis: str, options: Sequence[str]) -> int:
    """Runs all tests that touch the database, unless the options name others. Ctrl-C reaches it too, and it ends."""
    named = any((ROOT / option.split("::")[0]).exists() for option in options)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "--quiet", *options, *(() if named else TOUCHING_THE_DATABASE)),
        cwd=ROOT,
        env=os.environ | {"TEST_DATABASE_URL": database, "TEST_REDIS_URL": redis},
    )
    try:
        return await process.wait()
    finally:
        await process.wait()
