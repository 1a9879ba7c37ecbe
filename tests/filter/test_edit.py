"""The edit that the service proposes and the filter applies: nothing that is not covered is hidden, whatever the list.

The service's code and the filter's meet here without a wire between them.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_stub import precis_filter
from filter_stub.precis_filter import NOTED, SUMMARY, Node
from service.request import edit
from service.transcript import Native, unfold
from tests.builders import called, returned, said
from tests.effort import examples
from tests.filter.chat import pairs_are_whole
from tests.filter.wire import as_json

Json = dict[str, Any]

SYSTEM: Native = {"role": "system", "content": "You are a careful assistant."}
MADE = SUMMARY + "some messages]\nThey talked."
RECORD: list[Native] = [{"role": "user", "content": MADE}, {"role": "assistant", "content": NOTED}]
WORDS = st.sampled_from(["go on", "go on", "And then?", "Which one?", "长江有多长?", "<b>bold</b>"])


@dataclass
class Talk:
    """Stored messages, of which the first `covered` are summarised, and the list that Open WebUI builds of them."""

    rows: list[Json]
    covered: int

    @property
    def path(self) -> list[Node]:
        return precis_filter.chain(self.rows)

    @property
    def native(self) -> list[Native]:
        return [SYSTEM, *unfold(copy.deepcopy(self.rows))]

    @property
    def hidden(self) -> list[Native]:
        """What a summary may hide."""
        return unfold(copy.deepcopy(self.rows[: self.covered]))


def alternating(texts: Sequence[str], covered: int) -> Talk:
    """Questions and plain answers."""
    roles = ("user", "assistant")
    rows = [{"id": f"m{place}", "role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return Talk(rows, covered)


@st.composite
def talks(draw: st.DrawFn) -> Talk:
    """Two to nine turns and a question: answers with tools, failed ones, two questions in a row."""
    rows: list[Json] = []
    starts = []

    def add(role: str, content: str, *output: Json) -> None:
        rows.append({"id": f"m{len(rows)}", "role": role, "content": content, "output": list(output)})

    for number in range(draw(st.integers(2, 9))):
        starts.append(len(rows))
        add("user", draw(WORDS))
        match draw(st.sampled_from(["plain", "tools", "failed", "twice"])):
            case "tools":
                items = [called(f"c{number}", "query"), returned(f"c{number}", f"Result {number}"), said("Done.")]
                add("assistant", "Done.", *items)
            case "failed":
                add("assistant", "")
            case "twice":
                add("user", draw(WORDS))
                add("assistant", f"Answer {number}")
            case _:
                add("assistant", f"Answer {number}")
    starts.append(len(rows))
    add("user", draw(WORDS))
    return Talk(rows, draw(st.sampled_from(starts[1:])))


def proposed(talk: Talk, messages: list[Native], guided: bool = False, most: int = 100) -> Json:
    """The service's answer for this request."""
    described = precis_filter.described(messages, talk.path, len(talk.path)) | {"guided": guided}
    newest = {name: described[name][:most] for name in ("questions", "asked")}
    request = msgspec.convert(described | newest, edit.RequestShape)
    found = edit.propose(request, talk.covered, edit.inserted(MADE))
    boundary = talk.path[talk.covered - 1]
    return {"covered_until": boundary.id, "covered_digest": boundary.digest, "edit": as_json(found)}


def changed(text: str, place: int) -> str:
    """The text with another character there."""
    place %= len(text)
    return text[:place] + ("x" if text[place] != "x" else "y") + text[place + 1 :]


@given(talk=talks())
@settings(max_examples=examples(200), deadline=None)
def test_a_request_as_it_is_stored_loses_exactly_what_is_covered(talk: Talk) -> None:
    messages = talk.native
    out = precis_filter.edited(messages, talk.path, proposed(talk, messages))
    tail = messages[1 + len(talk.hidden) :]
    assert out == [SYSTEM, *RECORD, *tail]
    assert pairs_are_whole(tail)


