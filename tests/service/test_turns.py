"""Whose ingest is next."""

import asyncio

import pytest

from service.errors import TooMany
from service.usecases import turns
from service.usecases.turns import Turns, Whose

LARGEST = 2**15  # bytes; a user may have three times as many


class Line:
    """Uploads by name, such as `1a`: tenant 1, user a. Each goes on until it is let go."""

    def __init__(self) -> None:
        self.turns = Turns(LARGEST)
        self.begun = list[str]()
        self.go = dict[int, asyncio.Event]()

    def upload(self, name: str, size: int = 1) -> asyncio.Task[None]:
        return asyncio.create_task(self._upload(name, size))

    async def _upload(self, name: str, size: int) -> None:
        async with self.turns.turn(Whose(int(name[0]), name[1:]), size):
            self.begun.append(name)
            self.go[len(self.begun)] = go = asyncio.Event()
            await go.wait()

    async def uploads(self, *names: str) -> list[asyncio.Task[None]]:
        made = [self.upload(name) for name in names]
        await settled()
        return made

    async def end(self, number: int) -> None:
        """Ends the one that began as the n-th."""
        self.go[number].set()
        await settled()


async def settled() -> None:
    """Whoever can go on has done so."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def line() -> Line:
    return Line()


async def test_one_upload_of_a_user_is_under_way_and_the_rest_follow_in_order(line: Line) -> None:
    await line.uploads("1a", "1a", "1a", "1b")
    assert line.begun == ["1a", "1b"]
    await line.end(1)
    assert line.begun == ["1a", "1b", "1a"]


async def test_a_tenant_of_many_users_leaves_turns_for_another(line: Line) -> None:
    await line.uploads(*(f"1{number}" for number in range(60)), "2a")
    assert line.begun == [*(f"1{number}" for number in range(turns._OF_TENANT)), "2a"]


async def test_the_tenant_with_the_fewest_under_way_is_next_and_its_users_take_turns(line: Line) -> None:
    first = [f"1{number}" for number in range(turns._OF_TENANT)]
    second = [f"2{number}" for number in range(turns._AT_ONCE - turns._OF_TENANT)]
    await line.uploads(*first, *second)
    assert len(line.begun) == turns._AT_ONCE, "all turns are taken"
    await line.uploads("1x", "1x", "1y", "3a", "2x")
    for number in range(1, 6):
        await line.end(number)
    assert line.begun[turns._AT_ONCE :] == ["3a", "2x", "1x", "1y"]


async def test_who_waits_too_long_is_refused_and_nobody_after_it(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    await line.uploads("1a")
    monkeypatch.setattr(turns, "_PATIENCE", 0.01)
    with pytest.raises(TooMany):
        await line.upload("1a")
    monkeypatch.undo()
    await line.uploads("1a")
    await line.end(1)
    assert line.begun == ["1a", "1a"]


async def test_what_one_user_sends_leaves_room_for_somebody_elses(line: Line) -> None:
    for _ in range(3):
        line.upload("1a", LARGEST)
        await settled()
    with pytest.raises(TooMany):
        await line.upload("1a")
    line.upload("1b", LARGEST)
    await settled()
    assert line.begun == ["1a", "1b"]


async def test_who_is_cancelled_while_waiting_leaves_its_line(line: Line) -> None:
    _, second, _ = await line.uploads("1a", "1a", "1a")
    second.cancel()
    await line.end(1)
    await line.end(2)
    assert line.begun == ["1a", "1a"]
    assert not any(vars(line.turns)[name] for name in ("_under_way", "_lines", "_bytes"))


async def test_who_is_cancelled_as_its_turn_comes_gives_it_back(line: Line) -> None:
    line.turns._under_way.add(Whose(1, "a"))
    (second,) = await line.uploads("1a")
    line.turns._end(Whose(1, "a"))
    second.cancel()
    await settled()
    assert line.begun == []
    assert not any(vars(line.turns)[name] for name in ("_under_way", "_lines", "_bytes"))
