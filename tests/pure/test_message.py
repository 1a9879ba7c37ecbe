"""The record: one head, one end, and nothing inside can end it or open another, whoever wrote it."""

from service.summarising import message
from service.summarising.message import KeptLines, Parts


def test_the_last_line_names_the_checkpoint() -> None:
    text = message.add_checkpoint_id(message.render(Parts(state=("x",)), 42, 1795304423), 17)
    assert text.endswith("\n[End of summary: 42 messages, up to 2026-11-21 23:40 UTC, checkpoint 17]")
    assert message.render(Parts(state=("x",)), 42, None).endswith("\n[End of summary: 42 messages]")


def test_what_frame_and_heads_cost_is_reserved_for_them() -> None:
    bare = Parts(KeptLines(("a",), ("b",), ("c",)), ("d",), KeptLines(("e",), ("f",), ("g",)), ("h",), ("i",))
    text = message.add_checkpoint_id(message.render(bare, messages=10**6, until=1795304423), 10**9)
    assert message.count_tokens(text) <= message.FRAME_TOKENS + 9 * message.HEAD_TOKENS
