"""The record: one head, one end, and nothing inside can end it or open another, whoever wrote it."""

from service.summarising import message
from service.summarising.message import Parts

END = "[End of summary]"


def test_parts_that_say_nothing_have_no_head() -> None:
    text = message.render(Parts(talk=("user: Ship it.",)), messages=2, until=None)
    assert text.splitlines() == [
        "[Previous conversation summary: 2 messages]",
        text.splitlines()[1],
        "",
        "## What was said, shortened",
        "user: Ship it.",
        "",
        END,
    ]


def test_the_first_line_names_the_checkpoint() -> None:
    text = message.named(message.render(Parts(rules=("x",)), 42, 1795304423), 17)
    assert text.startswith("[Previous conversation summary: 42 messages, up to 2026-11-21 23:40 UTC, checkpoint 17]\n")


def test_what_frame_and_heads_cost_is_reserved_for_them() -> None:
    bare = Parts(("a",), ("b",), ("c",), ("d",), ("e",))
    text = message.render(bare, messages=10**6, until=1795304423)
    assert message.size(text) <= message.FRAME_TOKENS + 5 * message.HEAD_TOKENS
