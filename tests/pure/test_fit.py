"""The cap: every request ends below the room where that is possible, and what is missed least goes first."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.request.fit import LEFT_OUT, FittedMessages, Piece, describe_cuts, fit_messages, is_question, make_note
from service.request.record import OFFERED
from service.request.shorter import NO_FILE
from service.summarising.message import NOTED
from service.text import tokens
from service.transcript import Native, count_sent_tokens, read_text
from tests.filter.chat import pairs_are_whole
from tests.filter.client import asks, says

CUT = "characters were left out here"
IMAGES = "Here are the images from the tool results above. Please analyze them."
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SUMMARY = "[Previous conversation summary: they met. " + "They talked. " * 40 + "]"
RECORD = [{"role": "user", "content": SUMMARY}, {"role": "assistant", "content": NOTED}]


def words(size: int, name: str = "w") -> str:
    """A text of about `size` tokens, each word with its number."""
    return " ".join(f"{name}{number}" for number in range(max(size // 2, 1)))


def system(size: int = 5) -> Native:
    return {"role": "system", "content": words(size, "rule")}


def call(*results: str, name: str = "c", arguments: str = "{}", pictures: int = 0) -> list[Native]:
    """An assistant's calls, their results, and the pictures that these have."""
    ids = [f"{name}.{number}" for number in range(len(results))]
    function = {"name": "look", "arguments": arguments}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    told = [{"role": "tool", "tool_call_id": one, "content": text} for one, text in zip(ids, results, strict=True)]
    shown = {"role": "user", "content": [{"type": "text", "text": IMAGES}, *[PICTURE] * pictures]}
    return [{"role": "assistant", "content": "", "tool_calls": calls}, *told, *([shown] if pictures else [])]


class Request(NamedTuple):
    messages: list[Native]
    opening: int
    newest: int

    @property
    def pieces(self) -> list[Piece]:
        places = range(len(self.messages))
        return [Piece(self.messages[place], count_sent_tokens([self.messages[place]]), place) for place in places]


def request(*messages: Native | list[Native], guided: bool = False) -> Request:
    """A request; what stands in front, and which question is answered, is found in it."""
    flat = [one for given in messages for one in (given if isinstance(given, list) else [given])]
    opening = next((place for place, one in enumerate(flat) if one["role"] != "system"), len(flat))
    opening += 2 if flat[opening : opening + 2] == RECORD else 0
    asked = [place for place in range(opening, len(flat)) if is_question(flat[place])]
    newest = asked[-2 if guided else -1] if len(asked) > guided else len(flat)
    return Request(flat, opening, newest)


def fitted(
    given: Request,
    room: int,
    step: int = 1,
    note: str = LEFT_OUT,
    count: Callable[[str], int] = tokens.count,
    pieces: Sequence[Piece] = (),
) -> FittedMessages:
    return fit_messages(
        pieces or given.pieces,
        room=room,
        opening=given.opening,
        newest=given.newest,
        step=step,
        note=note,
        count=count,
    )


def sent(result: FittedMessages) -> list[Native]:
    return [piece.message for piece in result.pieces]


def has_note(messages: Sequence[Native]) -> bool:
    return LEFT_OUT in str(messages[:1])


def smallest(given: Request) -> int:
    """Tokens of the least that can be left of a request: no text, no picture, no answer."""
    kept = set(range(given.opening)) | {place for place, one in enumerate(given.messages) if is_question(one)}
    if len(given.messages) > given.opening and given.newest == len(
        given.messages
    ):  # then the last message stands for the question
        first = len(given.messages) - 1
        while first > given.opening and (
            given.messages[first]["role"] == "tool" or IMAGES in str(given.messages[first])
        ):
            first -= 1
        kept |= set(range(first, len(given.messages)))
    least = 0
    for place in kept:
        if place >= given.opening and place < given.newest < len(given.messages):
            continue
        message = given.messages[place]
        if message in RECORD:
            least += count_sent_tokens([message])
            continue
        least += 8 + count_sent_tokens([{**message, "content": ""}])
    return least


# --- every request


