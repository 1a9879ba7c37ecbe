"""The native view: what a real Open WebUI sent, rebuilt from what it had saved, and folded again."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.transcript import Native, Stored, fold_answer, unfold_messages
from service.transcript.native import TOOL_IMAGES
from tests.builders import answer, called, capture, ran, returned, said, scenarios
from tests.effort import examples

# What Open WebUI does in its own place, and what no saved message shows.
DIFFERENCES = {
    # The page replaces or continues an answer: the instruction and the half answer are its own.
    ("d_regenerate", "032_inlet"),
    *(("x5_messages_in_a_row", f"{number}_inlet") for number in ("016", "040")),
    # The row was edited after the request, or the recorder did not save it.
    *(("e2_edit_in_place", f"{number}_inlet") for number in ("000", "008")),
    *(("e4_fork_and_clone", f"{number}_inlet") for number in ("000", "008", "016")),
    *(("real_page", f"{number}_inlet") for number in ("000", "008", "016", "024", "032")),
    *(("v_lifecycle_events", f"{number}_inlet") for number in ("004", "015", "026")),
    ("w_stash_and_inlet_only", "000_inlet"),
    # It names attached files, puts images where their addresses stood, and compacts the beginning.
    *(("f_system_and_file", f"{number}_inlet") for number in ("008", "024")),
    *(("x1_tool_images", f"{number}_inlet") for number in ("012", "024", "036", "048", "060", "072", "088")),
    *(("r_native_compaction", f"{number}_inlet") for number in ("008", "016", "024", "032")),
}

INLETS = [(name, hook.name) for name in scenarios() for hook in capture(name).of("inlet") if hook.saved]


def test_captures_are_there() -> None:
    assert len(INLETS) > 80
    assert set(INLETS) >= DIFFERENCES


@pytest.mark.parametrize(("scenario", "name"), sorted(set(INLETS) - DIFFERENCES))
def test_saved_messages_unfold_to_what_the_inlet_saw(scenario: str, name: str) -> None:
    recorded = capture(scenario)
    hook = recorded.hook(name)
    path = recorded.path(hook.chat_id, hook.metadata["user_message_id"])
    assert path
    assert unfold_messages(path) == hook.conversation


# ---- single rules


@pytest.mark.parametrize("status", ["in_progress", "pending", "queued", "incomplete", None, [], {}])
def test_an_unfinished_call_and_its_result_are_dropped(status: Any) -> None:
    stopped = answer(said("I try."), {**called("a"), "status": status}, returned("a", "late"))
    assert unfold_messages([stopped]) == [{"role": "assistant", "content": "I try."}]


def test_the_call_that_the_model_made_is_replayed_not_the_one_that_was_run() -> None:
    searched = {**called("a", "resolved"), "provider_function": {"name": "asked", "arguments": {"q": 1}}}
    [message, _] = unfold_messages([answer(searched, returned("a", "1"))])
    assert message["tool_calls"][0]["function"] == {"name": "asked", "arguments": '{"q":1}'}


def test_code_and_what_it_printed_are_text() -> None:
    [message] = unfold_messages([answer(ran("print(1)", {"stdout": "1", "stderr": "no", "result": "None"}))])
    assert message["content"] == (
        "<code_interpreter>\nprint(1)\n</code_interpreter>\n<code_interpreter_output>\n1\n</code_interpreter_output>"
    )


def test_an_image_of_a_tool_follows_its_result_as_a_message_of_the_user() -> None:
    address = "/api/v1/files/1"
    _, result, shown = unfold_messages([answer(called("a"), returned("a", "one", address))])
    assert (result["role"], result["content"]) == ("tool", "one")
    assert shown["role"] == "user"
    assert shown["content"][0]["text"].startswith(TOOL_IMAGES)
    assert shown["content"][1]["image_url"]["url"] == address


# ---- garbage

IDS = st.sampled_from(["a", "b", "c", "", None, 7])
CALLING = st.lists(
    st.builds(called, IDS, status=st.sampled_from(["completed", "completed", "in_progress"]))
    | st.builds(returned, IDS, st.text(max_size=3))
    | st.builds(said, st.text(max_size=3)),
    max_size=10,
)


def assert_pairs_are_sound(native: list[Native]) -> None:
    asked: set[str] = set()
    open_calls: set[str] = set()
    for message in native:
        if message["role"] == "tool":
            assert message["tool_call_id"] in asked, "a result whose call is not directly above"
            open_calls.discard(message["tool_call_id"])
        else:
            assert not open_calls, "a call without a result"
            asked = {call["id"] for call in message.get("tool_calls", ())}
            assert "tool_calls" not in message or asked
            open_calls = set(asked)
    assert not open_calls


@given(CALLING, st.text(max_size=4))
@settings(max_examples=examples(200))
def test_garbage_output_unfolds_to_sound_pairs(output: list[Any], text: str) -> None:
    assert_pairs_are_sound(unfold_messages([{"id": "x", "role": "assistant", "content": text, "output": output}]))


# ---- folded


@pytest.mark.parametrize(
    "odd",
    [None, 5, "text", [], {}, {"role": "tool"}, {"tool_calls": 5}, {"tool_calls": [5, {}]}, {"content": {"a": 1}}],
)
def test_what_is_no_message_folds_to_nothing_that_is_shown(odd: object) -> None:
    stored: Stored = {
        "role": "assistant",
        "content": "",
        "output": fold_answer([odd, {"role": "assistant", "content": "x"}]),
    }
    assert unfold_messages([stored]) == [{"role": "assistant", "content": "x"}]
