"""The native view: what a real Open WebUI sent, rebuilt from what it had saved, and folded again."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.transcript import (
    Native,
    Stored,
    count_stored_tokens,
    estimate_step_tokens,
    fold_answer,
    parse,
    split_steps,
    unfold_messages,
)
from tests.builders import Capture, Hook, answer, called, capture, ran, returned, said, scenarios
from tests.effort import examples

Difference = Callable[[Capture, Hook, list[Native], list[Native]], None]

# ---- what Open WebUI does that cannot be seen in the saved messages, each with what exactly differs


def own_compaction_cut_the_head(_: Capture, hook: Hook, ours: list[Native], theirs: list[Native]) -> None:
    assert len(theirs) < len(ours)
    assert theirs == ours[-len(theirs) :]
    assert "[CONVERSATION SUMMARY]" in hook.messages[0]["content"]


def guided_regeneration_appends_two(recorded: Capture, hook: Hook, ours: list[Native], theirs: list[Native]) -> None:
    *same, old, instruction = theirs
    replaced = recorded.rows[hook.chat_id][hook.metadata["regeneration_message_id"]]
    assert same == ours
    assert [old] == unfold_messages([replaced])
    assert instruction["role"] == "user"
    assert instruction["content"] not in [row["content"] for row in recorded.rows[hook.chat_id].values()]


def continued_answer_is_appended(recorded: Capture, hook: Hook, ours: list[Native], theirs: list[Native]) -> None:
    continued = recorded.rows[hook.chat_id][hook.metadata["assistant_message_id"]]
    assert hook.metadata["assistant_message_id"] == hook.metadata["message_id"]
    appended, finished = theirs[len(ours) :], unfold_messages([continued])
    assert theirs[: len(ours)] == ours
    assert appended
    assert appended[:-1] == finished[: len(appended) - 1]
    assert finished[len(appended) - 1]["content"].startswith(appended[-1]["content"])


def tool_images_are_inlined(_: Capture, __: Hook, ours: list[Native], theirs: list[Native]) -> None:
    stored, sent = _urls(ours), _urls(theirs)
    assert len(stored) == len(sent) > 0
    assert all(url.startswith("/api/v1/files/") for url in stored)
    assert all(url.startswith("data:image/") for url in sent)
    assert _without_urls(ours) == _without_urls(theirs)


def row_was_edited_later(recorded: Capture, hook: Hook, ours: list[Native], theirs: list[Native]) -> None:
    then = recorded.outlet_of(hook)
    assert then is not None
    assert theirs != ours
    assert theirs == unfold_messages(then.messages[:-1])


def rows_were_not_recorded(recorded: Capture, hook: Hook, ours: list[Native], theirs: list[Native]) -> None:
    assert hook.chat_id not in recorded.rows
    assert ours == []
    row_was_edited_later(recorded, hook, ours, theirs)


def attached_files_are_named(_: Capture, hook: Hook, ours: list[Native], theirs: list[Native]) -> None:
    assert hook.metadata["include_file_context"]
    assert theirs != ours
    assert _texts(theirs) == ours


DIFFERENCES: dict[tuple[str, str], Difference] = {
    ("d_regenerate", "032_inlet"): guided_regeneration_appends_two,
    ("e2_edit_in_place", "000_inlet"): row_was_edited_later,
    ("e2_edit_in_place", "008_inlet"): row_was_edited_later,
    **{("e4_fork_and_clone", f"{number}_inlet"): rows_were_not_recorded for number in ("000", "008", "016")},
    **{("f_system_and_file", f"{number}_inlet"): attached_files_are_named for number in ("008", "024")},
    **{("r_native_compaction", f"{n}_inlet"): own_compaction_cut_the_head for n in ("008", "016", "024", "032")},
    **{("real_page", f"{n}_inlet"): rows_were_not_recorded for n in ("000", "008", "016", "024", "032")},
    **{("v_lifecycle_events", f"{n}_inlet"): rows_were_not_recorded for n in ("004", "015", "026")},
    ("w_stash_and_inlet_only", "000_inlet"): rows_were_not_recorded,
    **{
        ("x1_tool_images", f"{n}_inlet"): tool_images_are_inlined
        for n in ("012", "024", "036", "048", "060", "072", "088")
    },
    ("x5_messages_in_a_row", "016_inlet"): continued_answer_is_appended,
    ("x5_messages_in_a_row", "040_inlet"): continued_answer_is_appended,
}

INLETS = [(name, hook.name) for name in scenarios() for hook in capture(name).of("inlet") if hook.saved]


def test_captures_are_there() -> None:
    assert len(INLETS) > 80
    assert set(INLETS) >= DIFFERENCES.keys()


@pytest.mark.parametrize(("scenario", "name"), INLETS)
def test_saved_messages_unfold_to_what_the_inlet_saw(scenario: str, name: str) -> None:
    recorded = capture(scenario)
    hook = recorded.hook(name)
    path = recorded.path(hook.chat_id, hook.metadata["user_message_id"])
    ours = unfold_messages(path)
    if difference := DIFFERENCES.get((scenario, name)):
        difference(recorded, hook, ours, hook.conversation)
    else:
        assert path
        assert ours == hook.conversation


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


# ---- garbage

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=6)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner), max_leaves=6
)
IDS = st.sampled_from(["a", "b", "c", "", None, 7])
PARTS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["output_text", "input_text", "input_image", "x"]), "text": SCALARS})
    | JSON,
    max_size=2,
)
ITEMS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["message", "reasoning", "web_search_call", "open_webui:code_interpreter"])
        | st.sampled_from(["function_call", "function_call_output"])
    },
    optional={
        "call_id": IDS,
        "status": st.sampled_from(["completed", "completed", "failed", "rejected", "in_progress", None]) | JSON,
        "name": SCALARS,
        "arguments": st.text(max_size=5) | JSON,
        "provider_function": JSON,
        "content": PARTS | JSON,
        "output": PARTS | JSON,
        "summary": JSON,
        "code": SCALARS,
    },
)
OUTPUTS = st.lists(ITEMS | JSON, max_size=8)
CALLING = st.lists(
    st.builds(called, st.sampled_from("abc"), status=st.sampled_from(["completed", "completed", "in_progress"]))
    | st.builds(returned, st.sampled_from("abcd"), st.text(max_size=3))
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


@given(OUTPUTS | CALLING, st.text(max_size=4))
@settings(max_examples=examples(200))
def test_garbage_output_unfolds_to_sound_pairs(output: list[Any], text: str) -> None:
    assert_pairs_are_sound(unfold_messages([{"id": "x", "role": "assistant", "content": text, "output": output}]))


@given(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"])},
        optional=dict.fromkeys(("id", "content", "files", "meta", "model", "usage", "timestamp", "error"), JSON)
        | {"output": OUTPUTS | JSON},
    )
)
@settings(max_examples=examples(150))
def test_a_garbage_message_is_read_without_an_error(stored: Stored) -> None:
    assert_pairs_are_sound(unfold_messages([stored]))
    assert count_stored_tokens(stored) >= 0
    assert all(estimate_step_tokens(step) > 0 for step in split_steps(parse(stored)))


# ---- folded


@pytest.mark.parametrize(("scenario", "name"), INLETS)
def test_every_answer_of_a_capture_folds_into_what_unfolds_to_it(scenario: str, name: str) -> None:
    shown = [one for one in capture(scenario).hook(name).messages if one["role"] in ("assistant", "tool")]
    answers = [one for one in grouped(shown) if one]
    for native in answers:
        stored: Stored = {"role": "assistant", "content": "", "output": fold_answer(native)}
        again = [one for one in unfold_messages([stored]) if one["role"] in ("assistant", "tool")]
        assert _texts(again) == _texts([{"content": "", **one} for one in native])


def grouped(messages: list[Native]) -> Iterator[list[Native]]:
    """Each call with its results, and each text: text that follows text would become one with it."""
    some: list[Native] = []
    for message in messages:
        if message["role"] == "assistant":
            yield some
            some = []
        some.append(message)
    yield some


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


# ---- helpers


def _urls(native: list[Native]) -> list[str]:
    contents = [message["content"] for message in native if isinstance(message["content"], list)]
    return [part["image_url"]["url"] for content in contents for part in content if part["type"] == "image_url"]


def _without_urls(native: list[Native]) -> list[Native]:
    copies = deepcopy(native)
    for message in copies:
        for part in message["content"] if isinstance(message["content"], list) else ():
            part.pop("image_url", None)
    return copies


def _texts(native: list[Native]) -> list[Native]:
    """Without images and without the names of attached files, which outlet does not show."""
    plain = deepcopy(native)
    for message in plain:
        content = message["content"]
        text = "".join(part.get("text", "") for part in content) if isinstance(content, list) else content
        message["content"] = text.rpartition("</attached_files>\n\n")[2]
    return plain
