"""The gate: which clauses of a state may stand. Values that nobody said go, true ones stay in any script."""

import tomllib
from importlib import resources

import pytest

from service.summarising import gate
from service.summarising.gate import SourceEvidence, Verdict
from service.summarising.reading import Finish, Reply


def founded(line: str, *covered: str, language: str | None = "en") -> tuple[str, list[str]]:
    """What is left of a line, and the clauses that were cut."""
    kept, dropped, _ = gate.verify_state([line], SourceEvidence(covered, language))
    return "\n".join(kept), [one.line for one in dropped]


@pytest.mark.parametrize(
    ("line", "cut"),
    [
        ("Ship it by 2027-01-02; the tests pass.", "Ship it by 2027-01-02;"),
        ("还有50美元，已退款15美元。", "还有50美元，"),
        ("The file is /srv/other.csv, and all is well.", "The file is /srv/other.csv,"),
        ("All is well (see ZX-77).", "(see ZX-77)"),
        ("It was Rasmussen who asked, and all is well.", "It was Rasmussen who asked,"),
        ("500 EUR and 15 EUR make 525 EUR, and all is well.", "500 EUR and 15 EUR make 525 EUR,"),
    ],
)
def test_a_clause_with_what_nobody_said_is_cut_and_not_its_line(line: str, cut: str) -> None:
    said = "Our budget is 500 EUR. All is well and the tests pass. Ship it. It was asked. 15美元"
    left, dropped = founded(line, said)
    assert dropped[0] == cut
    assert cut not in left


@pytest.mark.parametrize(
    "line",
    [
        "3,800 € and 1,500 € make 5,300 €.",
        "210 portions at 4.5 € are 945 €.",
        "Of 3,800 € and 700 € spent, 3,100 € are left.",
    ],
)
def test_sums_rests_and_products_of_values_beside_them_stand(line: str) -> None:
    said = "3,800 € from the town, 1,500 € from us, 5,300 €; 700 €, 1,300 €, 650 €, 2,650 €. 210 portions, 4.5 € each."
    assert founded(line, said) == (line, [])


def test_a_rest_of_the_total_on_the_line_above_stands() -> None:
    grounds = SourceEvidence(["In all 5,300 €. The band takes 700 €."], "en")
    state = ["The budget is 5,300 €.", "After 700 € for the band, 4,600 € are left."]
    assert gate.verify_state(state, grounds)[:2] == (tuple(state), ())


def test_nouns_are_no_names_in_german_and_where_the_language_is_unknown() -> None:
    line = "Dann kam die Rechnung von gestern."
    assert founded(line, "es kam etwas", language="de") == (line, [])
    assert founded(line, "es kam etwas", language=None) == (line, [])


def test_what_a_summariser_is_asked_about_is_named_once_each_and_bounded() -> None:
    state = [f"There are {number} of them." for number in range(1000, 1100)]
    violations = gate.verify_state(state, SourceEvidence(["nothing"], "en")).violations
    assert len(violations) == 12
    assert violations[0].reason == "“There are 1000 of them.”: 1000 does not occur"


def test_another_language_than_the_conversations_is_asked_about() -> None:
    german = "Die Rechnungen werden morgen verschickt und der Kunde hat noch nicht geantwortet."
    (violation,) = gate.verify_state([german], SourceEvidence([german], "en")).violations
    assert violation.kind == "other_language"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply("", Finish.STOP), "empty"),
        (Reply("## Goal", Finish.OTHER), "unfinished"),
        (Reply("<think>so</think>", Finish.STOP), "reasoning"),
        (Reply('{"name": "search", "arguments": {}}', Finish.STOP), "protocol"),
        (Reply("I'm sorry, but I can't.", Finish.STOP), "refusal"),
    ],
)
def test_what_is_no_answer_is_rejected(reply: Reply, kind: str) -> None:
    found = gate.find_rejection(reply)
    assert found
    assert found.kind == kind


def test_a_stored_verdict_is_bounded() -> None:
    dropped = tuple(gate.DroppedClause("x" * 10_000, "because") for _ in range(500))
    stored = Verdict("trimmed", ("why",), dropped, ("y" * 10_000,) * 500, left_out=3, masked=2).as_json()
    assert len(str(stored)) < 10_000
    assert (stored["left_out"], stored["masked"]) == (3, 2)


MARKS = [
    (kind, mark)
    for kind, marks in tomllib.loads(
        resources.files("service.summarising").joinpath("gate.toml").read_text("utf-8")
    ).items()
    for mark in marks
]


@pytest.mark.parametrize(("kind", "mark"), MARKS)
def test_each_mark_is_proved_by_an_example_and_a_counterexample(kind: str, mark: dict[str, str]) -> None:
    (pattern,) = (one for one in gate.load_patterns()[kind] if one.pattern == mark["pattern"])
    assert pattern.search(mark["example"])
    assert not pattern.search(mark["counterexample"])