@st.composite
def texts(draw: st.DrawFn) -> str:
    size = draw(st.sampled_from([0, 3, 30, 300, 2000, 9000]))
    kind = draw(st.sampled_from(["w", "ß", "数据", "%%", "\n- x"]))
    attached = draw(st.sampled_from(["", "", "", '<attached_files>\n<file url="f1"/>\n</attached_files>\n\n']))
    blanks = " " * draw(st.sampled_from([0, 0, 0, 5000]))
    return attached + blanks + words(size, kind) if size else ""


@st.composite
def contents(draw: st.DrawFn) -> Any:
    text, pictures = draw(texts()), draw(st.sampled_from([0, 0, 0, 1, 3]))
    if pictures or draw(st.integers(0, 4)) == 0:
        return [{"type": "text", "text": text}, *[PICTURE] * pictures, {"type": "text", "text": "And?"}]
    return text


@st.composite
def answers(draw: st.DrawFn, name: str) -> list[Native]:
    made: list[Native] = []
    for number in range(draw(st.sampled_from([0, 0, 1, 2, 6]))):
        results = draw(st.lists(texts(), min_size=1, max_size=3))
        arguments = json.dumps({"text": words(draw(st.sampled_from([3, 3, 1500])))})
        made += call(*results, name=f"{name}{number}", arguments=arguments, pictures=draw(st.sampled_from([0, 0, 1])))
    return made


