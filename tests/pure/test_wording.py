"""Texts that are cut to a line: between words, and numbers, ids and URLs are whole or not there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising.ledger import wording


@given(
    st.lists(
        st.from_regex(r"[a-z]{1,9}|[0-9]{1,12}(\.[0-9]+)?|https://[a-z]{1,30}/[0-9]{1,20}", fullmatch=True), min_size=1
    ),
    st.integers(20, 120),
)
def test_a_cut_is_between_words(words: list[str], limit: int) -> None:
    text = " ".join(words)
    cut = wording.line(text, limit)
    assert len(cut) <= limit
    if cut != text and not cut.startswith("["):
        assert cut.endswith("…")
        kept = cut[:-1].split()
        assert kept == words[: len(kept)]


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("it costs 12 847.50 EUR", 18, "it costs…"),
        ("it costs 12847.50 EUR", 20, "it costs…"),
        ("see https://a.example/b,c,d/e now", 24, "see…"),
        ("alpha,beta,gamma,delta,epsilon", 20, "alpha,beta,gamma,…"),
        ("移行は金曜日までに12847件完了します", 12, "移行は金曜日まで…"),
        ("x" * 900, 60, "[900 characters]"),
        ("one two" + " " * 900 + "3", 60, "one…"),
    ],
)
def test_numbers_ids_and_urls_are_shown_whole_or_not_at_all(text: str, limit: int, shown: str) -> None:
    assert wording.line(text, limit) == shown
