"""Whose upload is worked on next."""

import asyncio
import gc

import pytest

from service.errors import Problem
from service.usecases import uploads
from service.usecases.uploads import UploadQueue, UserKey


class Line:
    """Uploads by name, such as `1a`: tenant 1, user a. Each goes on until it is let go."""

    def __init__(self) -> None:
        self.queue = UploadQueue()
        self.begun = list[str]()
        self.go = list[asyncio.Event]()

    async def _upload(self, name: str) -> None:
        async with self.queue.turn(UserKey(int(name[0]), name[1:])):
            self.begun.append(name)
            self.go.append(go := asyncio.Event())
            await go.wait()

    async def upload(self, *names: str) -> list[asyncio.Task[None]]:
        made = [asyncio.create_task(self._upload(name)) for name in names]
        await settled()
        return made

    async def end(self, place: int) -> None:
        """Ends the one that began at this place, counted from 0."""
        self.go[place].set()
        await settled()


async def settled() -> None:
    """Whoever can go on has done so."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def line() -> Line:
    return Line()


async def test_who_waits_too_long_is_refused_and_nobody_after_it(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    await line.upload("1a")
    monkeypatch.setattr(uploads, "_PATIENCE", 0.01)
    (late,) = await line.upload("1a")
    with pytest.raises(Problem, match=r"^This user has uploads that took 0.01 s; retry in 10 s$"):
        await late
    monkeypatch.undo()
    await line.upload("1a")
    await line.end(0)
    assert line.begun == ["1a", "1a"]


async def test_a_user_has_a_bounded_number_of_uploads_and_takes_no_turn_of_another(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_MOST", 2)
    await line.upload("1a", "1a")
    (refused,) = await line.upload("1a")
    with pytest.raises(Problem, match=r"^This user already has 2 uploads in progress; retry in 10 s$"):
        await refused
    await line.upload("1b", "2a")
    assert line.begun == ["1a", "1b", "2a"]
    await line.end(0)
    await line.upload("1a")
    await line.end(3)
    assert line.begun == ["1a", "1b", "2a", "1a", "1a"]


async def test_who_is_cancelled_while_waiting_or_working_leaves_its_place(line: Line) -> None:
    first, second, _ = await line.upload("1a", "1a", "1a")
    second.cancel()
    first.cancel()
    await settled()
    assert line.begun == ["1a", "1a"]
    await line.end(1)
    del first, second
    gc.collect()  # a task's traceback may still refer to its user
    assert not line.queue._users