@st.composite
def requests(draw: st.DrawFn) -> Request:
    head = [{"role": "system", "content": draw(contents())} for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    messages: list[Any] = [*head, *(RECORD if draw(st.booleans()) else [])]
    for number in range(draw(st.sampled_from([0, 1, 4, 8]))):
        said = says(draw(texts()) or "Yes.")
        messages += [{"role": "user", "content": draw(contents())}, *draw(answers(f"t{number}-")), said]
    kind = draw(st.sampled_from(["asked", "asked", "asked", "guided", "no question"]))
    if kind != "no question":
        messages += [{"role": "user", "content": draw(contents())}, *draw(answers("r"))]
    if kind == "guided":
        messages += [says(draw(texts()) or "Yes."), asks("Shorter.")]
    if kind == "no question":
        messages = [*messages[: len(head)], *draw(answers("r"))]
    return request(*messages, guided=kind == "guided")


rooms = st.sampled_from([-50, 0, 20, 100, 400, 1000, 3000, 7000, 16_000, 60_000])


@given(requests(), rooms, st.sampled_from([1, 128, 1024]))
def test_every_request_ends_below_the_room_where_that_is_possible(given: Request, room: int, step: int) -> None:
    result = fitted(given, room, step)
    assert result.tokens == count_sent_tokens(sent(result))
    assert all(piece.tokens == count_sent_tokens([piece.message]) for piece in result.pieces)
    assert result.tokens <= room or room < smallest(given)


@given(requests(), rooms)
def test_a_request_that_fits_is_not_touched(given: Request, room: int) -> None:
    pieces = given.pieces
    whole = sum(piece.tokens for piece in pieces)
    result = fitted(given, max(room, whole), pieces=pieces)
    assert result == FittedMessages(tuple(pieces), 0, False, False, whole)
    assert all(one is other for one, other in zip(result.pieces, pieces, strict=True))
    assert describe_cuts(result) == ""


@given(requests(), rooms, st.sampled_from([1, 1024]))
def test_what_stays_is_in_order_with_whole_pairs_and_the_questions(given: Request, room: int, step: int) -> None:
    pieces = given.pieces
    before = json.dumps(given.messages)
    result = fitted(given, room, step, pieces=pieces)
    assert json.dumps(given.messages) == before, "no message is changed in place"
    places = [piece.place for piece in result.pieces if piece.place is not None]
    assert places == sorted(set(places))
    assert result.left_out == len(pieces) - len(places)
    assert set(range(given.opening)) <= set(places)
    assert {at for at in range(given.newest, len(pieces)) if is_question(given.messages[at])} <= set(places)
    assert len(pieces) == given.opening or max(places) >= given.opening, "something is left to answer"
    assert pairs_are_whole(sent(result))


@given(requests(), rooms)
def test_only_texts_and_parts_change_and_the_record_never_does(given: Request, room: int) -> None:
    pieces = given.pieces
    result = fitted(given, room, 64, pieces=pieces)
    for piece in result.pieces:
        if piece.place is None:
            assert piece.message["role"] == "system"
            continue
        old = pieces[piece.place]
        if piece.message == old.message:
            assert piece.message is old.message
        assert {*piece.message} == {*old.message}
        assert piece.message["role"] == old.message["role"]
        assert old.message not in RECORD or piece is old
        assert piece.message.get("tool_calls") == old.message.get("tool_calls")
        assert read_text(piece.message) or not read_text(old.message), "some providers refuse an empty text"


def leading_systems(messages: Sequence[Native]) -> int:
    return next((place for place, one in enumerate(messages) if one["role"] != "system"), len(messages))


@given(requests(), rooms)
def test_strict_chat_templates_take_it(given: Request, room: int) -> None:
    """One system message is not followed by another, and roles take turns as they did."""
    result = sent(fitted(given, room))
    before, after = leading_systems(given.messages), leading_systems(result)
    assert after <= max(before, 1)
    assert str(result).count(LEFT_OUT) <= 1
    if room >= 400 and given.newest < len(given.messages):
        pairs = [(one["role"], other["role"]) for one, other in pairwise(result[after:])]
        assert ("user", "user") not in [pair for pair in pairs if IMAGES not in str(result)]


@given(requests(), rooms)
def test_what_fitted_once_is_not_cut_again(given: Request, room: int) -> None:
    first = fitted(given, room)
    if first.tokens <= room:
        again = request(*sent(first))
        assert sent(fitted(again._replace(newest=len(again.messages)), room)) == sent(first)


# --- requests that grow


def changes(beginnings: list[Any]) -> int:
    return sum(one != other for one, other in pairwise(beginnings))


def growing(bodies: list[list[Native]], room: int, step: int) -> list[list[Native]]:
    return [sent(fitted(request(*body), room, step)) for body in bodies]


def test_the_beginning_stays_the_same_between_two_steps_while_turns_come() -> None:
    bodies = [
        [
            system(),
            *(one for turn in range(count) for one in (asks(f"Question {turn}"), says(words(250, f"a{turn}-")))),
            asks("So?"),
        ]
        for count in range(20, 60)
    ]
    cut = growing(bodies, 7000, 2000)
    assert all(has_note(one) for one in cut)
    assert 5 <= changes([one[1] for one in cut]) <= 14


def test_the_beginning_stays_the_same_between_two_steps_while_results_come() -> None:
    loop = [one for number in range(60) for one in call(words(150, f"r{number}-"), name=f"c{number}")]
    bodies = [[system(), asks("Look."), *loop[: 2 * count]] for count in range(14, 25)]
    cut = growing(bodies, 4500, 1000)
    assert not any(has_note(one) for one in cut)
    shortened = [sum(CUT in read_text(one) for one in body) for body in cut]
    assert shortened == sorted(shortened)
    assert 1 <= changes(shortened) <= 5


def test_the_beginning_stays_the_same_between_two_steps_while_calls_are_left_out() -> None:
    loop = [one for number in range(80) for one in call(words(100), name=f"c{number}")]
    bodies = [[system(), asks("Look."), *loop[: 2 * count]] for count in range(40, 80)]
    cut = growing(bodies, 2500, 600)
    assert all(has_note(one) for one in cut)
    assert all(read_text(one[1]) == "Look." for one in cut)
    assert 5 <= changes([one[2] for one in cut]) <= 14


# --- what goes first, by name


def test_old_results_lose_their_middle_first_the_oldest_of_them_first() -> None:
    older = [one for number in range(4) for one in (asks("?"), *call(words(900), name=f"c{number}"), says("!"))]
    given = request(system(), older, asks("So?"), call(words(900, "new"), name="new"))
    whole = sum(piece.tokens for piece in given.pieces)
    result = fitted(given, whole - 1000)
    assert [CUT in read_text(one) for one in sent(result) if one["role"] == "tool"] == [True, True, False, False, False]
    assert (result.left_out, result.results, result.shortened) == (0, True, False)
    assert describe_cuts(result) == "shortened older tool results to make room"
    short, long = read_text(sent(result)[3]), read_text(given.messages[3])
    assert short.startswith(long[:150])
    assert short.endswith(long[-60:])


def test_a_result_that_the_model_has_not_read_stays_whole_while_turns_can_go() -> None:
    older = [one for number in range(6) for one in (asks(f"Question {number}"), says(words(300)))]
    given = request(system(), older, asks("Look."), call(words(900, "new")))
    result = fitted(given, 2000)
    assert sent(result)[-3:] == given.messages[-3:]
    assert result.left_out
    assert not result.shortened


def test_the_newest_result_is_unread_also_in_a_request_without_a_question() -> None:
    given = request(system(), call(words(900), name="a"), call(words(900), name="b"))
    one, other = (read_text(message) for message in sent(fitted(given, 1500)) if message["role"] == "tool")
    assert CUT in one
    assert CUT not in other


def test_whole_turns_go_from_the_oldest_on_for_a_note_in_the_system_message() -> None:
    older = [one for number in range(8) for one in (asks(f"Question {number}"), says(words(300)))]
    given = request(system(), RECORD, older, asks("So?"))
    result = fitted(given, 1500, note=make_note(recall=True))
    prompt, *record = sent(result)[:3]
    assert prompt["content"] == f"{given.messages[0]['content']}\n\n{LEFT_OUT}\n{OFFERED}"
    assert record == RECORD
    assert sent(result)[3:] == given.messages[-(len(result.pieces) - 3) :]
    assert sent(result)[3]["role"] == "user"
    assert describe_cuts(result) == f"left out {result.left_out} older messages to make room"
    assert 1500 - 350 < result.tokens <= 1500


@pytest.mark.parametrize("content", ["Be brief.", [{"type": "text", "text": "Be brief."}]], ids=["text", "list"])
def test_the_note_is_not_repeated_in_a_later_call(content: Any) -> None:
    older = [one for number in range(8) for one in (asks(f"Question {number}"), says(words(300)))]
    given = request({"role": "system", "content": content}, older, asks("So?"))
    first = sent(fitted(given, 1500))
    assert read_text(first[0]) == f"Be brief.\n\n{LEFT_OUT}"
    again = sent(fitted(request(*first, call(words(900))), 1500))
    assert str(again).count(LEFT_OUT) == 1
    assert len(again) < len(first) + 2


def test_a_request_without_a_system_message_gets_one_for_the_note() -> None:
    result = fitted(request(asks("Hi"), says(words(900)), asks("So?")), 200)
    note, question = result.pieces
    assert note.message == {"role": "system", "content": LEFT_OUT}
    assert note.place is None
    assert (question.place, result.left_out) == (2, 2)


def test_the_oldest_calls_of_the_running_turn_go_with_their_results_and_pictures() -> None:
    loop = [one for number in range(64) for one in call(words(60), words(60), name=f"c{number}", pictures=number == 0)]
    given = request(system(), asks("Look."), loop)
    result = fitted(given, 3000, step=500)
    assert sent(result)[1] == given.messages[1]
    assert sent(result)[2:] == given.messages[-(len(result.pieces) - 2) :]
    assert has_note(sent(result))
    assert not result.shortened
    assert 3000 - 500 - 300 < result.tokens <= 3000


def test_pictures_of_tools_are_no_question_and_no_turn_begins_with_them() -> None:
    older = [asks("Look."), *call("seen", pictures=1), says(words(300))]
    result = fitted(request(system(), older, asks("So?")), 1000)
    assert [one["role"] for one in sent(result)] == ["system", "user"]


def test_a_giant_question_loses_its_middle_and_keeps_both_ends_and_the_list_of_its_files() -> None:
    head = '<attached_files>\n<file url="f1"/>\n</attached_files>\n\n'
    question = {"role": "user", "content": [PICTURE, {"type": "text", "text": f"{head}BEGIN {words(30_000)} END"}]}
    result = fitted(request(system(), question), 4000)
    text = read_text(sent(result)[1])
    assert text.startswith(f"{head}BEGIN w0 w1")
    assert text.endswith(" END")
    assert CUT in text
    assert sent(result)[1]["content"][1:] == [PICTURE]
    assert 3500 < result.tokens <= 4000
    assert describe_cuts(result) == "left out parts of long messages to make room"


def test_a_giant_question_does_not_cost_the_model_its_earlier_calls() -> None:
    loop = [one for number in range(10) for one in call(words(60), name=f"c{number}")]
    given = request(system(), asks(words(20_000)), loop)
    result = fitted(given, 4000)
    assert not result.left_out
    assert CUT in read_text(sent(result)[1])
    assert 3500 < result.tokens <= 4000


def test_the_system_message_is_cut_last() -> None:
    given = request(system(2000), asks(words(2000)), call(words(2000)))
    some, more = sent(fitted(given, 3000)), sent(fitted(given, 1500))
    assert some[0] == given.messages[0]
    assert CUT in read_text(some[1])
    assert CUT in read_text(more[0])
    assert len(more) == 4


def test_pictures_go_only_where_shorter_texts_are_not_enough_the_oldest_first() -> None:
    shown = [{"type": "image_url", "image_url": {"url": str(number)}} for number in range(3)]
    question = {"role": "user", "content": [{"type": "text", "text": words(1500)}, *shown]}
    enough, less = fitted(request(system(), question), 3500), fitted(request(system(), question), 2900)
    assert sent(enough)[1]["content"][1:] == shown
    assert sent(less)[1]["content"][-2:] == shown[1:]
    assert NO_FILE in read_text(sent(less)[1])
    assert less.shortened


def test_a_picture_that_is_left_out_alone_is_told() -> None:
    question = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, PICTURE]}
    result = fitted(request(system(), question), 500)
    assert NO_FILE in read_text(sent(result)[1])
    assert describe_cuts(result) == "left out parts of long messages to make room"


