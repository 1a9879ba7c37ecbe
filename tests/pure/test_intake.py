"""What is stored of a message that was handed over, or that a request has shown."""

import json
import tracemalloc

import pytest

from service.processes.intake import RawMessage, TokenCountedMessage, make_placeholders, parse_messages
from service.storage import codec
from service.transcript import Native, Stored, unfold_messages
from tests.builders import answer, called, returned, said

PROSE = "The invoice of 12 May says 1,204 € – nobody has paid it yet, see RE-2231. " * 7_000
MOST_MEMORY = 10  # bytes for each byte of a message; the service and its process hold three more
LOOP = [said("I look."), called("a"), returned("a", "rows " * 500), said("So it is.")]


def taken(stored: Stored) -> TokenCountedMessage:
    (one,) = parse_messages([RawMessage(json.dumps(stored).encode())], mask_secrets=True)
    return one


@pytest.mark.parametrize(
    ("role", "end"),
    [("user", ""), ("user", "\N{GRINNING FACE}"), ("assistant", ""), ("tool", "")],
)
def test_reading_a_large_message_takes_some_bytes_for_each_of_its_bytes(role: str, end: str) -> None:
    taken({"id": "m", "role": role, "content": "token = secret"})  # what is loaded once
    message = {"id": "m", "role": role, "content": PROSE + end}
    text = json.dumps(message, ensure_ascii=False).encode()

    tracemalloc.start()
    parse_messages([RawMessage(text)], mask_secrets=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak <= MOST_MEMORY * len(text)


def test_no_nul_character_is_kept() -> None:
    """PostgreSQL stores none, neither in texts nor in JSON."""
    output = [called("c\0", "q\0uery"), returned("c\0", "a\0b"), said("Deci\0ded.")]
    files = [{"type": "file", "name": "re\0port.csv"}]
    for message in (answer(*output), {"id": "m", "role": "user", "content": "a\0b", "files": files}):
        assert r"\u0000" not in json.dumps(codec.unpack(taken(message).body))


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 9000}])
def test_an_answer_of_a_request_is_stored_as_the_same_answer_of_its_host(usage: Stored | None) -> None:
    told = answer(*LOOP, usage=usage)
    native: list[Native] = unfold_messages([told])

    kept, shown = (taken(one) for one in (told, {"role": "assistant", "native": native}))

    assert unfold_messages([codec.unpack(kept.body)]) == unfold_messages([codec.unpack(shown.body)]) == native
    assert (kept.tokens, kept.step_tokens, kept.step_calls) == (shown.tokens, shown.step_tokens, shown.step_calls)


def test_of_a_message_too_hard_to_read_a_note_is_kept_and_its_size_is_estimated() -> None:
    text = json.dumps({"role": "user", "content": PROSE}).encode()

    (one,) = make_placeholders([RawMessage(text)])

    assert "could not be read in time" in codec.unpack(one.body)["content"]
    assert one.tokens == len(text) // 4


@pytest.mark.parametrize("role", ["function", "model", "Assistant", "", None, 7, ["user"]])
def test_what_has_no_known_role_is_read_as_said_by_the_assistant(role: object) -> None:
    odd, known = (taken({"id": "m", "role": one, "content": "Use pump P-7."}) for one in (role, "assistant"))

    assert odd == known
    assert odd.step_tokens
