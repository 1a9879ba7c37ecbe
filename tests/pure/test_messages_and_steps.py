"""Stored messages of every format are parsed, and cut into steps that keep calls with their results."""

import json
from dataclasses import replace
from html import escape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.text import tokens
from service.text.escapes import unescape_html
from service.transcript import (
    Message,
    Stored,
    count_stored_tokens,
    estimate_step_tokens,
    parse,
    read_prompt_tokens,
    split_steps,
)
from service.transcript.items import CodeRun, Text, ToolCall, ToolResult
from tests.builders import answer, called, capture, ran, returned, said, scenarios, thought, user
from tests.effort import examples

ARGUMENTS = {"sql": "SELECT diagnosis, count(*) FROM t WHERE a < 3 AND b = 'x'"}


def call_of(message: Message) -> tuple[ToolCall, ToolResult]:
    [call] = [item for item in message.items if isinstance(item, ToolCall)]
    [result] = [item for item in message.items if isinstance(item, ToolResult)]
    return call, result


def fold(result: str | None, body: str = "", arguments: str | None = None) -> str:
    """A tool call as `<details>`; `result` and `arguments` are escaped already."""
    arguments = escape(json.dumps(json.dumps(ARGUMENTS))) if arguments is None else arguments
    shown = "" if result is None else f' result="{result}"'
    return (
        f'<details type="tool_calls" done="true" id="call_1" name="trino_query" arguments="{arguments}"{shown}'
        f' files="" embeds="">\n<summary>Tool Executed</summary>\n{body}</details>'
    )


# ---- the four stored formats


def test_output_items_are_read_in_order() -> None:
    stored = answer(
        thought("I think"),
        said("First"),
        called("a", "query", '{"q": 1}'),
        returned("a", "one", "/api/v1/files/1"),
        ran("print(2)", {"stdout": "2"}),
        {"type": "web_search_call"},
        said("Last"),
        text="First\nLast",
    )
    message = parse(stored)
    assert [type(item).__name__ for item in message.items] == (
        ["Unsent", "Text", "ToolCall", "ToolResult", "CodeRun", "Unsent", "Text"]
    )
    first, second = split_steps(message)
    assert first.text == "First"
    assert [(c.call.name, c.result.text, c.result.images) for c in first.calls] == [
        ("query", "one", ("/api/v1/files/1",))
    ]
    assert second.text.endswith("Last")
    assert "print(2)" in second.text


def test_folds_without_ids_stay_apart() -> None:
    one, two = fold(escape('"1"')).replace(' id="call_1"', ""), fold(escape('"2"')).replace(' id="call_1"', "")
    first, second = split_steps(parse(answer(text=f"{one}\n{two}")))
    assert [first.calls[0].result.text, second.calls[0].result.text] == ["1", "2"]


def test_a_fold_that_is_not_done_has_no_step() -> None:
    running = fold(None).replace('done="true"', 'done="false"')
    assert [step.text for step in split_steps(parse(answer(text=f"Wait.\n{running}")))] == ["Wait."]


def test_folded_reasoning_and_code_are_told_apart() -> None:
    text = (
        '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n'
        "&gt; I should\n&gt; compute.\n</details>\n"
        '<details type="code_interpreter" done="true" output="'
        + escape(json.dumps({"stdout": "42\n", "stderr": "", "result": ""}))
        + '">\n<summary>Analyzed</summary>\n```python\nprint(6 * 7)\n```\n</details>\nIt is 42.'
    )
    message = parse(answer(text=text))
    assert message.items == (CodeRun("print(6 * 7)", "42\n"), Text("It is 42."))


def test_unclosed_and_deeply_nested_folds_are_harmless() -> None:
    assert split_steps(parse(answer(text='<details type="reasoning"> never closed ' * 3000)))
    assert split_steps(parse(answer(text="<details " * 20_000)))
    deep = parse(answer(text=fold("[" * 5000)))
    assert call_of(deep)[1].text == "[" * 5000
    other = '<details data-type="reasoning">The rest.</details>'
    assert [step.text for step in split_steps(parse(answer(text=other)))] == [other]


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("a &lt; b &amp; c", "a < b & c"),
        ("&#65;&#x42;&#0000067;", "ABC"),
        ("&#" + "0" * 5000 + "65;", "A"),
        ("nothing", "nothing"),
    ],
)
def test_an_escape_is_undone(escaped: str, text: str) -> None:
    assert unescape_html(escaped) == text


def test_an_escape_of_an_endless_number_does_not_stop_reading() -> None:
    endless = "&#" + "1" * 5000 + ";"
    assert call_of(parse(answer(text=fold(endless))))[1].text == endless


# ---- markers of the OpenRouter pipe


MARKER = "[01ABCDEFGHJKMNPQRSTV]: #"
OTHER = "[openrouter:v1:reasoning:01ABC]: #"
PHASE = "[P:final_answer]: #"


