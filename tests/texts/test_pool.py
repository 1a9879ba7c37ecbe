"""Text processes: what a hard text does to them, and what it does not do to anybody else."""

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from service.errors import BadRequest, TextProcessAway, TextTooHard, TextWorkFailed
from service.processes import Texts
from tests.texts import strange
from tests.waiting import until

MEMORY = 2**30
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def texts() -> AsyncIterator[Texts]:
    """One process, and a second of CPU for each call."""
    async with aclosing(Texts(1, seconds=1, memory=MEMORY)) as pool:
        yield pool


async def test_a_function_gives_its_result(texts: Texts) -> None:
    assert await texts.run(strange.shout, "grüße") == "GRÜSSE"
    assert await texts.run(strange.shout, text="x" * 10**6) == "X" * 10**6


HARD = {
    "time": strange.never_ends,
    "memory": strange.eats_memory,
    "crash": strange.crashes,
}


@pytest.mark.parametrize("kind", HARD)
async def test_a_hard_text_is_an_error_that_says_of_which_kind_and_the_next_call_is_done(
    texts: Texts, kind: str
) -> None:
    before = await texts.run(strange.process)

    with pytest.raises(TextTooHard) as caught:
        await texts.run(HARD[kind])

    assert caught.value.kind == kind
    assert await texts.run(strange.shout, "on") == "ON"
    assert await texts.run(strange.process) != before
    await until(lambda: not psutil.pid_exists(before))


async def test_a_call_that_is_given_up_in_the_midst_of_a_long_reply_leaves_no_pipe_open() -> None:
    async with aclosing(Texts(1, seconds=20, memory=MEMORY)) as pool:
        await pool.warm_up()
        (process,) = pool._processes
        given_up = asyncio.create_task(pool.run(strange.shout, "x" * 10**7))
        # Only between two looks at the reply does its reader not ask for more.
        while not (process.stdout and process.stdout._paused):  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0)
        given_up.cancel()

        async with asyncio.timeout(20):
            await process.wait()


async def test_an_error_tells_its_type_and_place_and_nothing_of_the_text(texts: Texts) -> None:
    before = await texts.run(strange.process)

    where = r"^unexpected ValueError at processes/child.py:\d+ in run_message, strange.py:\d+ in raises$"
    with pytest.raises(TextWorkFailed, match=where):
        await texts.run(strange.raises, "my secret")

    assert await texts.run(strange.process) == before, "nothing is wrong with the process"


async def test_an_error_of_ours_comes_back_as_it_is(texts: Texts) -> None:
    with pytest.raises(BadRequest, match=r"^3 characters are too many$"):
        await texts.run(strange.refuses, "abc")


async def test_calls_beside_a_hard_one_are_done_meanwhile() -> None:
    async with aclosing(Texts(2, seconds=60, memory=MEMORY)) as pool:
        hard = asyncio.create_task(pool.run(strange.never_ends))
        await asyncio.sleep(0)
        assert [await pool.run(strange.shout, text) for text in "abc"] == ["A", "B", "C"]
        assert not hard.done()
        hard.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hard


async def test_a_cancelled_call_ends_its_process(texts: Texts) -> None:
    process = psutil.Process(await texts.run(strange.process))
    call = asyncio.create_task(texts.run(strange.never_ends))

    async def busy() -> bool:
        return process.cpu_percent() > 0

    await until(busy)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await until(lambda: not process.is_running())
    assert await texts.run(strange.process) != process.pid


async def test_a_start_goes_on_when_its_caller_waits_no_longer() -> None:
    async with aclosing(Texts(1, seconds=60, memory=MEMORY)) as pool:
        call = asyncio.create_task(pool.run(strange.process))
        await until(lambda: bool(pool._processes))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (started,) = pool._processes

        assert await pool.run(strange.process) == started.pid


async def test_a_process_that_died_while_it_was_idle_is_replaced(texts: Texts) -> None:
    before = await texts.run(strange.process)
    os.kill(before, signal.SIGKILL)

    await until(lambda: texts._idle[0].returncode is not None)
    assert await texts.run(strange.shout, "on") == "ON"


async def test_a_process_has_neither_our_terminal_nor_our_secrets_nor_our_sockets(
    texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_SUMMARISER_KEY", "secret")
    with pytest.raises(TextTooHard):
        await texts.run(strange.dies)  # the next one starts with this environment

    pid, session = await texts.run(strange.session)

    assert pid == session, "Ctrl-C goes to the foreground's processes, and this is none"
    assert "PRECIS_SUMMARISER_KEY" not in await texts.run(strange.environment)
    assert await texts.run(strange.sockets) <= 1, "at most the one to us"


async def test_no_process_is_left_of_a_closed_pool() -> None:
    pool = Texts(1, seconds=60, memory=MEMORY)
    process = await pool.run(strange.process)
    hard = asyncio.create_task(pool.run(strange.never_ends))
    waiting = asyncio.create_task(pool.run(strange.shout, "a"))
    await asyncio.sleep(0)

    await pool.aclose()

    for call in (hard, waiting):
        with pytest.raises(TextProcessAway, match="the service is stopping"):
            await call
    assert not psutil.pid_exists(process)


PARENT = """
import asyncio
from service.processes import Texts
from tests.texts import strange

async def main():
    texts = Texts(2, seconds=600, memory=2**30)
    print(await texts.run(strange.process), flush=True)
    await texts.run(strange.never_ends)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a busy one ends at its bound of CPU")
async def test_a_busy_process_does_not_outlive_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", textwrap.dedent(PARENT)]
    pipe = asyncio.subprocess.PIPE
    parent = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe)
    assert parent.stdout
    await parent.stdout.readline()
    children = psutil.Process(parent.pid).children()
    assert children

    parent.kill()
    await parent.communicate()

    _, alive = await asyncio.to_thread(psutil.wait_procs, children, 30)
    assert alive == []
