"""What a summary says is stored once on a line of checkpoints, and read again as it was."""

import random
from dataclasses import replace

import pytest

from service.errors import CannotOpen
from service.storage import checkpoints, codec
from service.storage.tables import ChatKey
from service.summarising.ledger import Entry
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.utterances import Speaker, Utterance
from tests.service.harness import Harness
from tests.service.talk import run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 2 * codec.WHOLE_EVERY + 2


def said(step: int) -> Utterance:
    return Utterance(step, 1, Speaker.USER, f"Sentence {step}.", f"u{step}")


def called(number: int) -> Entry:
    return Entry(number, number, "look_up", "", (f"Result {number}.",))


def grown(number: int) -> Memory:
    """The memory of a line's checkpoint `number`: of the older parts some are left out, and two have merged."""
    pin = Pin(1, Kind.RULE, "Peace.", "u1")
    return Memory(
        state=(f"State {number}.",),
        pins=(pin, replace(pin, number=2, replaced_by=number)),
        talk=tuple(said(step) for step in range(number + 1) if step == number or step % 3),
        ledger=(replace(called(1), last=number + 1), *(called(one) for one in range(number, number + 5))),
        heard=number,
        told=number,
    )


async def test_a_sentence_that_the_summary_shows_is_stored_once() -> None:
    sentence = random.Random(1).randbytes(1000).hex()
    memory = Memory(talk=(replace(said(1), text=sentence),))
    summary = f"A record.\nuser: {sentence}"

    packed = codec.pack_memory(memory, summary)

    assert len(packed) < 1000 < len(codec.pack_memory(memory))
    assert codec.unpack_memory([codec.StoredMemory(packed, codec.pack_text(summary))]) == memory


async def line_of(harness: Harness) -> tuple[ChatKey, list[int]]:
    """A chat, and so many checkpoints of it, each grown from the one before."""
    path = harness.talk.path(await harness.long_chat(COUNT // 2))
    lease, line = await harness.claim(), [0]
    for number in range(COUNT):
        line.append(await harness.publish(lease, line[-1], path[number]["id"], memory=grown(number)))
    return lease.chat, line[1:]


async def test_every_checkpoint_of_a_line_has_its_own_memory(harness: Harness) -> None:
    chat, line = await line_of(harness)

    engine = harness.runtime.database.engine
    read = [await checkpoints.load_memory(engine, chat, one) for one in line]

    assert read == [grown(number) for number in range(COUNT)]


async def test_a_memory_that_grew_from_a_lost_one_is_refused(harness: Harness) -> None:
    chat, line = await line_of(harness)
    await run_sql(harness.runtime, "delete from checkpoints where id = :id", id=line[3])

    engine = harness.runtime.database.engine
    with pytest.raises(CannotOpen, match="grew from one that is not stored any more"):
        await checkpoints.load_memory(engine, chat, line[5])
    assert await checkpoints.load_memory(engine, chat, line[codec.WHOLE_EVERY])
