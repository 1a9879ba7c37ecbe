"""What is found, what a reference means, and what is shown of it."""

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.recall import display, parts
from service.recall.display import PageRequest, render_page
from service.recall.ranking import rank_passages
from service.recall.references import Target, UnknownReference, resolve
from service.summarising.markup import make_harmless
from service.text import tokens
from service.transcript import Message, parse
from tests.builders import Json, answer, called, returned, said, user


def path_of(*messages: Message) -> list[list[parts.SearchedPart]]:
    return [parts.make_parts(message) for message in messages]


def spoken(texts: Sequence[str]) -> list[list[parts.SearchedPart]]:
    """A chat in which user and assistant take turns."""
    made = [user(text, f"u{n}") if n % 2 == 0 else answer(text=text, identity=f"a{n}") for n, text in enumerate(texts)]
    return path_of(*map(parse, made))


def test_words_in_another_form_find_the_message() -> None:
    chat = ["Wir planen den Umbau.", "Die Rechnungen von Frau Müller liegen im Ordner.", "Am Dienstag kommt jemand."]
    assert rank_passages(spoken(chat), "Wo ist die Rechnung von Muller?", "de", 10)[0].message == 1


FILLER = [f"Somebody talks about topic {word} here." for word in ("a", "b", "c", "d", "e", "f")]


@pytest.mark.parametrize(
    ("texts", "question", "first"),
    [
        (["The pump is loud.", *FILLER[:5], "The pump is loud."], "pump", 6),
        (["The pump is loud.", *FILLER, "The pump is loud."], "pump", 0),
        (["Code 4021.", *FILLER[:5], "Code 4021."], "4021", 6),
        (["It is P-12 again.", *FILLER[:5], "It is P-13 again."], "P-12", 0),
    ],
)
def test_of_equals_a_users_and_the_newest_come_first(texts: list[str], question: str, first: int) -> None:
    assert rank_passages(spoken(texts), question, "en", 10)[0].message == first


LONG = " ".join(f"We talk about many other things, number {number}." for number in range(60))


def test_a_long_answer_is_found_by_the_block_that_has_the_words() -> None:
    answered = "\n".join([LONG, "The kiln draws 4,711 watts.", LONG])
    (hit,) = rank_passages(spoken(["Tell me all.", answered]), "kiln watts", "en", 10)
    assert hit.part.passages[hit.passage].split()[:3] == ["the", "kiln", "draws"]


PLACES = ["kiln", "bay", "valve", "pressure"]
SCATTERED = [f"Tell me about the {one}. " + LONG[:60] + "." for one in PLACES]


@pytest.mark.parametrize("by_user", [True, False])
def test_a_sentence_with_all_words_comes_before_messages_that_have_them_one_by_one(by_user: bool) -> None:
    detail = LONG + " The valve of the kiln in the bay holds a pressure of 7 bar. " + LONG
    chat = [" ".join(SCATTERED), "I see."] * 8
    chat[8 if by_user else 9] = detail
    hit = rank_passages(spoken(chat), " ".join(PLACES), "en", 1)[0]
    assert hit.message == (8 if by_user else 9)
    assert {"holds", "7"} <= set(hit.part.passages[hit.passage].split())


def test_a_message_with_all_words_comes_before_sentences_that_have_a_few_of_them() -> None:
    """Each pair of words stands together in some sentence; all of them only in the sentences of one message."""
    words = ["walnut", "copper", "meadow", "anchor", "velvet", "granite"]
    pairs = [f"The {one} and the {other} came." for one in words for other in words if one < other]
    texts = [text for pair in pairs for text in ("So?", pair)]
    whole = " ".join(f"There was a {word} in the old house by the river." for word in words)
    path = spoken([*texts[:20], "So?", whole, *texts[20:]])
    assert rank_passages(path, " ".join(words), "en", 5)[0].message == 21


def test_messages_beside_a_hit_are_no_hits_of_their_own() -> None:
    chat = spoken([*FILLER, "The pump is loud.", "Which pump?", "The red pump.", *FILLER])
    shown = set[int]()
    for hit in rank_passages(chat, "pump", "en", 10):
        assert hit.message not in shown
        shown |= {hit.message, *hit.neighbours}
    assert shown >= {6, 7, 8}


