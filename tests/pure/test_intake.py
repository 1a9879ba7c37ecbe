"""What is stored of a message that was handed over, and what is read of it without storing it."""

import json
import tracemalloc
from typing import Any

import pytest

from service.processes.intake import RawMessage, Taken, take, unread
from service.transcript import native_tokens
from tests.builders import answer, called, returned, said

HEAD = {"fingerprint": "f", "digest": "d"}
PROSE = "The invoice of 12 May says 1,204 € – nobody has paid it yet, see RE-2231. " * 7_000
MOST_MEMORY = 10  # bytes for each byte of a message; the service and its process hold three more
LOOP = [said("I look."), called("a"), returned("a", "rows " * 500), said("So it is.")]


def wanted(stored: dict[str, Any], *, whole: bool = True, newest: bool = False) -> RawMessage:
    return RawMessage(json.dumps(stored | HEAD).encode(), whole, newest)


def taken(stored: dict[str, Any]) -> Taken:
    (one,) = take([wanted(stored)], mask_secrets=True)
    return one


@pytest.mark.parametrize(
    ("role", "end"),
    [("user", ""), ("user", "\N{GRINNING FACE}"), ("assistant", ""), ("tool", "")],
)
def test_reading_a_large_message_takes_some_bytes_for_each_of_its_bytes(role: str, end: str) -> None:
    taken({"id": "m", "role": role, "content": "token = secret"})  # what is loaded once
    message = {"id": "m", "role": role, "content": PROSE + end} | HEAD
    text = json.dumps(message, ensure_ascii=False).encode()

    tracemalloc.start()
    take([RawMessage(text, whole=True, newest=True)], mask_secrets=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak <= MOST_MEMORY * len(text)


def test_only_of_the_newest_answer_it_is_known_what_its_last_call_was_sent() -> None:
    loop = answer(*LOOP, usage={"prompt_tokens": 9000})

    known = take([wanted(loop), wanted(loop, whole=False, newest=True)], mask_secrets=True)

    assert [one.asked_tokens for one in known] == [0, native_tokens(answer(*LOOP[:-1]))]
    assert [one.prompt_tokens for one in known] == [9000, 9000]


def test_of_a_message_too_hard_to_read_its_last_call_is_not_known() -> None:
    (one,) = unread([wanted(answer(*LOOP, usage={"prompt_tokens": 9000}), newest=True)])

    assert (one.asked_tokens, one.prompt_tokens) == (0, 9000)


@pytest.mark.parametrize("role", ["function", "model", "Assistant", "", None, 7, ["user"]])
def test_what_has_no_known_role_is_read_as_said_by_the_assistant(role: object) -> None:
    odd, known = (taken({"id": "m", "role": one, "content": "Use pump P-7."}) for one in (role, "assistant"))

    assert odd.weighed
    assert odd == known
    assert odd.weighed.step_tokens


@pytest.mark.parametrize(("left_out", "more"), [(4000, 1000), (10**30, 250_000_000), (-1, 0), ("4000", 0), (True, 0)])
def test_what_was_left_out_of_a_message_counts_as_the_model_is_sent_it(left_out: object, more: int) -> None:
    whole, shorter = (taken({"id": "m", "role": "tool", "content": "x", **one}) for one in ({}, {"left_out": left_out}))

    assert whole.weighed
    assert shorter.weighed
    assert shorter.weighed.tokens == whole.weighed.tokens + more
    assert shorter.content_hash == whole.content_hash