def test_a_call_whose_arguments_do_not_fit_goes_with_its_result() -> None:
    given = request(system(), asks("Write it."), call("done", arguments=json.dumps({"text": words(5000)})))
    result = fitted(given, 1000)
    assert has_note(sent(result))
    assert sent(result)[1:] == [given.messages[1]]


def test_a_question_that_is_answered_again_stays_with_its_answer_and_the_instruction() -> None:
    older = [one for number in range(8) for one in (asks(f"Question {number}"), says(words(300)))]
    given = request(system(), older, asks("How tall?"), says(words(6000)), asks("In metres."), guided=True)
    again, tall, instruction = sent(fitted(given, 2000))[-3:]
    assert (again, instruction) == (given.messages[-3], given.messages[-1])
    assert CUT in read_text(tall)


def test_where_nothing_is_enough_the_question_can_still_be_read() -> None:
    given = request(system(400), asks("How tall is it? " + words(3000)), call(words(3000)))
    result = fitted(given, -100)
    assert result.tokens > 0
    assert read_text(sent(result)[1]).startswith("How tall is it?")


def test_a_text_without_room_is_not_empty() -> None:
    """Some providers refuse an empty text."""
    assert sent(fitted(request(asks(words(3000))), 6)) == [asks("…")]


def test_something_is_left_to_answer_where_nobody_asked() -> None:
    given = request(system(), call("one", name="a"), call("two", name="b"))
    result = fitted(given, 10)
    assert result.tokens > 10
    assert sent(result)[-2:] == given.messages[-2:]


@pytest.mark.parametrize("room", range(1000, 1400, 8))
def test_the_note_has_its_room(room: int) -> None:
    older = [one for number in range(8) for one in (asks(f"Question {number}"), says(words(300)))]
    result = fitted(request(system(), older, asks("So?")), room)
    assert has_note(sent(result))
    assert result.tokens <= room


# --- effort


def test_a_giant_text_is_counted_in_pieces_that_are_as_short_as_what_stays() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return tokens.count(text)

    given = request(system(), asks(words(200_000)))
    whole = len(read_text(given.messages[1]))
    fitted(given, 4000, count=count)
    assert sum(counted) < whole // 4
    assert len(counted) < 12


def test_the_counts_grow_with_the_request_and_not_faster() -> None:
    def effort(size: int) -> int:
        counted: list[int] = []
        older = [
            one for number in range(size) for one in (asks("?"), *call(words(300), name=f"c{number}"), says(words(50)))
        ]
        given = request(system(), older, asks("So?"))

        def count(text: str) -> int:
            counted.append(len(text))
            return tokens.count(text)

        fitted(given, 2000, step=250, count=count)
        return sum(counted)

    assert effort(80) < 5 * effort(20)
