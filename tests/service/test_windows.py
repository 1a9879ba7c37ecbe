"""Which summary serves in which window: one that was written for a window like it, however models are switched."""

import pytest

from tests.conftest import Service, drain
from tests.service.harness import Harness
from tests.service.talk import Json, Talk, check_tree, opened, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE, SMALL = 32_768, 8192
COUNTED = 20  # seconds: a request that may not wait is estimated, and seems larger


async def goes_on(service: Service, talk: Talk, leaf: str, window: int, turns: int = 0) -> tuple[str, Json]:
    """So many turns with a model of that window, and its work; the new leaf, and what the next request is sent as."""
    talk.model, talk.window = f"of {window}", window
    if turns:
        leaf = talk.turns(turns, leaf=leaf)
    await talk.ingest(leaf)
    await drain(service.runtime)
    await check_tree(service.runtime)
    answer = await talk.ask(leaf, seconds=COUNTED)
    assert answer["status"] == "ready"
    assert answer["tokens"]["after"] <= window
    return leaf, answer


async def test_back_in_the_large_window_a_new_summary_grows_from_the_better_one(service: Service, talk: Talk) -> None:
    leaf, large = await goes_on(service, talk, talk.turns(46), LARGE)
    leaf, small = await goes_on(service, talk, leaf, SMALL, turns=30)
    talk.model, talk.window = f"of {LARGE}", LARGE
    meanwhile = await talk.ask(leaf, seconds=COUNTED)
    assert meanwhile["checkpoint"] is not None, "one for the small window is better than a cut"

    _, new = await goes_on(service, talk, leaf, LARGE)

    assert new["checkpoint"] not in (large["checkpoint"], small["checkpoint"])
    found = await rows(service.runtime, "select id, windows[cardinality(windows)] as written_for from checkpoints")
    written_for = {one.id: one.written_for for one in found}
    assert written_for[new["checkpoint"]] == LARGE
    (made,) = await opened(service.runtime, "select * from checkpoints where id = :id", id=new["checkpoint"])
    assert large["checkpoint"] in made.ancestors
    assert {written_for[one] for one in made.ancestors} == {LARGE}, "nothing in it was told by a shorter one"


async def test_the_summary_that_served_last_goes_on_serving_while_it_fits(harness: Harness) -> None:
    leaf = await harness.long_chat(46)
    path, lease, line = harness.talk.path(leaf), await harness.claim(), [0]
    for place in (79, 83, 87):
        line.append(await harness.publish(lease, line[-1], path[place]["id"]))
    for served, chosen in ((line[2], line[2]), (0, line[2]), (line[1], line[1])):
        newer = harness.talk.turns(1, leaf=leaf)
        await harness.talk.ingest(newer, after=leaf, served=served)
        leaf = newer
        answer = await harness.talk.ask(leaf, window=SMALL, seconds=COUNTED)
        assert answer["checkpoint"] == chosen