@pytest.mark.parametrize("as_output", [True, False])
def test_hidden_markers_are_left_out_of_the_text(as_output: bool) -> None:
    text = f"{MARKER}\nVisible.\n{OTHER}\n{PHASE}\nStill visible."
    message = parse(answer(said(text)) if as_output else answer(text=text))
    assert message.items == (Text("Visible.\nStill visible."),)


def test_a_text_of_markers_only_is_nothing() -> None:
    assert parse(answer(said(f"[openrouter:v1:{'x' * 10_000}]: #"))).items == ()


@pytest.mark.parametrize("text", ["[note]: # a comment", "see [1]: #4", "[01ABC]: #", "[P:x] : #"])
def test_what_is_no_marker_stays(text: str) -> None:
    assert parse(answer(text=text)).items == (Text(text),)


# ---- odd messages


def test_a_failed_answer_has_no_steps() -> None:
    message = parse(answer(error={"content": "boom"}))
    assert split_steps(message) == []
    assert count_stored_tokens(answer(error={"content": "boom"})) == 0


SOUND = {"data": "UklGRiQA" * 5000, "format": "wav"}
PARTS = [
    ({"type": "file", "file": {"filename": "tide table.pdf", "file_data": "JVBERi0x" * 5000}}, "tide table.pdf"),
    ({"type": "input_file", "file_data": "data:text/plain;base64,AAAA"}, "[attached file]"),
    ({"type": "image_url", "image_url": {"url": "https://host.example/a.png"}}, "[attached image]"),
    ({"type": "input_audio", "input_audio": SOUND}, "[attached audio]"),
    ({"type": "video_url", "video_url": {"url": "https://host.example/a.mp4"}}, "[attached video]"),
    ({"type": "document", "source": {"data": "JVBERi0x"}}, "[attached file]"),
    ({"type": "hologram_9", "data": "AAAA" * 5000}, "[part of type hologram_9]"),
    ({"type": "</system> [x](y) " + "z" * 500}, "[part of type /systemxy" + "z" * 31 + "]"),
    ({"no type": 1}, "[part of type unknown]"),
]


@pytest.mark.parametrize(("part", "shown"), PARTS)
def test_a_part_of_any_type_has_a_step_and_costs_something(part: dict[str, Any], shown: str) -> None:
    [step] = split_steps(parse(user([part])))
    words = {"type": "text", "text": "Look"}
    cost = count_stored_tokens(user([words, part])) - count_stored_tokens(user("Look"))

    assert step.text == ""
    assert [one.told for one in step.attachments] == [shown if shown[0] == "[" else f"[attached file: {shown}]"]
    least = tokens.IMAGE_TOKENS if part.get("type") == "image_url" else 1
    assert least <= cost <= tokens.IMAGE_TOKENS


def test_a_part_of_an_unknown_type_costs_its_text() -> None:
    words = "three small boats " * 100

    cost = count_stored_tokens(user([{"type": "letter", "body": words}])) - count_stored_tokens(user(""))

    assert cost == pytest.approx(tokens.count(words), abs=15)


def test_thoughts_in_parts_are_nobodys_words() -> None:
    thinking = {"type": "thinking", "thinking": "hm"}
    stored = answer(text=[thinking, {"type": "text", "text": "Yes"}, {"type": "input_text", "text": "No"}])

    assert [(step.text, step.attachments) for step in split_steps(parse(stored))] == [("Yes\nNo", ())]


def test_a_long_name_is_cut() -> None:
    [step] = split_steps(parse(user("", files=[{"type": "file", "name": "x" * 5000}])))

    assert len(step.attachments[0].told) < 150


def test_attached_files_are_named() -> None:
    files = [{"type": "file", "name": "a.pdf"}, {"type": "file", "content_type": "image/png", "id": "9"}, "junk"]
    [step] = split_steps(parse(user("", files=files)))
    assert [one.told for one in step.attachments] == ["[attached file: a.pdf]", "[attached image: 9]"]


@pytest.mark.parametrize(
    ("stored", "seconds"),
    [
        (1795304423, 1795304423),
        (1795304423.9, 1795304423),
        (1795304423123, 1795304423),
        (1795304423123456789, 1795304423),
        (-1, None),
        (float("inf"), None),
    ],
)
def test_a_timestamp_is_in_seconds(stored: Any, seconds: int | None) -> None:
    assert parse(user("x", timestamp=stored)).timestamp == seconds


@pytest.mark.parametrize(
    ("usage", "count"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, 9),
        ({"prompt_eval_count": 9, "eval_count": 2}, 9),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": float("inf")}, None),
        (None, None),
    ],
)
def test_usage_of_a_provider_is_read(usage: Any, count: int | None) -> None:
    assert read_prompt_tokens(usage) == count


# ---- steps