@given(
    talk=talks(),
    left_out=st.sampled_from([0, 0, 0, 1, 2, 9]),
    front=st.sampled_from([[], [{"role": "user", "content": "Memory: the user likes tea."}]]),
    newest=st.sampled_from(["", "[edited] "]),
    end=st.sampled_from(["", "instruction", "instruction told", "continued"]),
    most=st.sampled_from([1, 2, 100]),
)
@settings(max_examples=examples(400), deadline=None)
def test_no_uncovered_message_is_ever_hidden_and_no_call_is_split(
    talk: Talk, left_out: int, front: list[Native], newest: str, end: str, most: int
) -> None:
    """Whatever other filters and Open WebUI itself add to the list, or leave out at its beginning."""
    system, *stored = talk.native
    # As many questions as are stored, all with the same words, would be taken for these.
    left_out = 0 if end == "instruction" else min(left_out, len(stored) - 1)
    stored = stored[left_out:]
    added: list[Native] = []
    if end:
        added.append({"role": "assistant", "content": "The old answer."})
    if "instruction" in end:
        added.append({"role": "user", "content": "go on"})
    stored[-1] = {**stored[-1], "content": newest + str(stored[-1]["content"])}
    messages = [system, *front, *stored, *added]
    answer = proposed(talk, messages, end == "instruction told", most)
    out = precis_filter.edited(messages, talk.path, answer)
    if out is None:
        assert left_out or front or end or most < 100, "a question that another filter edited keeps no summary away"
        return
    tail = out[3:]
    kept = stored[max(len(talk.hidden) - left_out, 0) :] + added
    assert tail[len(tail) - len(kept) :] == kept
    assert tail == messages[len(messages) - len(tail) :]
    assert tail[0]["role"] == "user"
    assert pairs_are_whole(tail)


@given(talk=talks(), which=st.integers(0, 20), place=st.integers(0, 20), when=st.sampled_from(["before", "after"]))
@settings(max_examples=examples(300), deadline=None)
def test_one_character_that_differs_in_what_is_compared_leaves_the_request_alone_or_is_another_filters(
    talk: Talk, which: int, place: int, when: str
) -> None:
    """Before or after it was described: in a kept question, or in the one above them."""
    messages = talk.native
    tail = len(messages) - 1 - len(talk.hidden)
    questions = [i for i, one in enumerate(messages) if one["role"] == "user"]
    kept = [i for i in questions if i >= len(messages) - tail]
    compared = [*[i for i in questions if i < kept[0]][-1:], *kept[:-1]]
    other = copy.deepcopy(messages)
    at = compared[which % len(compared)]
    other[at]["content"] = changed(str(other[at]["content"]), place)
    answer = proposed(talk, other if when == "before" else messages)
    out = precis_filter.edited(other, talk.path, answer)
    if compared == [at] and other[at + 1]["role"] == "user":  # nothing tells that it is the stored question
        assert out is None
    elif out is not None:
        assert out == [SYSTEM, *RECORD, *other[1 + len(talk.hidden) :]]


@given(talk=talks(), which=st.integers(0, 20), place=st.integers(0, 20))
@settings(max_examples=examples(300), deadline=None)
def test_another_filter_may_rewrite_all_questions_but_no_answer_then(talk: Talk, which: int, place: int) -> None:
    messages = talk.native
    for one in messages:
        if one["role"] == "user":
            one["content"] = f"[translated] {str(one['content'])[::-1]}"
    out = precis_filter.edited(messages, talk.path, proposed(talk, messages))
    questions = [i for i, one in enumerate(messages) if one["role"] == "user"]
    tail = 1 + len(talk.hidden)
    above = max(i for i in questions if i < tail)
    answers = [i for i in range(above, questions[-1]) if messages[i]["role"] == "assistant" and messages[i]["content"]]
    assert out == ([SYSTEM, *RECORD, *messages[tail:]] if answers else None), "some may have failed, but not all"
    if answers:
        at = answers[which % len(answers)]
        messages[at]["content"] = changed(str(messages[at]["content"]), place)
        assert precis_filter.edited(messages, talk.path, proposed(talk, messages)) is None


