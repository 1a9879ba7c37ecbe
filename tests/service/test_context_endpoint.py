"""`POST /v1/chats/{chat_id}/context`: what a request should carry, by one read."""

import pytest

from service.text import tokens
from service.transcript import native_tokens
from tests.conftest import Service, drain, execute
from tests.service.grown import summarised
from tests.service.talk import OF_THE_EDIT, Talk, row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_small_chat_needs_nothing(talk: Talk) -> None:
    leaf = talk.turns(2)
    assert await talk.ingest(leaf) is False

    answer = await talk.ask(leaf)

    size = sum(native_tokens(message) for message in talk.path(leaf))
    sizes, excess = {"before": size, "after": size}, size - 8192 + 1024
    assert answer == {"status": "not_needed", "known": leaf, "window": 8192, "tokens": sizes, "excess": excess}


async def test_one_pair_is_enough_and_the_digest_of_the_boundary_is_told_where_the_pairs_reach_it(
    talk: Talk, service: Service
) -> None:
    leaf = await summarised(service, talk)
    whole = await talk.ask(leaf)
    reaching = len(talk.path(leaf)) - whole["covered_messages"] + 1
    assert whole["covered_digest"] == talk.pair(whole["covered_until"])[1]

    assert await talk.ask(leaf, pairs=reaching) == whole
    for pairs in (1, reaching - 1):
        above = await talk.ask(leaf, pairs=pairs)
        # Without the boundary's digest no edit is proposed, and the filter asks again with more.
        assert above == {name: value for name, value in whole.items() if name not in OF_THE_EDIT}

    path = talk.question(leaf, pairs=reaching)["path"]
    assert (await talk.ask(leaf, reaching, path=[*path[:-1], (whole["covered_until"], "d" * 32)]))[
        "status"
    ] == "pending"


async def test_the_window_of_the_request_decides(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)

    assert (await talk.ask(leaf, windows=[131_072]))["status"] == "not_needed"
    assert (await talk.ask(leaf, windows=[8192]))["status"] == "ready"
    assert (await talk.ask(leaf, windows=[]))["status"] == "ready"  # the window that was handed over


async def test_the_window_that_was_handed_over_last_is_remembered(talk: Talk, service: Service) -> None:
    talk.window = 131_072
    leaf = talk.turns(20)
    assert await talk.ingest(leaf) is False
    assert (await talk.ask(leaf, windows=[]))["status"] == "not_needed"

    assert await talk.ingest(leaf, windows=[12_000]) is True
    assert (await row(service.runtime, "select window_tokens from chats")).window_tokens == 12_000


async def test_a_summary_beside_which_the_question_has_no_room_is_not_served(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)
    summary = tokens.count((await talk.ask(leaf))["summary"])

    assert (await talk.ask(leaf, beside=8192 - 3 * summary))["status"] == "ready"
    assert (await talk.ask(leaf, beside=8192 - summary))["status"] == "pending"


@pytest.mark.parametrize("unknown", [1, 9])
async def test_the_newest_known_message_is_found_however_many_are_newer(
    talk: Talk, service: Service, unknown: int
) -> None:
    known = await summarised(service, talk)
    before = await talk.ask(known)
    leaf = known
    for number in range(unknown):
        leaf = talk.add(f"new-{number}", leaf, "user" if number % 2 else "assistant", "x" * 400)

    answer = await talk.ask(leaf)

    assert (answer["status"], answer["known"]) == ("ready", known)
    assert answer["checkpoint_id"] == before["checkpoint_id"]
    assert answer["tokens"]["before"] == before["tokens"]["before"] + 100 * unknown


async def test_the_newest_stored_message_of_a_long_path_is_found(service: Service) -> None:
    """The statement relies on the order of a nested loop: it must hold with statistics of a large table, too."""
    talk = Talk(service.as_filter)
    leaf = ""
    for number in range(300):
        leaf = talk.add(f"m{number}", leaf or None, "assistant" if number % 2 else "user", f"{number}")
    await talk.ingest(leaf)
    for copy in range(2, 5):
        await Talk(service.as_filter, chat=f"chat-{copy}", rows=talk.rows).ingest(leaf)
    await execute(service.runtime.urls.database, "vacuum analyze")

    for pairs in (2, 64, 300):
        assert (await talk.ask(leaf, pairs))["known"] == leaf
        unseen = talk.add("unseen", leaf)
        assert (await talk.ask(unseen, pairs))["known"] == leaf


async def test_what_goes_beside_the_messages_now_is_counted_once_whatever_was_measured_then(
    talk: Talk, service: Service
) -> None:
    leaf = talk.turns(9)
    await talk.ingest(leaf)

    answer = await talk.ask(leaf, beside=3000)
    assert (answer["status"], answer["tokens"]["overhead"]) == ("pending", 3000)

    await run_sql(service.runtime, "update chats set overhead_tokens = 3300, beside_tokens = 3000")
    assert (await talk.ask(leaf, beside=3000))["tokens"]["overhead"] == 3300
    assert (await talk.ask(leaf, beside=9000))["tokens"]["overhead"] == 9300, "tools were added"
    assert (await talk.ask(leaf, beside=500))["tokens"]["overhead"] == 800, "tools went"
    assert (await talk.ask(leaf))["tokens"]["overhead"] == 3300, "nobody says so"


async def test_a_long_answer_leaves_less_room_so_a_deeper_summary_is_served(talk: Talk, service: Service) -> None:
    leaf = talk.turns(8)
    for _ in range(2):
        leaf = talk.turns(8, leaf=leaf)
        await talk.ingest(leaf)
        await drain(service.runtime)

    shallow = await talk.ask(leaf, windows=[18_000])
    deeper = await talk.ask(leaf, windows=[18_000], room=shallow["tokens"]["after"] - 1)

    assert deeper["covered_messages"] > shallow["covered_messages"]
    assert deeper["tokens"]["after"] < shallow["tokens"]["after"]
    assert (await talk.ask(leaf, windows=[20_000]))["status"] == "not_needed"
    assert (await talk.ask(leaf, windows=[20_000], room=13_000))["status"] == "ready"
