"""A rotation of keys that is killed again and again, while the service goes on: nothing is lost."""

import asyncio
import sys
from pathlib import Path

import pytest

from service.runtime import Urls
from service.storage import messages
from service.storage.tenancy import ChatKey
from service.usecases import rotate
from tests.conftest import drain
from tests.service.encrypted import FIRST, SECOND, service_with
from tests.service.harness import Harness
from tests.service.talk import Talk, check_tree, rows

pytestmark = pytest.mark.slow

KILLS = 25  # of each way
CHATS = 60
ROTATING = str(Path(__file__).with_name("rotating.py"))
ROOT = str(Path(__file__).parents[2])


async def killed(url: str, keys: str, batches: int) -> bool:
    """Lets a rotation do so many batches and kills it; whether it was done before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, ROTATING, url, keys, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": ROOT}
    )
    assert process.stdout
    said = b""
    for _ in range(batches):
        said = await process.stdout.readline()
    if not said or said == b"done\n":
        await process.wait()
        return True
    process.kill()
    await process.wait()
    return False


async def chats_of(harness: Harness) -> list[tuple[Talk, str]]:
    """So many chats with summaries."""
    made = []
    for number in range(CHATS):
        talk = Talk(harness.service.as_filter, f"chat-{number}", user=f"user-{number}")
        leaf = talk.turns(20)
        assert await talk.ingest(leaf)
        made.append((talk, leaf))
    await drain(harness.service.runtime)
    return made


@pytest.mark.parametrize("keys", [FIRST, f"{SECOND},{FIRST}"], ids=["from plain rows", "from another key"])
async def test_kills_of_a_rotation_lose_nothing_while_chats_go_on(urls: Urls, keys: str) -> None:
    before = "" if keys == FIRST else FIRST
    async with service_with(urls, before) as harness:
        made = await chats_of(harness)
        said = [await talk.ask(leaf) for talk, leaf in made]
        assert {one["status"] for one in said} == {"ready"}
    async with service_with(urls, keys) as harness:
        talks = [(Talk(harness.service.as_filter, talk.chat, talk.rows, user=talk.user), leaf) for talk, leaf in made]
        kills = 0
        for kill in range(KILLS):
            going = asyncio.create_task(killed(urls.database, keys, 1))
            talk, leaf = talks[kill % CHATS]
            talks[kill % CHATS] = talk, talk.turns(1, leaf=leaf)
            await talk.ingest(talks[kill % CHATS][1])
            kills += not await going
        assert kills == KILLS

        held = await rotate.rotate(harness.runtime.database, lambda _: None)

        assert {one.key for one in held} == {2 if before else 1}
        for (talk, leaf), known in zip(made, said, strict=True):
            now = await Talk(harness.service.as_filter, talk.chat, talk.rows, user=talk.user).ask(leaf)
            assert now["summary"] == known["summary"]
        await check_tree(harness.runtime)
        stored = await rows(harness.runtime, "select tenant_id, chat_id, message_id from messages")
        assert len(stored) == sum(len(talk.rows) for talk, _ in talks)
        async with harness.runtime.database.engine.connect() as connection:
            for one in stored:
                key = ChatKey(one.tenant_id, one.chat_id)
                assert await messages.bodies(connection, key, [one.message_id])