def test_a_question_is_shown_with_what_follows_and_an_answer_in_the_middle() -> None:
    chat = spoken([LONG, LONG, "Which pump is in the hall?", "The second.", "Go on.", LONG])
    assert rank_passages(chat, "pump hall", "en", 1)[0].neighbours == (3, 4)
    assert rank_passages(chat, "second", "en", 1)[0].neighbours == (2, 4)


def test_no_more_hits_than_asked_for_and_none_without_the_words() -> None:
    chat = spoken([f"Pump {number} is loud." if number % 3 == 0 else "Yes." for number in range(60)])
    assert len(rank_passages(chat, "pump", "en", 7)) == 7
    assert rank_passages(chat, "kiln", "en", 7) == []
    assert rank_passages(chat, " …?! ", "en", 7) == []
    assert rank_passages([], "pump", "en", 7) == []


# ---- results of tools


def looked(*results: str, name: str = "query", arguments: str = "{}") -> Message:
    items: list[Json] = []
    for number, result in enumerate(results):
        items += [called(f"c{number}", name, arguments), returned(f"c{number}", result)]
    return parse(answer(*items, said("Done.")))


TABLE = "\n".join(f"row {number}: valve V-{number:03d}" for number in range(100))


RECORDS = [
    {"no": f"R-{number:03d}", "customer": customer, "city": city, "total": total, "state": state}
    for number, (customer, city, total, state) in enumerate(
        (customer, city, f"{1 + len(customer) % 7},{250 + 7 * len(state)}.50", state)
        for customer in ("Müller", "Okafor", "De Vries", "陈志远", "الحداد")
        for city in ("Lyon", "Würzburg", "苏州")
        for state in ("paid", "unpaid", "overdue")
    )
]
FORMS = {
    "csv": [",".join(f'"{cell}"' for cell in one.values()) for one in RECORDS],
    "columns": ["".join(f"{cell:16}" for cell in one.values()).strip() for one in RECORDS],
    "markdown": [f"| {' | '.join(one.values())} |" for one in RECORDS],
    "yaml": ["- " + "\n  ".join(f"{head}: {cell}" for head, cell in one.items()) for one in RECORDS],
    "json": [json.dumps(one, ensure_ascii=False) for one in RECORDS],
    "arrays": [json.dumps([*one.values()], ensure_ascii=False) for one in RECORDS],
    "pretty": [json.dumps(one, ensure_ascii=False, indent=1) for one in RECORDS],
}
ONE_LINE = ("json", "arrays")
TALK = ["Is Müller in Lyon again? Somebody is unpaid.", "De Vries? Würzburg? Overdue, they said."] * 6


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("customer Muller unpaid lyon", 1),
        ("De Vries overdue Wurzburg", 23),
        ("陈志远 苏州 paid", 33),
        ("الحداد Lyon overdue", 38),
    ],
)
def test_a_row_is_shown_by_words_of_it_in_any_form_of_table(form: str, question: str, wanted: int) -> None:
    rows = FORMS[form]
    result = f"[{', '.join(rows)}]" if form in ONE_LINE else "\n".join(rows)
    chat = [*(parse(user(text, f"u{number}")) for number, text in enumerate(TALK)), looked(result)]
    hits = rank_passages(path_of(*chat), question, "en", 6)
    told = display.render_hits(hits, dict(enumerate(chat)), [0] * len(chat), 2000)
    row = " ".join(rows[wanted].strip("{}[]").split())
    assert make_harmless(row) in told.text
    assert "T1 query()" in told.text


def test_the_lines_of_a_row_are_told() -> None:
    path = [looked(TABLE)]
    told = display.render_hits(rank_passages(path_of(*path), "valve 057", "en", 5), dict(enumerate(path)), [0], 2000)
    assert "T1 query(), line 58 of 100: row 57: valve V-057" in told.text.splitlines()


def test_what_was_stored_before_there_were_passages_is_found_and_shown_as_a_block() -> None:
    message = looked(TABLE)
    stored = parts.SearchedPart(1, 41, 80, False, "query row valve v v-057 057 57")
    hits = rank_passages([[stored]], "valve 057", "en", 5)
    told = display.render_hits(hits, {0: message}, [0], 2000)
    assert "lines 41–80 of 100" in told.text
    assert "row 57: valve V-057" in told.text


