"""Whatever is said and a tool answers, the chat gets a summary that is stored and can be read again."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.storage import checkpoints
from service.storage.tables import ChatKey
from tests.conftest import Service, drain
from tests.effort import examples
from tests.service.harness import emptied
from tests.service.talk import Talk, check_tree, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

ODD = ["", "NaN", "Infinity", "1e999", "\ud800", "\0", "\u202e", "\u2028", "İ", "😀", "1,234.50", "2026-01-31"]
NAMES = ["id", "name", "error", "rows", "a b"]
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(ODD)
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=4)
        | st.lists(st.fixed_dictionaries({"id": plain, "total": inner}), max_size=4)
    ),
    max_leaves=15,
)
results = values.map(json.dumps) | values.map(repr) | st.sampled_from(ODD[:4]) | st.just("[" * 3000)
"""JSON of every shape, as JSON and as Python write it; what is no text by itself stands there as an escape."""
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
texts = words | results | st.sampled_from(["<details>", "```\nx", "| a |\n|---|\n| 1 |", "- a\n- b", "> q", "a, " * 90])
"""What people and models write."""


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(results.filter(lambda text: text.isprintable()), min_size=1, max_size=8), st.lists(texts, max_size=8))
@example(["[1, 2, 3]"], [])
async def test_any_message_and_any_result_of_a_tool_is_in_a_summary_that_is_stored_and_read_again(
    service: Service, answered: list[str], written: list[str]
) -> None:
    await emptied(service)
    talk = Talk(service.as_filter, window=2048)
    leaf = talk.calls(None, *answered)
    for number, text in enumerate(written):
        leaf = talk.add(f"w{number}", leaf, ("user", "assistant")[number % 2], text)
    leaf = talk.turns(10, tokens=200, leaf=leaf)
    assert await talk.ingest(leaf)

    await drain(service.runtime)

    assert [run.outcome for run in await rows(service.runtime, "select outcome from runs")] == ["done"]
    made = await rows(service.runtime, "select tenant_id, chat_id, id from checkpoints order by id")
    assert made
    key = ChatKey(made[-1].tenant_id, made[-1].chat_id)
    read = await checkpoints.load_memory(service.runtime.database.engine, key, made[-1].id)
    assert read
    # JSON in the text of an answer is a tool's result too.
    assert sum(entry.count for entry in read.ledger) >= len(answered)
    assert (await talk.ask(leaf))["status"] == "ready"
    await check_tree(service.runtime)
