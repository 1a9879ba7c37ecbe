"""No column has what was edited or deleted in place, or a summary that has read it, however the service hears of it."""

from collections.abc import Awaitable, Callable

import pytest

from tests.conftest import Service, drain
from tests.service.encrypted import columns
from tests.service.events import fingerprints, tell
from tests.service.talk import Talk, check_tree

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET, LIVES = "mandragora", "tamarind"
Way = Callable[[Service, Talk, str], Awaitable[object]]


async def updated(service: Service, talk: Talk, _: str) -> None:
    """The function for events tells of the page."""
    await tell(service, "chat.updated", chat_id=talk.chat, fingerprints=fingerprints(talk))


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
    ids = [row["id"] for row in talk.path(leaf) if row["content"]]
    answer = await talk.ask(leaf, ids=[None, *ids, None])
    assert answer["status"] == "pending"
    await service.stored()


async def changed(service: Service, talk: Talk, change: Callable[[Talk], object], way: Way) -> None:
    """A chat whose answer `secret` is changed, and that has another branch beside it."""
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

    change(talk)
    await way(service, talk, leaf)

    assert await columns(urls, SECRET) == set()
    again = await talk.ask(other)
    assert again["status"] == "ready"
    assert (again["messages"], again["checkpoint"]) == (served["messages"], served["checkpoint"])
    assert await columns(urls, LIVES) >= {"messages.body", "checkpoints.summary"}
    await service.stored()
    await check_tree(service.runtime)


def edit(talk: Talk) -> None:
    talk.edit("secret", "Nothing.")


def empty(talk: Talk) -> None:
    talk.edit("secret", "")


def delete(talk: Talk) -> None:
    talk.delete("secret")


@pytest.mark.parametrize("way", [updated, told, finished, finished_after_a_lost_turn, requested])
async def test_an_edited_text_goes_and_a_regenerated_branch_keeps_its_own(
    service: Service, talk: Talk, way: Way
) -> None:
    await changed(service, talk, edit, way)


@pytest.mark.parametrize("change", [empty, delete])
@pytest.mark.parametrize("way", [updated, told, finished, requested])
async def test_so_does_one_that_was_emptied_or_deleted(
    service: Service, talk: Talk, change: Callable[[Talk], object], way: Way
) -> None:
    await changed(service, talk, change, way)


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
