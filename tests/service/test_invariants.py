"""The invariants of the design, each by its number, through the real service (3 and 11 through the filter as well)."""

import asyncio
import copy
import json
import re
from itertools import pairwise
from random import Random

import pytest

from service.demo.host import load_filter, make_inlet_body, pass_hooks
from service.storage.contexts import BRANCHED, CONTINUED, Lookup
from tests.builders import called, returned, said
from tests.conftest import Service, drain, execute
from tests.effort import ALL
from tests.fakes.scripted_llm import Behaviour, Fail, Hang, ReasoningOnly, Say
from tests.filter.chat import never_cuts
from tests.filter.host import Host
from tests.service.events import tell_edit
from tests.service.grown import summarised
from tests.service.harness import Harness, long_chats, new_in
from tests.service.talk import Json, Talk, check_tree, opened, prose, row, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "model-1"
MANY_VERSIONS = """
insert into checkpoints
select (jsonb_populate_record(one, jsonb_build_object('id', 10000 + number, 'version', 1 + number))).*
from checkpoints one, generate_series(1, 500) number where one.id = (select max(id) from checkpoints)
"""


async def through_the_filter(talk: Talk, url: str, key: str, question: str) -> tuple[Json, Json]:
    """The request of a turn before and after the filter."""
    host = Host({talk.chat: talk.rows})
    loaded = load_filter(url, key, skip_below_chars=0, timeout=120)
    never_cuts(loaded)
    body = make_inlet_body(talk.rows, question, chat=talk.chat, model=MODEL, system="Be brief.")
    body["options"] = {"num_ctx": 8192}
    before = copy.deepcopy(body)
    with host.importable():
        await pass_hooks(loaded, body, __metadata__=body["metadata"], __model__={}, __event_emitter__=host.emit)
    if loaded._http:  # Open WebUI never closes it; tests count what is left open
        await loaded._http.aclose()
    return before, body


async def sent(talk: Talk, leaf: str) -> list[Json]:
    """The messages that a request on this path is sent as."""
    request, answer = talk.request(leaf), await talk.ask(leaf)
    places = range(len(request["messages"])) if answer["messages"] is None else answer["messages"]
    return [request["messages"][one] if isinstance(one, int) else one for one in places]


async def test_invariant_1_nothing_is_hidden_that_is_not_covered(talk: Talk, service: Service) -> None:
    leaf = await summarised(service, talk)
    ready = await talk.ask(leaf)
    assert talk.path(leaf)[ready["covered_messages"] - 1]["id"] == ready["covered_until"]

    for place in range(ready["covered_messages"]):  # any covered message that differs takes the summary away
        changed = Talk(service.as_filter, rows=copy.deepcopy(talk.rows))
        changed.edit(talk.path(leaf)[place]["id"], "edited in place, and nobody told the service")
        answer = await changed.ask(leaf)
        assert answer["checkpoint"] is None, place
    await service.stored()
    assert (await talk.ask(leaf))["checkpoint"] == ready["checkpoint"], "what was only asked takes nothing away"


async def test_invariant_2_no_llm_call_on_the_request_path_and_one_indexed_read(harness: Harness) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = Hang()
    assert (await harness.talk.ask(leaf))["status"] == "pending"
    assert harness.llm.requests == []

    await harness.by_code()
    leaf_id = (await harness.chat()).leaf_id
    for other in range(12):
        await Talk(harness.service.as_filter, f"other-{other}", harness.talk.rows).ingest(leaf)
    await execute(harness.runtime.urls.database, MANY_VERSIONS, "vacuum analyze")
    lookup = Lookup(tenant=1, chat=harness.talk.chat, model=MODEL, total=12_000, limit=6000, window=8192)
    values = lookup._asdict() | {"leaf": leaf_id, "ids": [leaf_id]}
    async with harness.runtime.database.reads.pool.acquire() as reads, reads.transaction():
        await reads.execute("set local enable_seqscan = off")  # so few rows fit into one page: indexes must be usable
        for statement in (CONTINUED, BRANCHED):
            lines = await reads.fetch(f"explain {statement.sql}", *statement.given(values))
            plan = "\n".join(line[0] for line in lines)
            assert "using pk_checkpoints on checkpoints made" in plan, plan
            assert "Seq Scan" not in plan, plan


async def test_invariant_3_the_filter_never_breaks_a_chat(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20)
    question = talk.add("question", leaf)
    for url, key in (
        ("http://127.0.0.1:9", service.filter_key),
        (service.url, "wrong key"),
        (service.url, service.operator_key),
        (f"{service.url}/nowhere", service.filter_key),
    ):
        before, after = await through_the_filter(talk, url, key, question)
        assert after["messages"] == before["messages"]