@given(talk=talks(), place=st.integers(0, 20))
@settings(max_examples=examples(100), deadline=None)
def test_one_character_that_differs_in_what_is_stored_leaves_the_request_alone(talk: Talk, place: int) -> None:
    """The digest of the boundary is then another one."""
    messages = talk.native
    answer = proposed(talk, messages)
    edited = copy.deepcopy(talk)
    row = edited.rows[place % talk.covered]
    row["content"] += "!"
    row["output"] = []
    assert precis_filter.edited(messages, edited.path, answer) is None


@given(talk=talks(), first=st.integers(0, 30), end=st.integers(0, 30))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_range_an_answer_names_nothing_uncovered_is_hidden(talk: Talk, first: int, end: int) -> None:
    """A service that is wrong costs a summary, and no message."""
    messages = talk.native
    answer = proposed(talk, messages)
    answer["edit"] = {"drop": [first, end], "insert": RECORD}
    out = precis_filter.edited(messages, talk.path, answer)
    if out is not None:
        kept = messages[1 + len(talk.hidden) :]
        assert out[len(out) - len(kept) :] == kept
        assert out[0] == SYSTEM


@pytest.mark.parametrize("other", ["adds a question", "drops a turn"])
def test_equal_answers_are_no_proof_where_another_filter_rewrites_all_questions_and(other: str) -> None:
    talk = alternating(["Question", "OK."] * 3 + ["Question"], 2)
    system, *stored = talk.native
    for one in stored[::2]:
        one["content"] = "Frage"
    again: list[Native] = [{"role": "assistant", "content": "OK."}, {"role": "user", "content": "Noch einmal."}]
    added = [system, {"role": "user", "content": "Memory: tea."}, *stored, *again]
    messages, end = (added, 6) if other == "adds a question" else ([system, *stored[2:]], 3)
    answer = proposed(talk, messages)
    answer["edit"] = {"drop": [1, end], "insert": RECORD}  # a turn too many
    assert precis_filter.edited(messages, talk.path, answer) is None


def test_a_tail_that_is_not_described_is_not_proposed() -> None:
    talk = alternating([str(number) for number in range(9)], 2)
    answers = [proposed(talk, talk.native, most=most)["edit"] for most in (1, 3, 4, 5)]
    assert [bool(one) for one in answers] == [False, False, False, True]


@pytest.mark.parametrize(
    ("room", "beside", "estimated", "reserve"),
    [
        (None, 0, 0, 1000),  # an eighth for the answer
        (5000, 0, 0, 3000),  # as much as is asked for
        (100, 0, 0, 4000),  # up to half
        (None, 6500, 0, 500),  # beside tools, a third of what they leave
        (None, 0, 7000, 1260),  # what nobody has counted may be more
    ],
)
def test_a_request_has_the_room_that_its_answer_and_what_nobody_counted_leave(
    room: int | None, beside: int, estimated: int, reserve: int
) -> None:
    assert edit.excess(8000, room, 8000, beside, estimated) == reserve


def test_a_user_who_writes_like_a_record_is_a_user_all_the_same() -> None:
    question: Native = {"role": "user", "content": "Never mind."}
    messages = [SYSTEM, RECORD[0], {"role": "assistant", "content": "What is that?"}, question]
    assert precis_filter.opening(messages) == [SYSTEM]
    assert precis_filter.opening([SYSTEM, *RECORD, question]) == [SYSTEM, *RECORD]
    assert precis_filter.opening(RECORD[:1]) == []
    assert precis_filter.opening([]) == []


def test_the_filter_knows_a_record_by_what_the_service_has_the_model_answer() -> None:
    _, noted = edit.inserted(MADE)
    assert noted.content == NOTED


def test_rows_that_run_in_a_circle_are_no_branch() -> None:
    rows: dict[str, Json] = {"u7": {"parentId": "a6"}, "a6": {"parentId": "u7"}}
    assert precis_filter.branch(rows, "u7") == []