def test_a_text_and_its_parallel_calls_are_one_step() -> None:
    message = parse(
        answer(said("Both:"), called("a"), called("b"), returned("b", "2"), returned("a", "1"), said("So."))
    )
    first, second = split_steps(message)
    assert (first.text, [c.result.text for c in first.calls]) == ("Both:", ["1", "2"])
    assert (second.text, second.calls) == ("So.", ())


def test_a_repeated_call_id_loses_no_result() -> None:
    message = parse(answer(called("c"), returned("c", "first"), called("c"), returned("c", "second")))
    assert [step.calls[0].result.text for step in split_steps(message)] == ["first", "second"]


@pytest.mark.parametrize("scenario", scenarios())
def test_no_result_of_a_capture_is_lost(scenario: str) -> None:
    for chat in capture(scenario).rows.values():
        for stored in chat.values():
            message = parse(stored)
            finished = {item.id for item in message.items if isinstance(item, ToolCall) and item.finished}
            results = [i.text for i in message.items if isinstance(i, ToolResult) and i.call_id in finished]
            assert sorted(c.result.text for step in split_steps(message) for c in step.calls) == sorted(results)


ITEMS = st.lists(
    st.one_of(
        st.builds(said, st.sampled_from(["t1", "t2", "t3", " "])),
        st.builds(called, st.sampled_from("abc"), status=st.sampled_from(["completed", "completed", "in_progress"])),
        st.builds(returned, st.sampled_from("abcd"), st.sampled_from(["r1", "r2"])),
        st.builds(ran, st.just("code"), st.just("out")),
        st.builds(thought, st.just("SECRET")),
    ),
    max_size=14,
)


@given(ITEMS)
@settings(max_examples=examples(300))
def test_a_step_has_only_calls_with_their_results(output: list[dict[str, Any]]) -> None:
    message = parse(answer(*output, text="x") if output else answer(text="x"))
    cut = split_steps(message)
    for step in cut:
        assert step.text or step.calls or step.attachments
        assert "SECRET" not in repr(step)
        assert all(call.call.finished and call.call.id == call.result.call_id for call in step.calls)
    texts = [item.text for item in message.items if isinstance(item, Text) and item.text.strip()]
    read = "\n".join(step.text for step in cut).splitlines()
    assert [line for line in read if line.startswith("t")] == [text for text in texts if text.startswith("t")]


# ---- what they cost


def test_tool_arguments_count() -> None:
    def cost(arguments: str) -> int:
        return count_stored_tokens(answer(called("a", arguments=arguments), returned("a", "1")))

    words = "word " * 500
    assert cost(words) - cost("") == pytest.approx(tokens.count(words), abs=3)


@pytest.mark.parametrize("result", ["rows and rows " * 20_000, "data:image/png;base64," + "iVBORw0KGgo" * 20_000])
def test_a_summariser_reads_a_bounded_part_of_a_call_whatever_it_gave(result: str) -> None:
    output = [one for n in range(3) for one in (called(f"c{n}", arguments=result), returned(f"c{n}", result))]
    [one] = split_steps(parse(answer(said("Look:"), called("a"), returned("a", result))))
    every = split_steps(parse(answer(said("Look:"), *output)))

    assert 0 < estimate_step_tokens(one) - estimate_step_tokens(replace(one, calls=())) <= 520
    assert sum(map(estimate_step_tokens, every)) <= 3 * 520 + 40


def test_a_small_call_is_read_whole() -> None:
    [small], [large] = (
        split_steps(parse(answer(called("a", arguments=text), returned("a", text))))
        for text in ("", "a b c d e f g h ")
    )

    assert estimate_step_tokens(large) - estimate_step_tokens(small) == pytest.approx(2 * 8, abs=3)


def test_reasoning_does_not_count() -> None:
    plain, thoughtful = answer(said("Yes")), answer(thought("hm " * 1000), said("Yes"))
    assert count_stored_tokens(plain) == count_stored_tokens(thoughtful)
    assert split_steps(parse(plain)) == split_steps(parse(thoughtful))


@pytest.mark.parametrize("role", ["system", "developer", "tool", ""])
def test_what_nobody_said_has_no_steps_and_is_counted(role: str) -> None:
    stored: Stored = {"id": "s", "role": role, "content": "Retrieved: the pier closes at nine. " * 20}

    assert split_steps(parse(stored)) == []
    assert count_stored_tokens(stored) > 100


def test_a_step_knows_when_its_message_was_sent() -> None:
    message = parse(answer(said("One"), called("a"), returned("a", "1"), said("Two"), timestamp=1795304423))

    assert [step.at for step in split_steps(message)] == [1795304423, 1795304423]
    assert [step.at for step in split_steps(parse(user("Now")))] == [None]


def test_code_that_ran_and_what_it_printed_are_quoted() -> None:
    [step] = split_steps(parse(answer(ran("a = 1\nprint(a)", {"stdout": "1\n2"}))))

    assert step.text == "[ran code]\n| a = 1\n| print(a)\n[it printed]\n| 1\n| 2"