async def test_invariant_4_a_call_and_its_results_stay_together(harness: Harness) -> None:
    talk = harness.talk
    leaf = talk.turns(1)
    for number in range(9):
        leaf = talk.add(f"q{number}", leaf)
        calls = [
            called(f"c{number}", "query", f'{{"n": "n{number}"}}'),
            returned(f"c{number}", f"r{number} r{number}\n" * 400),
        ]
        leaf = talk.add(f"t{number}", leaf, "assistant", output=[*calls, said("Done.")])
    await talk.ingest(leaf)
    await harness.drain()

    for request in harness.llm.requests:  # in what is read
        for number in range(9):
            _, called_here, below = request.text.partition(f"query(n: n{number})")
            assert bool(called_here) == (f"r{number} r{number}" in below) == (f"r{number} r{number}" in request.text)
    question = talk.add("question", leaf)
    kept = [message for message in await sent(talk, question) if message["role"] in ("assistant", "tool")]
    asked = [call["id"] for message in kept for call in message.get("tool_calls") or []]
    answered = [message["tool_call_id"] for message in kept if message["role"] == "tool"]
    assert asked == answered  # in what is kept, and so in what is covered
    assert 0 < len(asked) < 9


async def test_invariant_5_the_boundary_says_what_was_really_covered(harness: Harness) -> None:
    talk = harness.talk
    leaf = talk.add("long", talk.add("q", talk.turns(1)), "assistant", prose(6000, "long"))
    leaf = await harness.long_chat(12, leaf=leaf)
    worker_context = harness.worker_context(summariser_window=4096)
    covered = 0
    while (await harness.chat()).due_at:
        await harness.compress(worker_context)
        newest = (await harness.made())[-1]
        assert newest.covered_messages >= covered
        covered = newest.covered_messages
        read = "".join(request.text for request in harness.llm.requests)
        for message in talk.path(newest.until):
            values = re.findall(r"showed \d+ bar, below \d+", str(message["content"]))
            assert sum(value in read for value in values) >= 0.9 * len(values), message["id"]  # a cut may split a line
    assert all(len(request.text) // 3 < 4096 for request in harness.llm.requests)
    assert covered > 4


async def test_invariant_6_branches_are_right_by_construction(talk: Talk, service: Service) -> None:
    trunk = talk.turns(10)
    left, right = (talk.turns(6, leaf=trunk, prefix=name) for name in ("left-", "right-"))
    early = talk.turns(12, leaf="a2", prefix="early-")
    for leaf in (left, right, early):
        await talk.ingest(leaf)
        await drain(service.runtime)
    await check_tree(service.runtime)

    for leaf, strangers in ((left, ("right-", "early-")), (right, ("left-", "early-")), (early, ("left-", "right-"))):
        answer = await talk.ask(leaf)
        assert answer["status"] == "ready"
        assert answer["covered_until"] in [message["id"] for message in talk.path(leaf)]
        assert not any(f"Reading {stranger}" in answer["summary"] for stranger in strangers)

    talk.edit("u4", "edited in place below the boundary")
    await talk.ingest(left)
    answer = await talk.ask(left)  # an older checkpoint, or none, until a new one is there
    assert answer["status"] == "pending" or answer["covered_messages"] <= 4
    assert (await talk.ask(early))["status"] == "ready"
    await drain(service.runtime)
    assert (await talk.ask(left))["status"] == "ready"


async def test_invariant_7_a_summary_is_never_a_function_of_luck(harness: Harness) -> None:
    worker_context = harness.worker_context(summariser_window=32_768)
    unusable: list[Behaviour] = [
        Say(""),
        Say("## Goal", finish="length"),
        ReasoningOnly("hm"),
        Say("<tool_call>{}</tool_call>"),
    ]
    summaries = set[str]()

    for (talk, leaf), reply in zip(await long_chats(harness, len(unusable)), unusable, strict=True):
        harness.llm.script(reply, reply)  # the repair is no better
        await harness.compress(worker_context)
        # Without its last line, which names the checkpoint.
        summaries.add((await talk.ask(leaf))["summary"].rpartition("\n")[0])

    assert len(summaries) == 1, "what code makes of a path"
    assert {made.kind for made in await harness.made()} == {"degraded"}


async def test_invariant_8_work_is_never_lost_and_never_doubled(harness: Harness) -> None:
    await harness.long_chat()
    stored = await tables(harness.runtime)
    assert len(stored["messages"]) == 40
    assert (await harness.chat()).due_at  # in the same transaction as the messages

    harness.llm.script(Fail(400))
    await harness.compress()
    assert (await harness.chat()).due_at  # after a failure
    await harness.due_now()
    while (await harness.chat()).due_at:
        await asyncio.gather(*(harness.compress() for _ in range(4)))

    boundaries = [(made.parent_id, made.covered_until) for made in await harness.made()]
    assert len(set(boundaries)) == len(boundaries) > 0
    assert (await harness.chat()).due_at is None


async def test_invariant_9_cost_grows_with_what_is_new(harness: Harness) -> None:
    talk = harness.talk
    leaf = await harness.long_chat(20)
    await harness.drain()
    for _ in range(8):
        leaf = talk.turns(1, leaf=leaf)
        answer = await talk.ask(talk.rows[leaf]["parentId"])
        assert not answer["whole"]
        await talk.finish(answer, leaf)  # the turn alone
        await harness.drain()

    read = re.findall(r"Reading (\S+): pump", "".join(map(new_in, harness.llm.requests)))
    assert len(read) == len(set(read))  # each message once


async def test_invariant_10_the_injected_bytes_are_stable_between_two_checkpoints(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20)
    prefixes: list[tuple[int, list[Json]]] = []
    for _ in range(6):
        await talk.ingest(leaf)
        await drain(service.runtime)
        question = talk.add(f"q{len(talk.rows)}", leaf)
        after = await sent(talk, question)
        leaf = talk.add(f"r{len(talk.rows)}", question, "assistant", prose(200, f"r{len(talk.rows)}"))
        newest = (await row(service.runtime, "select max(id) as id from checkpoints")).id
        prefixes.append((newest, after))

    compared = 0
    for (one, before), (two, after) in pairwise(prefixes):
        if one == two:
            assert json.dumps(after[: len(before)]) == json.dumps(before)
            compared += 1
    assert compared > 2


async def test_invariant_11_the_latest_turn_is_never_touched(talk: Talk, service: Service) -> None:
    leaf = talk.turns(8)
    leaf = talk.add("last-question", leaf, content=prose(1500, "last-question"))
    leaf = talk.add("last-answer", leaf, "assistant", prose(2500, "last-answer"))
    await talk.ingest(leaf)
    await drain(service.runtime)
    covered = {one.until for one in await opened(service.runtime, "select * from checkpoints")}
    assert covered
    assert covered.isdisjoint({"last-question", "last-answer"})

    question = talk.add("question", leaf)
    before, after = await through_the_filter(talk, service.url, service.filter_key, question)
    assert len(after["messages"]) < len(before["messages"])
    assert after["messages"][-3:] == before["messages"][-3:]


@pytest.mark.parametrize("seed", range(4 if ALL else 2))
async def test_what_an_operator_corrected_is_in_force_below_it_whatever_happens(
    talk: Talk, service: Service, seed: int
) -> None:
    """Turns, branches, edits, some undone or told by an event, work, and other corrections, in any order.

    No summary changes, and none is lost but of messages that are stored no more, because they were edited.
    """
    rng = Random(seed)
    leaves = [talk.turns(20)]
    await talk.ingest(leaves[0])
    await drain(service.runtime)
    texts: dict[int, tuple[str, str]] = {}
    chosen, undo = 0, [("u0", talk.rows["u0"]["content"])]
    for _ in range(14):
        leaf = rng.choice(leaves[-3:])
        path = [one["id"] for one in talk.path(leaf)]
        match rng.choice(["turns", "branch", "edit", "undo", "correct", "correct"]):
            case "turns":
                leaves.append(talk.turns(rng.randint(1, 6), leaf=leaf, prefix=f"{len(talk.rows)}-"))
            case "branch":
                leaves.append(talk.turns(rng.randint(1, 8), leaf=rng.choice(path), prefix=f"{len(talk.rows)}-"))
            case "edit":
                undo.append(((message := rng.choice(path)), talk.rows[message]["content"]))
                talk.edit(message, f"edited {len(undo)}")
                if rng.random() < 0.5:
                    await tell_edit(service, talk)
            case "undo":
                talk.edit(*undo.pop(rng.randrange(len(undo))) if len(undo) > 1 else undo[0])
            case "correct" if texts:
                chosen = await correct(service, rng.choice([*texts])) or chosen
        await talk.ingest(rng.choice(leaves[-2:]))
        if rng.random() < 0.4:
            await drain(service.runtime)

        await check_tree(service.runtime)
        found = await rows(service.runtime, "select id, covered_until, summary from checkpoints")
        made = {one.id: (one.covered_until, one.summary) for one in found}
        assert all(made[one] == texts[one] for one in made.keys() & texts.keys())
        stored = {one.message_id for one in await rows(service.runtime, "select message_id from messages")}
        assert {texts[one][0] for one in texts.keys() - made.keys()}.isdisjoint(stored)
        texts = made
        assert await rows(service.runtime, _NOT_IN_FORCE, chosen=chosen) == []


_NOT_IN_FORCE = """
with recursive chosen as (select * from checkpoints where id = :chosen),
below as (
    select m.* from messages m join chosen on m.message_id = covered_until
    union all select m.* from messages m join below on m.parent_id = below.message_id
)
select message_id from below left join checkpoints c on c.id = below.checkpoint_id
where not coalesce(:chosen = any(c.ancestors || c.id), false)
"""


async def correct(service: Service, checkpoint: int) -> int | None:
    """Corrects a checkpoint; the id of the version that serves then, None when it did not serve."""
    body = {"rules": [f"Correct {checkpoint}."]}
    answer = await service.as_operator.patch(f"/v1/chats/chat-1/checkpoints/{checkpoint}", json=body)
    assert answer.status_code in (200, 404, 409), answer.text
    return int(answer.json()["checkpoint"]["id"]) if answer.status_code == 200 else None
