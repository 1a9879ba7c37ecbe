"""No column has what was edited or deleted in place, or a summary that has read it, however the service hears of it."""

from collections.abc import Awaitable, Callable
from itertools import product

import pytest

from tests.conftest import Service, drain
from tests.service.encrypted import columns
from tests.service.events import fingerprints, tell
from tests.service.talk import Talk, check_tree, row

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET, LIVES = "mandragora", "tamarind"
Way = Callable[[Service, Talk, str], Awaitable[object]]


async def updated(service: Service, talk: Talk, _: str) -> None:
    """The function for events tells of the page."""
    newest = (await row(service.runtime, "select leaf_id from chats")).leaf_id
    await tell(service, "chat.updated", chat_id=talk.chat, fingerprints=fingerprints(talk))
    assert (await row(service.runtime, "select leaf_id from chats")).leaf_id == newest, "it is on the other branch"


async def told(_: Service, talk: Talk, leaf: str) -> None:
    """The whole branch is handed over."""
    await talk.ingest(leaf)


async def finished(_: Service, talk: Talk, leaf: str) -> None:
    """A turn goes on from it."""
    question = talk.add("question", leaf)
    answer = await talk.ask(question)
    await talk.finish(answer, talk.add("new", question, "assistant"))


async def finished_after_a_lost_turn(service: Service, talk: Talk, leaf: str) -> None:
    """The first turn that goes on from it is never handed over."""
    question = talk.add("lost", leaf)
    await talk.ask(question)
    await service.stored()
    await finished(service, talk, talk.add("lost-answer", question, "assistant"))


async def requested(service: Service, talk: Talk, leaf: str) -> None:
    """A request has the host's ids."""
    ids = [message["id"] for message in talk.path(leaf) if message["content"]]
    answer = await talk.ask(leaf, ids=[None, *ids, None])
    assert answer["status"] == "pending"
    await service.stored()


CHANGES: dict[str, Callable[[Talk], None]] = {
    "edited": lambda talk: talk.edit("secret", "Nothing."),
    "emptied": lambda talk: talk.edit("secret", ""),
    "deleted": lambda talk: talk.delete("secret"),
}


@pytest.mark.parametrize(
    ("way", "change"),
    [
        *product([updated, told, finished, requested], CHANGES),
        (finished_after_a_lost_turn, "edited"),
    ],
)
async def test_a_text_that_was_changed_goes_and_a_regenerated_branch_keeps_its_own(
    service: Service, talk: Talk, way: Way, change: str
) -> None:
    asked = talk.add("asked", talk.turns(2))
    secret = talk.add("secret", asked, "assistant", f"The password of the shed is {SECRET}.")
    lives = talk.add("lives", asked, "assistant", f"The password of the barn is {LIVES}.")
    leaf, other = talk.turns(20, leaf=secret, prefix="l-"), talk.turns(20, leaf=lives, prefix="r-")
    for branch in (leaf, other):
        await talk.ingest(branch)
        await drain(service.runtime)
    urls = service.runtime.urls
    assert await columns(urls, SECRET) >= {"messages.body", "checkpoints.summary"}, "the search finds what is there"
    served = await talk.ask(other)

    CHANGES[change](talk)
    await way(service, talk, leaf)

    assert await columns(urls, SECRET) == set()
    again = await talk.ask(other)
    assert again["status"] == "ready"
    assert (again["messages"], again["checkpoint"]) == (served["messages"], served["checkpoint"])
    assert await columns(urls, LIVES) >= {"messages.body", "checkpoints.summary"}
    await service.stored()
    await check_tree(service.runtime)


async def test_after_a_lost_turn_the_host_is_asked_for_the_whole_branch_once(service: Service, talk: Talk) -> None:
    leaf = talk.turns(2)
    await talk.ingest(leaf)
    leaf = talk.turns(1, leaf=leaf)
    assert (await talk.ask(leaf))["whole"], "one turn was not told"
    await service.stored()

    question = talk.add("question", leaf)
    answer = await talk.ask(question)
    assert answer["whole"], "still not"
    leaf = talk.add("answer", question, "assistant")
    await talk.finish(answer, leaf)

    assert not (await talk.ask(leaf))["whole"]