CODE = """def total_of(rows):
    return sum(row.net_amount for row in rows)


def unpaidInvoices(rows, limit=40):
    return [row for row in rows if row.state != PAID][:limit]
"""


@pytest.mark.parametrize(
    ("question", "line"),
    [("net amount sum", 2), ("unpaidInvoices", 5), ("unpaid invoices limit", 5), ("state PAID", 6)],
)
def test_a_line_of_code_is_found_by_names_and_their_parts(question: str, line: int) -> None:
    message = looked(CODE)
    (first, *_) = rank_passages(path_of(message), question, "en", 5)
    assert f", line {line} of 7: " in display.render_hits([first], {0: message}, [0], 2000).text


def test_a_result_is_found_with_the_number_of_its_call() -> None:
    found = rank_passages(path_of(looked(TABLE, "the harbour")), "harbour", "en", 10)[0].part
    assert (found.call, found.first, found.last) == (2, 1, 1)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", [(1, 1)]),
        ("\n" * 40, [(1, 40), (41, 41)]),
        ("x" * 1001, [(1, 2)]),
        ("x" * 9000, [(1, 4), (5, 8), (9, 9)]),
        ("\n".join(["x" * 900] * 10), [(1, 4), (5, 8), (9, 10)]),
    ],
)
def test_a_result_is_cut_into_blocks_of_lines(text: str, blocks: list[tuple[int, int]]) -> None:
    assert [(one.first, one.last) for one in parts.make_parts(looked(text)) if one.call] == blocks


def test_the_words_of_a_call_find_its_result_and_what_was_looked_up_before_does_not() -> None:
    path = path_of(looked("4 and 5", name="read_meter", arguments='{"hall": "north"}'))
    assert rank_passages(path, "meter north", "en", 10)[0].part.call == 1
    copied = path_of(looked("M1 user: the harbour", name="precis_recall"))
    assert rank_passages(copied, "harbour", "en", 10) == []


# ---- references

# Three messages: no call; two steps with one and two calls; one step without.
PATH = [[0], [1, 2], [0]]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("T1", Target(1, 1, 0)),
        ("T3", Target(1, 3, 0)),
        ("T 2", Target(1, 2, 0)),
        ("T0", UnknownReference(("T1", "T2", "T3"))),
        ("M3", Target(2, 0, 3)),
        ("M4", UnknownReference(("M1", "M2", "M3"))),
        ("1", Target(0, 0, 0)),
        ("3.1", Target(1, 0, 0)),
        ("0.1", UnknownReference(("M1", "M2", "M3"))),
        ("call-abc", UnknownReference(("M1", "M2", "M3"))),
        ("T1x", UnknownReference(("M1", "M2", "M3"))),
    ],
)
def test_a_reference_means_the_same_for_ever(reference: str, expected: Target | UnknownReference) -> None:
    assert resolve(reference, PATH) == expected
    if isinstance(expected, Target):
        assert resolve(reference, [*PATH, [3]]) == expected


def test_a_path_without_calls_or_messages_has_no_reference() -> None:
    assert resolve("T1", [[0]]) == resolve("M1", []) == UnknownReference(())


# ---- pages

LINES = st.text(alphabet="ab 0\n\r\t中é|<[`\u2028", max_size=80) | st.text(max_size=60)
RESULTS = st.lists(LINES | st.integers(900, 2500).map("x".__mul__), max_size=12).map("\n".join)


def pages(text: str, room: int, grep: str = "") -> list[display.Finding]:
    """All pages of a result."""
    message, found = looked(text), list[display.Finding]()
    line: int | None = 1
    while line:
        found.append(render_page(message, PageRequest(Target(0, 1, 0), line, grep, room)))
        assert found[-1].line is None or found[-1].line > line
        line = found[-1].line
    return found


@given(RESULTS, st.sampled_from([200, 400, 2000]))
def test_the_pages_of_any_text_make_it_up(text: str, room: int) -> None:
    whole = looked(text).items  # as it is stored
    stored = next(item.text for item in whole if hasattr(item, "call_id") and hasattr(item, "text"))
    rest = stored
    for one in pages(text, room):
        assert rest.startswith(one.content)
        # Between pages stands a line end, unless a long line was cut there.
        rest = rest[len(one.content) :]
        rest = rest.removeprefix("\n") if one.line else rest
    assert rest == ""


