"""Versions of a summary: an operator corrects one, a worker replaces an interim one, and one of them serves."""

import pytest

from tests.conftest import Service, drain
from tests.service.grown import summarised
from tests.service.harness import Harness
from tests.service.talk import Json, Talk, check_tree, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMALL = 4096  # of a window: a request needs the deepest summary that there is
LARGE = 16_000  # a request has room beside the first summary


async def grown(service: Service, talk: Talk, count: int = 3) -> tuple[str, list[Json]]:
    """A chat with at least so many checkpoints, each grown from the one before; returns its leaf, and them."""
    leaf = await summarised(service, talk, least=count)
    return leaf, await listed(service)


async def listed(service: Service, chat: str = "chat-1") -> list[Json]:
    found: list[Json] = (await service.as_operator.get(f"/v1/chats/{chat}")).json()["checkpoints"]
    return found


async def shown(service: Service, checkpoint: int) -> Json:
    found: Json = (await service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{checkpoint}")).json()
    return found


async def correct(service: Service, checkpoint: int, **parts: object) -> Json:
    response = await service.as_operator.patch(f"/v1/chats/chat-1/checkpoints/{checkpoint}", json=parts)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def pointers(service: Service) -> dict[str, int | None]:
    found = await rows(service.runtime, "select host_id, checkpoint_id from messages")
    return {one.host_id: one.checkpoint_id for one in found}


def serving(made: list[Json]) -> list[int]:
    return [one["id"] for one in made if one["serving"]]


# Looking


# Correcting


async def test_of_each_sentence_it_is_told_whether_it_stands_in_the_summary(service: Service, talk: Talk) -> None:
    _, made = await grown(service, talk, 2)
    found = await shown(service, made[-1]["id"])
    told = {one["in_summary"] for one in found["talk"]}
    assert told == {True, False}
    assert all((one["text"] in found["summary"]) == one["in_summary"] for one in found["talk"])


async def test_a_correction_is_a_version_that_serves_and_the_old_one_is_kept(service: Service, talk: Talk) -> None:
    leaf, made = await grown(service, talk, 2)
    old = await shown(service, made[-1]["id"])
    rules = ["Never\nabove 4 bar.", "Pump P-7 stays."]

    answer = await correct(service, made[-1]["id"], state="## Goal\n- Keep the pumps.", rules=rules)

    new = await shown(service, answer["checkpoint"]["id"])
    assert (await listed(service))[-1] == new["checkpoint"] == answer["checkpoint"]
    assert {name: new["checkpoint"][name] for name in ("kind", "summariser", "serving", "parent_id")} == {
        "kind": "corrected",
        "summariser": "operator",
        "serving": True,
        "parent_id": made[-1]["parent_id"],
    }
    actor = f"{service.operator_key[:14]}… test"
    assert new["checkpoint"]["verdict"] == {"outcome": "corrected", "by": actor}
    assert new["state"] == "## Goal\n- Keep the pumps."
    assert [(pin["source"], pin["kind"], pin["text"]) for pin in new["pins"] if not pin["replaced_by"]] == [
        ("operator", "rule", "Never above 4 bar."),
        ("operator", "rule", "Pump P-7 stays."),
    ]
    assert "- Never above 4 bar." in new["summary"]
    assert (await talk.ask(leaf, windows=[SMALL]))["summary"] == new["summary"]
    after = await shown(service, made[-1]["id"])
    assert after == old | {"checkpoint": old["checkpoint"] | {"serving": False}}
    await check_tree(service.runtime)


async def test_what_an_operator_wrote_goes_on_serving_though_a_deeper_summary_is_there(
    service: Service, talk: Talk
) -> None:
    leaf, made = await grown(service, talk)
    answer = await correct(service, made[0]["id"], state="## Goal\n- Keep the pumps.")
    await drain(service.runtime)
    assert serving(await listed(service))[-1] > answer["checkpoint"]["id"], "the work goes on from it"

    served = await talk.ask(leaf, windows=[LARGE])

    assert served["checkpoint"] == answer["checkpoint"]["id"]


async def test_a_branch_that_goes_off_above_what_is_corrected_is_untouched(service: Service, talk: Talk) -> None:
    leaf, made = await grown(service, talk)
    fork = talk.path(leaf)[made[1]["covered_messages"] - 3]["id"]
    branch = talk.turns(20, leaf=fork, prefix="branch-")
    await talk.ingest(branch)
    await drain(service.runtime)
    own = [one["id"] for one in await listed(service) if one["covered_until"].startswith("branch-")]
    assert own
    answered = await talk.ask(branch, windows=[SMALL])
    before = await pointers(service)

    corrected = (await correct(service, made[1]["id"], state="Corrected."))["checkpoint"]["id"]

    below = {one["id"] for one in talk.path(leaf)[made[1]["covered_messages"] - 1 :]}
    after = await pointers(service)
    assert {message for message in after if after[message] != before[message]} <= below
    assert {after[message] for message in below} == {corrected}
    assert await talk.ask(branch, windows=[SMALL]) == answered
    assert set(own) <= set(serving(await listed(service)))
    await check_tree(service.runtime)


@pytest.mark.parametrize("how", ["correct", "keep"])
async def test_one_that_does_not_serve_is_neither_corrected_nor_kept(service: Service, talk: Talk, how: str) -> None:
    _, made = await grown(service, talk, 2)
    old = made[1]["id"]
    await correct(service, made[0]["id"], state="Corrected.")
    before = await tables(service.runtime)

    where = "/v1/chats/chat-1"
    if how == "keep":
        response = await service.as_operator.post(f"{where}/reset", json={"keep": old})
    else:
        response = await service.as_operator.patch(f"{where}/checkpoints/{old}", json={"state": "Again."})

    assert response.status_code == 409
    assert f"checkpoint {old} does not serve" in response.json()["detail"]
    assert await tables(service.runtime) == before


# In place of an interim one


@pytest.mark.parametrize("step", [0, -4, 4], ids=["the same boundary", "a shallower one", "a deeper one"])
async def test_what_replaces_an_interim_summary_serves_in_its_place(harness: Harness, step: int) -> None:
    leaf = await harness.long_chat()
    path = [one["id"] for one in harness.talk.path(leaf)]
    lease = await harness.claim()
    parent = await harness.publish(lease, 0, path[3])
    old = await harness.publish(lease, parent, path[11], "interim")

    new = await harness.publish(lease, parent, path[11 + step], superseded=[old])

    found = await pointers(harness.service)
    assert {found[message] for message in path[max(11, 11 + step) :]} == {new}
    assert (await harness.talk.ask(leaf, windows=[SMALL]))["checkpoint"] == new
    assert serving(await listed(harness.service)) == [parent, new]
    await check_tree(harness.runtime)


@pytest.mark.parametrize("first", [7, 11], ids=["the shallower one", "the deeper one"])
async def test_of_two_that_were_begun_at_once_each_serves_what_it_is_the_deepest_of(
    harness: Harness, first: int
) -> None:
    """An interim summary is made beside a call: what it goes on from may not be the deepest any more."""
    leaf = await harness.long_chat()
    path = [one["id"] for one in harness.talk.path(leaf)]
    lease = await harness.claim()
    ends = (first, 18 - first)
    made = {end: await harness.publish(lease, 0, path[end]) for end in ends}

    found = await pointers(harness.service)
    assert {found[message] for message in path[7:11]} == {made[7]}
    assert {found[message] for message in path[11:]} == {made[11]}
    await check_tree(harness.runtime)


async def test_messages_of_an_interim_one_that_retires_fall_back_to_one_that_a_branch_keeps(harness: Harness) -> None:
    leaf = await harness.long_chat()
    path = [one["id"] for one in harness.talk.path(leaf)]
    await harness.talk.ingest(harness.talk.turns(1, leaf=path[7], prefix="branch-"))
    lease = await harness.claim()
    kept = await harness.publish(lease, 0, path[5], "interim")
    retires = await harness.publish(lease, 0, path[9], "interim", superseded=[kept])

    new = await harness.publish(lease, 0, path[11], superseded=[kept, retires])

    found = await pointers(harness.service)
    assert {found[message] for message in path[5:11]} == {kept}
    assert {found[message] for message in path[11:]} == {new}
    await check_tree(harness.runtime)


# Elsewhere


async def test_a_fork_adopts_the_version_that_serves(service: Service, talk: Talk) -> None:
    leaf, made = await grown(service, talk)
    new = (await correct(service, made[1]["id"], state="Corrected."))["checkpoint"]["id"]
    fork = Talk(service.as_filter, "fork", dict(talk.rows))

    await fork.ingest(leaf)

    copies = await listed(service, "fork")
    assert [(one["covered_until"], one["kind"]) for one in copies] == [
        (made[0]["covered_until"], made[0]["kind"]),
        (made[1]["covered_until"], "corrected"),
    ]
    answer = await fork.ask(leaf, windows=[SMALL])
    assert answer["checkpoint"] == copies[-1]["id"]
    assert answer["summary"] == (await shown(service, new))["summary"]
    await check_tree(service.runtime)
