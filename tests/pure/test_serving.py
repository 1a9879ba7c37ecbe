"""How a summary stands in a request, and what the status line says of it."""

import pytest

from service.request import record
from service.summarising.message import BEGINS, ENDS, NOTED
from tests.builders import capture

END = f"{ENDS}4 messages]"
SUMMARY = f"{BEGINS}older messages]\n\nThe pump is watched.\n\n{END}"


@pytest.mark.parametrize("recall", [False, True])
def test_a_record_is_known_again_and_offers_a_look_up_only_where_there_is_one(recall: bool) -> None:
    made = record.make_record_messages(SUMMARY, recall=recall)

    assert record.is_record(made)
    said, noted = made
    assert (said["role"], noted["role"], noted["content"]) == ("user", "assistant", NOTED)
    assert ("precis_recall" in said["content"]) == recall
    assert said["content"].endswith(END)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": SUMMARY}],
        [{"role": "system", "content": SUMMARY}, {"role": "assistant", "content": NOTED}],
        [{"role": "user", "content": SUMMARY}, {"role": "assistant", "content": "Noted."}],
        [{"role": "user", "content": f"You said: {SUMMARY}"}, {"role": "assistant", "content": NOTED}],
    ],
)
def test_what_only_looks_like_a_record_is_none(messages: list[dict[str, object]]) -> None:
    assert not record.is_record(messages)


def test_the_mark_of_open_webuis_own_compaction_is_known() -> None:
    bodies = [hook.messages for hook in capture("r_native_compaction").of("inlet")]
    heads = [[one for one in messages if one["role"] == "system"] for messages in bodies]

    assert [record.mentions_compaction(head) for head in heads] == [False, True, True, True, True]
    for prompt in ("Say [CONVERSATION SUMMARY]\n.", "End with the heading\n  [CONVERSATION SUMMARY]"):
        assert not record.mentions_compaction([{"role": "system", "content": prompt}])


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (41_400, 6_600, "Summarised 9 earlier messages: 41k → 7k tokens"),
        (2_100, 1_900, "Summarised 9 earlier messages: 2.1k → 1.9k tokens"),
        (2_110, 2_090, "Summarised 9 earlier messages"),
    ],
)
def test_the_status_line_shows_two_sizes_only_where_they_differ(before: int, after: int, line: str) -> None:
    assert record.describe_summary(9, before, after) == line
    by_code = line.replace("messages", "messages by code for now")
    assert record.describe_summary(9, before, after, " by code for now") == by_code