@given(RESULTS)
def test_every_page_has_line_numbers_and_keeps_to_its_room(text: str) -> None:
    for one in pages(text, 600):
        numbered = one.text.split("\n")[1:]
        assert re.match(r"\d+\| ", numbered[0])
        # A single line of 1,000 characters may need more than the room, and is shown all the same.
        assert tokens.count(one.text) <= 600 or len(re.findall(r"^\d+\| ", one.text, re.MULTILINE)) == 1


@given(st.lists(st.sampled_from(["pump", "PUMP 7", "kiln", "", "x" * 1500]), max_size=40))
def test_grep_shows_the_lines_with_the_text_and_two_around_each(rows: list[str]) -> None:
    stored = "\n".join(rows)
    cut = [stored[span] for span in parts.split_lines(stored)]
    having = [number for number, line in enumerate(cut, 1) if "pump" in line.lower()]
    near = {one for number in having for one in range(number - 2, number + 3) if 1 <= one <= len(cut)}
    told = [one.text for one in pages(stored, 8000, "Pump")]
    numbers = {int(number) for one in told for number in re.findall(r"^(\d+)\| ", one, re.MULTILINE)}
    assert numbers == near
    assert bool(having) or "no line with these words" in told[0]


def test_a_line_behind_the_end_is_answered_with_how_many_there_are() -> None:
    answered = render_page(looked("a\nb"), PageRequest(Target(0, 1, 0), 9))
    assert "fewer lines (2 in all)" in answered.text
    assert (answered.content, answered.references, answered.line) == ("", (), None)


# ---- an index

CHAT = [parse(user(f"Topic {number}. " + "Many words stand here. " * 30, f"u{number}")) for number in range(30)]


@pytest.mark.parametrize("room", [200, 400, 800, 2000, 8000])
def test_an_index_keeps_to_its_room_and_shows_a_neighbour_once(room: int) -> None:
    hits = rank_passages(path_of(*CHAT), "words", "en", 10)
    told = display.render_hits(hits, dict(enumerate(CHAT)), [0] * 30, room)
    assert tokens.count(told.text) <= room
    assert told.line == len(told.references) + 1 <= 6
    assert len(told.references) == len(re.findall(r"^M\d+ user", told.text, re.MULTILINE)) >= 1
    beside = re.findall(r"beside it (M\d+)", told.text)
    assert len(beside) == len(set(beside))


@given(st.text(max_size=900), st.integers(0, 900), st.integers(0, 700), st.integers(0, 220))
def test_a_place_is_shown_with_the_words_around_it_and_no_longer_than_asked(
    text: str, start: int, size: int, most: int
) -> None:
    place = slice(min(start, len(text)), min(start + size, len(text)))
    shown_words = display.clip(text, place, most)
    assert len(shown_words) <= max(most, min(size, 600)) + 2
    assert " ".join(text[place][:600].split()) in shown_words
    assert shown_words.strip("…").strip() in " ".join(text.split()) or not shown_words.strip("…").strip()


@pytest.mark.parametrize("most", range(1, 120))
def test_no_word_beside_a_place_is_cut(most: int) -> None:
    told = ["kiln", "4,711", "watts."] * 20
    start = len(" ".join([*told[:31], ""]))
    shown_words = display.clip(" ".join(told), slice(start, start + len(told[31])), most)
    assert set(shown_words.strip("…").split()) <= set(told)


def test_of_a_long_message_beside_a_hit_the_words_around_a_found_one_are_shown() -> None:
    long_answer = "lorem ipsum " * 60 + "the kiln in bay C12-345 draws 4,711 watts " + "dolor sit " * 200
    chat = [parse(user("Does the heron fly to C12-345?", "a")), parse(answer(text=long_answer))]
    hits = rank_passages(path_of(*chat), "heron C12-345", "en", 1)
    told = display.render_hits(hits, dict(enumerate(chat)), [0, 0], 2000).text
    assert told.splitlines()[1].startswith("M1")
    assert re.search(r"beside it M2 assistant: ….*in bay C12-345 draws 4,711 watts.*…", told)


def test_an_index_shows_the_best_hit_in_any_room() -> None:
    hits = rank_passages(path_of(*CHAT), "words", "en", 10)
    assert len(display.render_hits(hits, dict(enumerate(CHAT)), [0] * 30, 10).references) == 1
